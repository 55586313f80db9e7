//! The parts of a folder of images that are not in the stack.

use super::gaps::missing;
use crate::format::folder::is_tiff;
use crate::format::promise::is_other_image;
use crate::shown::shown;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Seek};
use std::path::Path;
use trijet::trace::count;

/// The length in bytes of the signature at the start of a PNG file.
const SIGNATURE_BYTES: i64 = 8;
/// Maximum number of names in a message.
const NAMES_MAX: usize = 3;

/// The files of a folder, and the parts of files, that are not in the stack.
#[derive(Debug, Default)]
pub(in crate::format) struct LeftOut {
    others: Vec<OsString>,
    animations: usize,
    /// The number of images that have ancillary chunks before their pixels, and the names of these
    /// chunks.
    with_chunks: usize,
    chunks: BTreeSet<String>,
}

impl LeftOut {
    /// Adds the name of a file if the file is an image of another format. Such an image is not in
    /// the stack.
    pub(in crate::format) fn see_file(&mut self, name: OsString) {
        if is_other_image(Path::new(&name)) {
            self.others.push(name);
        }
    }

    /// The name of a TIFF file among the images of other formats.
    pub(super) fn first_tiff(&self) -> Option<&OsString> {
        self.others.iter().filter(|name| is_tiff(Path::new(name))).min()
    }

    /// Adds the names of the ancillary chunks that precede the pixels in an image file.
    pub(in crate::format) fn see_chunks(
        &mut self,
        file: &mut (impl Read + Seek),
    ) -> io::Result<()> {
        let at = i64::try_from(file.stream_position()?).map_err(io::Error::other)?;
        // The position is near the start, so these bytes are usually still in the buffer of the
        // reader.
        file.seek_relative(SIGNATURE_BYTES - at)?;
        let (mut names, mut is_animation) = (BTreeSet::new(), false);
        loop {
            let mut head = [0; 8];
            match file.read_exact(&mut head) {
                Ok(()) => {}
                // The image is cut off. The decoder reports this damage.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            let [a, b, c, d, kind @ ..] = head;
            if kind == *b"IDAT" || !kind.iter().all(u8::is_ascii_alphabetic) {
                break;
            }
            is_animation |= kind == *b"acTL";
            if kind[0].is_ascii_lowercase() && !matches!(&kind, b"acTL" | b"fcTL") {
                names.insert(String::from_utf8_lossy(&kind).into_owned());
            }
            // Skips the data of the chunk and a checksum of 4 bytes.
            file.seek_relative(i64::from(u32::from_be_bytes([a, b, c, d])) + 4)?;
        }
        self.animations += usize::from(is_animation);
        self.with_chunks += usize::from(!names.is_empty());
        self.chunks.append(&mut names);
        Ok(())
    }

    /// The parts that are not in the stack, and the names that are missing in the sequence of
    /// `names`. Each text is an item of a list in a message.
    pub(in crate::format) fn words(mut self, names: &[OsString]) -> Vec<String> {
        let mut words = Vec::new();
        self.others.sort();
        if !self.others.is_empty() {
            words.push(format!("images of other formats ({})", few(self.others.iter())));
        }
        let missing = missing(names);
        if !missing.is_empty() {
            words.push(format!(
                "images whose numbers are missing in the sequence ({})",
                few(missing.iter())
            ));
        }
        if self.animations > 0 {
            words.push(format!(
                "all frames but one of {}",
                count(self.animations as u64, "animation")
            ));
        }
        if !self.chunks.is_empty() {
            let chunks = self.chunks.into_iter().collect::<Vec<_>>().join(", ");
            words.push(format!(
                "the PNG chunks {chunks} of {}",
                count(self.with_chunks as u64, "image")
            ));
        }
        words
    }
}

/// The first few names, and the number of the remaining names.
fn few<'n, N: AsRef<Path> + 'n>(names: impl ExactSizeIterator<Item = &'n N>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let named = names.take(NAMES_MAX).map(|name| shown(name).to_string()).collect::<Vec<_>>();
    let named = named.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
