//! Threads that move the bytes of a file to another file without a GPU: the bound for a program
//! that also computes.
#![forbid(unsafe_code)]

use super::definition::End;
use super::share::each;
use super::stack::Stack;
use crate::mapping;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// How a thread writes a piece to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Reads the piece into a buffer, and writes the buffer to the output.
    Write,
    /// Reads the piece into a buffer, and copies the buffer into a shared mapping of the output.
    Copy,
    /// Reads the piece into a shared mapping of the output.
    Read,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Write, Self::Copy, Self::Read];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Copy => "copy into a mapping",
            Self::Read => "read into a mapping",
        }
    }
}

fn length(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(Error::other)
}

/// Opens the output, creating it if necessary, and makes it as long as the stack.
fn open(stack: &Stack, path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    file.set_len(stack.bytes())?;
    Ok(file)
}

/// Copies the input to the output. Returns the seconds from the opening of the files until the
/// output is in the state `end`.
pub(super) fn copy(
    way: Way,
    threads: usize,
    end: End,
    stack: &Stack,
    input: &Path,
    output: &Path,
) -> Result<f64> {
    let start = Instant::now();
    let (input, output) = (File::open(input)?, open(stack, output)?);
    if way == Way::Write {
        each(threads, stack.pieces(), |buffer, piece| {
            buffer.resize(length(piece.end - piece.start)?, 0);
            input.read_exact_at(buffer, piece.start)?;
            output.write_all_at(buffer, piece.start)
        })?;
    } else {
        let mut mapping = mapping::writable(&output)?;
        let pieces = mapping.chunks_mut(length(stack.piece_bytes)?).zip(stack.pieces());
        each(threads, pieces, |buffer, (to, piece)| {
            if way == Way::Read {
                return input.read_exact_at(to, piece.start);
            }
            buffer.resize(to.len(), 0);
            input.read_exact_at(buffer, piece.start)?;
            to.copy_from_slice(buffer);
            Ok(())
        })?;
    }
    if end == End::Synced {
        output.sync_all()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Fills the output with `byte`, so that its pages exist and contain no bytes of a result.
pub(super) fn fill(stack: &Stack, output: &Path, byte: u8) -> Result<()> {
    let mut mapping = mapping::writable(&open(stack, output)?)?;
    let pieces = mapping.chunks_mut(length(stack.piece_bytes)?);
    each(stack.threads, pieces, |_, piece| {
        piece.fill(byte);
        Ok(())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::definition::Size;
    use super::*;

    #[test]
    fn every_way_copies_every_byte_to_a_new_output_and_over_an_existing_one() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let size = Size { pages: 3, height: 50, width: 70, repeats: 1 };
        let stack = Stack { size, piece_bytes: 1026, threads: 2 };
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        stack.write(&input)?;
        let expected = stack.unchanged()?;
        for (way, threads) in Way::ALL.into_iter().flat_map(|way| [(way, 1), (way, 4)]) {
            if output.exists() {
                std::fs::remove_file(&output)?;
            }
            assert!(copy(way, threads, End::Written, &stack, &input, &output)? > 0.0);
            stack.verify(&output, &expected)?;
            fill(&stack, &output, 7)?;
            assert!(std::fs::read(&output)?.iter().all(|byte| *byte == 7));
            copy(way, threads, End::Synced, &stack, &input, &output)?;
            stack.verify(&output, &expected)?;
        }
        Ok(())
    }
}
