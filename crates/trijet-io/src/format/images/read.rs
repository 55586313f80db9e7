//! Reads a folder of images.
//!
//! A chunk has whole images, because a PNG file can only be decoded as a whole.

use super::form::{Form, damage_of, decoding, is_damaged_image};
use super::left_out::LeftOut;
use super::order;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::damaged::{DamagedImage, DamagedImages};
use crate::file_error;
use crate::format::contract::{Opened, Reader, has_extension, open_regular};
use crate::item::Item;
use crate::parallel::each_part;
use crate::shown::shown;
use png::Decoder;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::Dtype;
use trijet::Result;
use trijet_codecs::swap_in_place;

#[derive(Debug)]
struct ImagesReader {
    folder: PathBuf,
    names: Vec<OsString>,
    items: Vec<Item>,
    form: Form,
    /// The damaged images that were found so far. `None` if a damaged image is an error.
    damaged: Option<Arc<DamagedImages>>,
}

/// The treatment of damaged images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Refused,
    Skipped,
}

/// Opens a folder of images, and reads the header of every image.
pub(super) fn open(folder: &Path) -> Result<Opened> {
    opened(folder, Damage::Refused).map(|(opened, _)| opened)
}

/// Opens a folder as [`open`] does, but accepts damaged images. For a damaged image, the reader
/// returns zeros, and adds the image to the returned list.
pub(crate) fn open_skipping(folder: &Path) -> Result<(Opened, Arc<DamagedImages>)> {
    opened(folder, Damage::Skipped)
}

fn opened(folder: &Path, damage: Damage) -> Result<(Opened, Arc<DamagedImages>)> {
    let mut left_out = LeftOut::default();
    let names = png_names(folder, &mut left_out);
    let names = names.map_err(|error| file_error::io("open", folder, error))?;
    if let Some(name) = left_out.first_tiff() {
        let cause = "is a TIFF file in a folder of PNG images; a stack has images of one format";
        return Err(file_error::refused("open", &folder.join(name), cause));
    }
    let (mut items, mut broken) = (Vec::new(), Vec::new());
    let mut first: Option<(Form, &OsString)> = None;
    for (index, name) in (0..).zip(&names) {
        let path = folder.join(name);
        let (file, metadata) = open_regular(&path)?;
        items.push(Item::new(name.clone(), &metadata));
        let form = match (header(&path, file, &mut left_out), damage) {
            (Err(error), Damage::Skipped) if is_damaged_image(&error) => {
                broken.push((index, name, error));
                continue;
            }
            (form, _) => form?,
        };
        let (wanted, first) = *first.get_or_insert((form, name));
        if form != wanted {
            let first = shown(first);
            let cause = format!(
                "is {form}, but {first} is {wanted}: all images must have one size and depth"
            );
            return Err(file_error::refused("open", &path, cause));
        }
    }
    let Some((form, _)) = first else {
        let none = || file_error::refused("open", folder, "the folder has no .png file");
        return Err(broken.into_iter().next().map_or_else(none, |(.., error)| error));
    };
    let damaged = Arc::new(DamagedImages::default());
    for (index, name, error) in broken {
        let why = damage_of(&error).unwrap_or_default();
        damaged.add(index, DamagedImage { name: name.clone(), why });
    }
    let shape = vec![names.len() as u64, u64::from(form.height), u64::from(form.width)];
    let array = Array::new(form.dtype, shape)
        .map_err(|error| error.context(format!("open {}", shown(folder))))?;
    let left_out = left_out.words(&names);
    let reader = Box::new(ImagesReader {
        folder: folder.to_owned(),
        names,
        items: items.clone(),
        form,
        damaged: (damage == Damage::Skipped).then(|| Arc::clone(&damaged)),
    });
    let height = u64::from(form.height);
    let annotations = Annotations::default();
    let (granule, whole_rows) = (height, height);
    let opened = Opened { array, granule, whole_rows, items, left_out, annotations, reader };
    Ok((opened, damaged))
}

/// The names of the images in their natural order. A file whose name starts with a dot is skipped,
/// because some systems store metadata in such files, for example in `._a.png` beside `a.png`.
fn png_names(folder: &Path, left_out: &mut LeftOut) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if has_extension(Path::new(&name), "png") {
            names.push(name);
        } else {
            left_out.see_file(name);
        }
    }
    order::sort(&mut names);
    Ok(names)
}

