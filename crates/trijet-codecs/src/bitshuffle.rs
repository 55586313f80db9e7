//! Filter 32008 of HDF5: blocks of elements whose bits are shuffled, with a compression or without.

use crate::bits;
use crate::bytes::Bytes;
use crate::error::{Cause, other_length, too_long, trailing};
use crate::scratch::{Tools, grown};

/// The bytes of a block by default, about.
const BLOCK_BYTES: usize = 8192;

/// The minimum number of elements of a block by default.
const BLOCK_MIN: usize = 128;

/// A multiple of eight elements: as many as there are bits in a byte.
const GROUP: usize = 8;

/// The elements of a block. The filter stores 0 for its default.
fn block_elements(element: usize, block: usize) -> Result<usize, Cause> {
    if element == 0 {
        return Err("an element has no bytes".into());
    }
    if !block.is_multiple_of(GROUP) {
        return Err(format!("blocks of {block} elements are no multiple of eight").into());
    }
    let default = (BLOCK_BYTES / element / GROUP * GROUP).max(BLOCK_MIN);
    Ok(if block == 0 { default } else { block })
}

/// The bytes of whole elements.
fn check(element: usize, bytes: usize) -> Result<(), Cause> {
    if bytes.is_multiple_of(element) {
        return Ok(());
    }
    Err(format!("{bytes} bytes are not whole elements of {element} bytes").into())
}

/// Writes the elements of blocks that are not compressed.
pub(crate) fn undo(
    element: usize,
    block: usize,
    input: &[u8],
    output: &mut [u8],
) -> Result<usize, Cause> {
    let block = block_elements(element, block)?.saturating_mul(element);
    check(element, input.len())?;
    let shuffled = input.len() / element / GROUP * GROUP * element;
    for (from, to) in input[..shuffled].chunks(block).zip(output[..shuffled].chunks_mut(block)) {
        bits::undo(element, from, to);
    }
    output[shuffled..].copy_from_slice(&input[shuffled..]);
    Ok(input.len())
}

/// A decoder of the stored bytes of a block.
type BlockDecoder = fn(&mut Tools, &[u8], &mut [u8]) -> Result<usize, Cause>;

/// The parameters of the filter with a compression.
pub(crate) struct Container {
    pub(crate) element: usize,
    pub(crate) block: usize,
}

impl Container {
    /// Decodes a header with the length and the length of a block, and blocks with their lengths.
    /// The elements that are no multiple of eight are stored as they are.
    pub(crate) fn decode(
        &self,
        input: &[u8],
        output: &mut [u8],
        tools: &mut Tools,
        decompress: BlockDecoder,
    ) -> Result<usize, Cause> {
        let element = self.element;
        let mut bytes = Bytes(input);
        let length = usize::try_from(bytes.u64_be()?).unwrap_or(usize::MAX);
        let stated = bytes.u32_be()?;
        let most = output.len();
        let output = output.get_mut(..length).ok_or_else(|| too_long(most))?;
        let mut block = block_elements(element, self.block)?.saturating_mul(element);
        if stated > 0 {
            check(element, stated)?;
            block = block_elements(element, stated / element)?.saturating_mul(element);
        }
        check(element, length)?;
        let (shuffled, rest) = output.split_at_mut(length / element / GROUP * GROUP * element);
        let mut bits = std::mem::take(&mut tools.block);
        for to in shuffled.chunks_mut(block) {
            let from = grown(&mut bits, to.len());
            let stored = bytes.u32_be()?;
            let written = decompress(tools, bytes.take(stored)?, from)?;
            if written != to.len() {
                return Err(other_length(written, to.len()));
            }
            bits::undo(element, from, to);
        }
        tools.block = bits;
        rest.copy_from_slice(bytes.take(rest.len())?);
        if bytes.0.is_empty() { Ok(length) } else { Err(trailing(bytes.0.len())) }
    }
}
