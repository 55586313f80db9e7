//! Writing a folder with a PNG file for each image of the stack.

use super::form::Form;
use super::read::decode;
use crate::array::{Array, Dtype};
use crate::file_error;
use crate::format::contract::{NOT_PARTIAL, Plan, Writer, lost, state_of};
use crate::rows::Rows;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trijet::Result;

/// The names of the images, and the form that they share.
#[derive(Debug, Clone)]
pub(super) struct ImagesPlan {
    names: Arc<[OsString]>,
    form: Form,
}

impl ImagesPlan {
    /// Images with these `names` if their number is right, otherwise with numbers.
    pub(super) fn new(path: &Path, array: &Array, names: &[OsString]) -> Result<Self> {
        let refused = |cause: String| Err(file_error::refused("create", path, cause));
        let dtype = array.dtype();
        if dtype == Dtype::F32 {
            return refused(format!("PNG images cannot hold {array}; use .npy"));
        }
        let Some((width, height, count)) = array.image() else {
            return refused(format!("{array} is not an image or a stack of images; use .npy"));
        };
        // The specification of PNG limits a side to 2^31 - 1 pixels.
        let side = |side: u64| u32::try_from(side).ok().filter(|side| (1..1 << 31).contains(side));
        let (Some(width), Some(height)) = (side(width), side(height)) else {
            return refused(format!("a PNG image cannot have {width}x{height} pixels; use .npy"));
        };
        let names = if names.len() as u64 == count {
            names.into()
        } else {
            let digits = count.saturating_sub(1).to_string().len().max(6);
            (0..count).map(|n| OsString::from(format!("{n:0digits$}.png"))).collect()
        };
        Ok(Self { names, form: Form { width, height, dtype } })
    }

    /// The names of the images that hold `rows`, which are whole images.
    fn names_of(&self, rows: &Range<u64>) -> &[OsString] {
        let whole = [rows.start, rows.end].iter().all(|row| row.is_multiple_of(self.granule()));
        assert!(whole, "chunks hold whole images: see `Target::granule`");
        let index = |row: u64| usize::try_from(row / self.granule()).expect("an index of names");
        &self.names[index(rows.start)..index(rows.end)]
    }

    fn writer(&self, folder: &Path) -> Box<dyn Writer> {
        Box::new(ImagesWriter { folder: folder.to_owned(), plan: self.clone() })
    }
}

impl Plan for ImagesPlan {
    fn granule(&self) -> u64 {
        u64::from(self.form.height)
    }

    fn create(&self, partial: &Path) -> Result<Box<dyn Writer>> {
        fs::create_dir(partial).map_err(|error| file_error::io("create", partial, error))?;
        Ok(self.writer(partial))
    }

    fn reopen(&self, partial: &Path, done: &Rows) -> Result<Box<dyn Writer>> {
        let Some(state) = state_of("resume", partial)? else {
            return Err(lost(partial, "the partial output is missing"));
        };
        if !state.is_dir() {
            return Err(file_error::refused("resume", partial, NOT_PARTIAL));
        }
        for name in done.ranges().iter().flat_map(|rows| self.names_of(rows)) {
            let path = partial.join(name);
            if !state_of("resume", &path)?.is_some_and(|state| state.is_file()) {
                return Err(lost(&path, "the image is missing"));
            }
        }
        Ok(self.writer(partial))
    }

    fn discard(&self, partial: &Path) -> Result<()> {
        let io = |error| file_error::io("discard", partial, error);
        match state_of("discard", partial)? {
            None => return Ok(()),
            Some(state) if state.is_dir() => {}
            Some(_) => return Err(file_error::refused("discard", partial, NOT_PARTIAL)),
        }
        let ours: HashSet<&OsString> = self.names.iter().collect();
        let entries = fs::read_dir(partial).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(io)?;
        for entry in &entries {
            let is_ours =
                ours.contains(&entry.file_name()) && entry.file_type().map_err(io)?.is_file();
            if !is_ours {
                return Err(file_error::refused("discard", &entry.path(), NOT_PARTIAL));
            }
        }
        for entry in entries {
            fs::remove_file(entry.path())
                .map_err(|error| file_error::io("discard", &entry.path(), error))?;
        }
        fs::remove_dir(partial).map_err(io)
    }
}

#[derive(Debug)]
struct ImagesWriter {
    folder: PathBuf,
    plan: ImagesPlan,
}

impl Writer for ImagesWriter {
    fn write(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let form = self.plan.form;
        let image_bytes = usize::try_from(form.image_bytes()).expect("`bytes` holds one");
        let images = bytes.chunks_exact(image_bytes);
        for (name, image) in self.plan.names_of(&rows).iter().zip(images) {
            let path = self.folder.join(name);
            let file =
                form.encode(image).map_err(|error| file_error::damaged("write", &path, error))?;
            fs::write(&path, file).map_err(|error| file_error::io("write", &path, error))?;
        }
        Ok(())
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        decode(&self.folder, self.plan.names_of(&rows), self.plan.form, into)
    }
}
