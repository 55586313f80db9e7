//! Blocks of LZ4, and the containers of numcodecs and HDF5 around them.

use crate::bytes::Bytes;
use crate::error::{Cause, other_length, too_long, trailing};
use lz4_flex::block::{DecompressError, decompress_into};

/// Decodes one block of LZ4.
pub(crate) fn block(input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let most = output.len();
    decompress_into(input, output).map_err(|error| match error {
        DecompressError::OutputTooSmall { .. } => too_long(most),
        other => format!("the block is damaged: {other}").into(),
    })
}

/// Decodes the container of numcodecs: the length, and one block.
pub(crate) fn decode(input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let mut bytes = Bytes(input);
    let length = bytes.u32_le()?;
    let most = output.len();
    let output = output.get_mut(..length).ok_or_else(|| too_long(most))?;
    let written = block(bytes.0, output)?;
    if written != length {
        return Err(other_length(written, length));
    }
    Ok(length)
}

/// Decodes the container of the filter of HDF5: the length, the length of a block, and blocks with
/// their lengths. A block that did not become shorter is stored as it is.
pub(crate) fn decode_hdf5(input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    let mut bytes = Bytes(input);
    let length = usize::try_from(bytes.u64_be()?).unwrap_or(usize::MAX);
    let most = output.len();
    let output = output.get_mut(..length).ok_or_else(|| too_long(most))?;
    let block_length = bytes.u32_be()?;
    if block_length == 0 && length > 0 {
        return Err("the blocks have no bytes".into());
    }
    for target in output.chunks_mut(block_length.max(1)) {
        let stored_length = bytes.u32_be()?;
        let stored = bytes.take(stored_length)?;
        if stored_length == target.len() {
            target.copy_from_slice(stored);
            continue;
        }
        let written = block(stored, target)?;
        if written != target.len() {
            return Err(other_length(written, target.len()));
        }
    }
    if bytes.0.is_empty() { Ok(length) } else { Err(trailing(bytes.0.len())) }
}
