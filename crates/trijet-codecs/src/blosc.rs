//! Containers of blosc 1: blocks with shuffled bytes or bits, each of one stream or of one stream
//! for each byte of an element.

use crate::bytes::Bytes;
use crate::error::{Cause, other_length, too_long, trailing};
use crate::scratch::{Tools, grown};
use crate::{bits, blosclz, lz4, shuffle};

const HEADER_BYTES: usize = 16;

/// The version of the format. Blosc 2 writes higher ones.
const VERSION: u8 = 2;

/// The maximum number of streams of a block.
const STREAMS_MAX: usize = 16;

/// The minimum number of bytes of a stream, if a block has several.
const STREAM_BYTES_MIN: usize = 128;

/// The bits of the flags of a header.
mod flag {
    pub(super) const SHUFFLE: u8 = 1;
    pub(super) const STORED: u8 = 2;
    pub(super) const BITSHUFFLE: u8 = 4;
    pub(super) const LATER: u8 = 8;
    pub(super) const ONE_STREAM: u8 = 16;
}

/// A compression, by its number in the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    Blosclz,
    Lz4,
    Zlib,
    Zstd,
}

impl Compression {
    fn of(flags: u8) -> Result<Self, Cause> {
        match flags >> 5 {
            0 => Ok(Self::Blosclz),
            1 => Ok(Self::Lz4),
            2 => Err("is compressed with snappy, which is not supported".into()),
            3 => Ok(Self::Zlib),
            4 => Ok(Self::Zstd),
            other => Err(format!("has the unknown compression {other}").into()),
        }
    }

    fn decode(self, input: &[u8], output: &mut [u8], tools: &mut Tools) -> Result<usize, Cause> {
        match self {
            Self::Blosclz => blosclz::decode(input, output),
            Self::Lz4 => lz4::block(input, output),
            Self::Zlib => tools.inflater.decode(input, output),
            Self::Zstd => tools.zstandard.decode(input, output),
        }
    }
}

struct Header {
    flags: u8,
    /// The bytes of an element.
    element: usize,
    /// The bytes of the decoded data.
    length: usize,
    /// The bytes of a decoded block.
    block: usize,
}

impl Header {
    /// Reads the header of a container that decodes to at most `most` bytes.
    fn read(input: &[u8], most: usize) -> Result<Self, Cause> {
        let mut bytes = Bytes(input);
        let &[version, _, flags, element] = bytes.take(4)? else { unreachable!("four bytes") };
        if version != VERSION {
            let cause = match version {
                0 | 1 => format!("has the old format {version}"),
                _ => format!("has format {version}, of blosc 2, which is not supported"),
            };
            return Err(cause.into());
        }
        let (length, block, all) = (bytes.u32_le()?, bytes.u32_le()?, bytes.u32_le()?);
        if length > most {
            return Err(too_long(most));
        }
        if all > input.len() {
            return Err("the data end early".into());
        }
        if all < input.len() {
            return Err(trailing(input.len() - all));
        }
        if flags & flag::LATER != 0 {
            return Err("has flags of a later format".into());
        }
        if length > 0 && (element == 0 || block == 0) {
            return Err("the header is damaged".into());
        }
        Ok(Self { flags, element: usize::from(element), length, block })
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The streams of a block. The last block has one if it is shorter than the others.
    fn streams(&self, block: usize) -> usize {
        let is_split = !self.has(flag::ONE_STREAM)
            && self.element <= STREAMS_MAX
            && block / self.element >= STREAM_BYTES_MIN
            && block == self.block;
        if is_split { self.element } else { 1 }
    }

    /// Writes the elements of a block whose bytes or bits are shuffled.
    fn unshuffle(&self, from: &[u8], to: &mut [u8]) -> Result<(), Cause> {
        if self.has(flag::SHUFFLE) {
            return shuffle::undo(self.element, from, to).map(drop);
        }
        let elements = from.len() / self.element;
        // Blosc leaves a block as it is when the elements are no multiple of eight.
        let is_shuffled = elements.is_multiple_of(8);
        let shuffled = if is_shuffled { elements * self.element } else { 0 };
        if shuffled > 0 {
            bits::undo(self.element, &from[..shuffled], &mut to[..shuffled]);
        }
        to[shuffled..].copy_from_slice(&from[shuffled..]);
        Ok(())
    }
}

pub(crate) fn decode(input: &[u8], output: &mut [u8], tools: &mut Tools) -> Result<usize, Cause> {
    let header = Header::read(input, output.len())?;
    let output = &mut output[..header.length];
    if output.is_empty() {
        let rest = input.len() - HEADER_BYTES;
        return if rest == 0 { Ok(0) } else { Err(trailing(rest)) };
    }
    let data = &input[HEADER_BYTES..];
    if header.has(flag::STORED) {
        if data.len() != output.len() {
            return Err(other_length(data.len(), output.len()));
        }
        output.copy_from_slice(data);
        return Ok(output.len());
    }
    let compression = Compression::of(header.flags)?;
    let is_shuffled = header.has(flag::SHUFFLE | flag::BITSHUFFLE);
    let mut starts = Bytes(data);
    let mut buffer = std::mem::take(&mut tools.block);
    for to in output.chunks_mut(header.block) {
        let start = starts.u32_le()?;
        let block = Block {
            bytes: Bytes(input.get(start..).ok_or("a block begins after the data")?),
            streams: header.streams(to.len()),
            compression,
        };
        if is_shuffled {
            let from = grown(&mut buffer, to.len());
            block.decode(from, tools)?;
            header.unshuffle(from, to)?;
        } else {
            block.decode(to, tools)?;
        }
    }
    tools.block = buffer;
    Ok(output.len())
}

/// The stored bytes of a block, and what follows them.
struct Block<'a> {
    bytes: Bytes<'a>,
    streams: usize,
    compression: Compression,
}

impl Block<'_> {
    /// Decodes the streams of a block. A stream that did not become shorter is stored as it is.
    fn decode(mut self, output: &mut [u8], tools: &mut Tools) -> Result<(), Cause> {
        let length = output.len() / self.streams;
        if length * self.streams != output.len() {
            return Err("a block is not whole elements".into());
        }
        for to in output.chunks_exact_mut(length) {
            let stored = self.bytes.u32_le()?;
            let stored = self.bytes.take(stored)?;
            if stored.len() == length {
                to.copy_from_slice(stored);
                continue;
            }
            let written = self.compression.decode(stored, to, tools)?;
            if written != length {
                return Err(other_length(written, length));
            }
        }
        Ok(())
    }
}