/// A reader that repeats a read after a signal has interrupted it. Without this, the decoder would
/// return the interruption as an error.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<R: Seek> Seek for Whole<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Reads the form of an image from its header.
fn header(path: &Path, file: File, left_out: &mut LeftOut) -> Result<Form> {
    let mut file = BufReader::new(Whole(file));
    let mut decoder = Decoder::new(&mut file);
    let info = decoder.read_header_info().map_err(|error| decoding("open", path, error))?;
    let form = Form::of("open", path, info)?;
    left_out.see_chunks(&mut file).map_err(|error| file_error::io("open", path, error))?;
    Ok(form)
}

/// Reads the images `names` of the folder `path`, one after another. Each image must have the form
/// `form`. `open` opens an image, by its name and its path.
pub(super) fn decode(
    path: &Path,
    names: &[OsString],
    form: Form,
    into: &mut [u8],
    mut open: impl FnMut(&OsStr, &Path) -> Result<File>,
) -> Result<()> {
    let Some(bytes) = into.len().checked_div(names.len()) else { return Ok(()) };
    for (name, image) in names.iter().zip(into.chunks_exact_mut(bytes)) {
        let path = path.join(name);
        decode_one(&path, open(name, &path)?, form, image)?;
    }
    Ok(())
}

fn decode_one(path: &Path, file: impl Read + Seek, form: Form, into: &mut [u8]) -> Result<()> {
    let damaged = |error| decoding("read", path, error);
    let file = BufReader::new(Whole(file));
    let mut reader = Decoder::new(file).read_info().map_err(damaged)?;
    // The file may have been replaced since the header was read.
    if Form::of("read", path, reader.info())? != form {
        let cause = format!("the file has changed: it was {form} before");
        return Err(file_error::damaged("read", path, cause));
    }
    reader.next_frame(into).map_err(damaged)?;
    reader.finish().map_err(damaged)?;
    if form.dtype == Dtype::U16 {
        swap_in_place(2, into);
    }
    Ok(())
}

impl ImagesReader {
    /// Reads the image with this index in the stack.
    fn read_one(&self, index: usize, into: &mut [u8]) -> Result<()> {
        let name = &self.names[index];
        let path = self.folder.join(name);
        let (file, metadata) = open_regular(&path)?;
        if self.items[index] != Item::new(name.clone(), &metadata) {
            let cause = "the file has changed since the run began";
            return Err(file_error::damaged("read", &path, cause));
        }
        let read = decode_one(&path, file, self.form, into);
        match (&read, &self.damaged) {
            (Err(error), Some(damaged)) => match damage_of(error) {
                Some(why) => {
                    into.fill(0);
                    damaged.add(index as u64, DamagedImage { name: name.clone(), why });
                    Ok(())
                }
                None => read,
            },
            _ => read,
        }
    }
}

impl Reader for ImagesReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let height = u64::from(self.form.height);
        let whole = rows.start.is_multiple_of(height) && rows.end.is_multiple_of(height);
        assert!(whole, "the rows of a read must be whole images");
        let first = usize::try_from(rows.start / height)
            .expect("the number of an image is an index of `names`");
        let count = usize::try_from((rows.end - rows.start) / height)
            .expect("the number of images in a buffer fits in `usize`");
        let bytes = into.len() / count;
        let images = into.chunks_exact_mut(bytes).enumerate();
        each_part(images, |(number, image)| self.read_one(first + number, image))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A reader for a test. A signal interrupts every other read.
    struct Interrupted(Cursor<Vec<u8>>, bool);

    impl Read for Interrupted {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            let few = into.len().min(7);
            if self.1 {
                Err(io::ErrorKind::Interrupted.into())
            } else {
                self.0.read(&mut into[..few])
            }
        }
    }

    impl Seek for Interrupted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_read_that_a_signal_interrupts_is_repeated() {
        let form = Form { width: 5, height: 3, dtype: Dtype::U8 };
        let pixels: Vec<u8> = (0..15).collect();
        let file = form.encode(&pixels).expect("one image");
        let mut read = [0; 15];
        decode_one(Path::new("a.png"), Interrupted(Cursor::new(file), false), form, &mut read)
            .expect("a sound image");
        assert_eq!(read, *pixels);
    }
}
