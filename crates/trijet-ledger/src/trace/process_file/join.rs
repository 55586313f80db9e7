//! Joining trace files of processes.
#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use trijet_cupti::file::HEAD_BYTES;

/// Appends the whole blocks of one file to another file. The last block may be cut, because the
/// process was killed while it wrote the block. Then the copy ends before that block.
///
/// # Errors
/// The errors of reading and writing.
pub fn append_whole_blocks(mut from: impl Read, mut into: impl Write) -> io::Result<()> {
    let mut head = [0; HEAD_BYTES];
    let mut payload = Vec::new();
    while is_filled(&mut from, &mut head)? {
        payload.resize(usize::from(u16::from_le_bytes([head[2], head[3]])), 0);
        if !is_filled(&mut from, &mut payload)? {
            break;
        }
        into.write_all(&head)?;
        into.write_all(&payload)?;
    }
    Ok(())
}

/// Reads until `into` is full or the file ends. Returns whether `into` is full.
fn is_filled(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{header, read, trouble};
    use super::append_whole_blocks;
    use crate::base::units::Nanos;

    #[test]
    fn a_cut_file_does_not_damage_the_one_behind_it() {
        let mut file = Vec::new();
        header(&mut file, 1, 130_001, Nanos(5));
        let whole = file.len();
        trouble(&mut file, "something");
        for cut in whole..=file.len() {
            let mut joined = Vec::new();
            append_whole_blocks(&file[..cut], &mut joined).unwrap();
            append_whole_blocks(file.as_slice(), &mut joined).unwrap();
            let traces = read(joined.as_slice()).unwrap();
            let troubles: Vec<_> = traces.iter().map(|trace| trace.troubles.len()).collect();
            assert_eq!(troubles, [usize::from(cut == file.len()), 1], "cut at {cut}");
        }
    }
}
