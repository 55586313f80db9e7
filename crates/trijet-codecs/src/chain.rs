//! Chains: the steps from the stored bytes of a block to its elements, with the length after each
//! step.

use crate::codec::{Codec, Length};
use crate::error::{Cause, CodecError, other_length, too_long};
use crate::scratch::{Scratch, Tools, grown};
use crate::{
    bitshuffle, blosc, checksum, deflate, lz4, packbits, predictor, shuffle, swap, transpose,
};

/// The maximum number of codecs of a chain, which is the number of bits of a mask.
const CODECS_MAX: usize = 32;

/// Codecs in the order in which they are undone: from the stored bytes to the elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain(pub(crate) Vec<Codec>);

/// The memory for the output of a step.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// The largest length, in bytes.
    most: usize,
    /// Whether the output has this length.
    is_exact: bool,
}

impl Room {
    /// The room for the input of a step that has this room for its output.
    fn before(self, length: Length) -> Self {
        match length {
            Length::Kept => self,
            Length::Check => Self { most: self.most.saturating_add(checksum::BYTES), ..self },
            // PackBits may store two bytes for each, and no other codec stores more. The headers
            // of gzip may have a name.
            Length::Free => {
                Self { most: self.most.saturating_mul(2).saturating_add(1 << 16), is_exact: false }
            }
        }
    }

    /// The length of an output, if it fits.
    fn checked(self, length: usize) -> Result<usize, Cause> {
        if length > self.most {
            return Err(too_long(self.most));
        }
        if self.is_exact && length != self.most {
            return Err(other_length(length, self.most));
        }
        Ok(length)
    }
}

impl Chain {
    /// A chain of codecs. The first one is undone first.
    ///
    /// ```
    /// use trijet_codecs::{Chain, Codec};
    ///
    /// // The codecs `[bytes(big), zstd, crc32c]` of zarr 3, backwards.
    /// let chain = Chain::new(vec![Codec::Crc32c, Codec::Zstd, Codec::Swap { element: 4 }]);
    /// assert!(!chain.is_empty());
    /// ```
    pub fn new(codecs: Vec<Codec>) -> Self {
        Self(codecs)
    }

    /// Returns whether the stored bytes are the elements.
    ///
    /// ```
    /// assert!(trijet_codecs::Chain::new(Vec::new()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes the stored bytes of a block into exactly `into`.
    ///
    /// Bit n of `mask` skips codec n, counted in the order of encoding: bit 0 is the last codec of
    /// the chain. This is the filter mask of a chunk of HDF5. `scratch` is memory that the next
    /// call uses again.
    ///
    /// ```
    /// use trijet_codecs::{Chain, Codec, Scratch};
    ///
    /// let chain = Chain::new(vec![Codec::Deflate, Codec::Shuffle { element: 2 }]);
    /// let (mut decoded, mut scratch) = ([0; 4], Scratch::default());
    /// // The filter deflate was left out for this chunk.
    /// chain.decode(&[1, 3, 2, 4], 0b10, &mut decoded, &mut scratch)?;
    /// assert_eq!(decoded, [1, 2, 3, 4]);
    /// # Ok::<(), trijet_codecs::CodecError>(())
    /// ```
    ///
    /// # Errors
    /// If the stored bytes are damaged, end early, or decode to another length, if a checksum
    /// differs, or if a codec does not fit the block. `into` then has any bytes.
    pub fn decode(
        &self,
        stored: &[u8],
        mask: u32,
        into: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        if self.0.len() > CODECS_MAX {
            return Err(CodecError::new("chain", "has more than 32 codecs"));
        }
        let Scratch { front, back, tools } = scratch;
        let (mut is_stored, mut length) = (true, stored.len());
        let mut steps = self.steps(mask).peekable();
        while let Some((at, codec)) = steps.next() {
            let fail = |cause: Cause| CodecError::new(codec.name(), cause);
            let input = if is_stored { stored } else { front.as_slice() };
            let input = &input[..length];
            let room = self.room(at, mask, into.len());
            let output_length = match codec.length() {
                Length::Check => {
                    let data = checked(codec, input).map_err(fail)?;
                    length = room.checked(data).map_err(fail)?;
                    continue;
                }
                Length::Kept => room.checked(length).map_err(fail)?,
                Length::Free => room.most,
            };
            if steps.peek().is_none() {
                let written = undone(codec, input, into, tools).map_err(fail)?;
                return room.checked(written).map(drop).map_err(fail);
            }
            let output = grown(back, output_length);
            let written = undone(codec, input, output, tools).map_err(fail)?;
            length = room.checked(written).map_err(fail)?;
            std::mem::swap(front, back);
            is_stored = false;
        }
        let elements = if is_stored { stored } else { front.as_slice() };
        let elements = &elements[..length];
        if elements.len() != into.len() {
            let cause = format!("has {} bytes, and {} are expected", elements.len(), into.len());
            return Err(CodecError::new("block", cause));
        }
        into.copy_from_slice(elements);
        Ok(())
    }

    /// The codecs that a mask does not skip, with their positions.
    fn steps(&self, mask: u32) -> impl DoubleEndedIterator<Item = (usize, &Codec)> {
        let codecs = self.0.len();
        self.0.iter().enumerate().filter(move |(at, _)| mask >> (codecs - 1 - at) & 1 == 0)
    }

    /// The room for the output of the codec at a position: from the length of the elements, back
    /// over the codecs after it.
    fn room(&self, at: usize, mask: u32, elements: usize) -> Room {
        let after = self.steps(mask).rev().take_while(|&(later, _)| later > at);
        let last = Room { most: elements, is_exact: true };
        after.fold(last, |room, (_, codec)| room.before(codec.length()))
    }
}

/// Compares the checksum at the end of the input. Returns the length without it.
fn checked(codec: &Codec, input: &[u8]) -> Result<usize, Cause> {
    match codec {
        Codec::Fletcher32 => checksum::fletcher32(input),
        _ => checksum::crc32c(input),
    }
}

/// Undoes one step. Returns the number of bytes that it wrote.
fn undone(
    codec: &Codec,
    input: &[u8],
    output: &mut [u8],
    tools: &mut Tools,
) -> Result<usize, Cause> {
    match *codec {
        Codec::Deflate => tools.inflater.decode(input, output),
        Codec::Gzip => deflate::decode_gzip(input, output),
        Codec::Zstd => tools.zstandard.decode(input, output),
        Codec::Lz4 => lz4::decode(input, output),
        Codec::Lz4Hdf5 => lz4::decode_hdf5(input, output),
        Codec::Lzw => tools.lzw.decode(input, output),
        Codec::PackBits => packbits::decode(input, output),
        Codec::BitshuffleLz4 { element, block } => {
            bitshuffle::Container { element, block }.decode(input, output, tools, lz4_of)
        }
        Codec::BitshuffleZstd { element, block } => {
            bitshuffle::Container { element, block }.decode(input, output, tools, zstd_of)
        }
        Codec::Blosc => blosc::decode(input, output, tools),
        Codec::Shuffle { element } => shuffle::undo(element, input, output),
        Codec::Bitshuffle { element, block } => bitshuffle::undo(element, block, input, output),
        Codec::HorizontalPredictor { sample, samples, row } => {
            predictor::Rows { sample, samples, row }.undo_horizontal(input, output)
        }
        Codec::FloatPredictor { sample, samples, row } => {
            predictor::Rows { sample, samples, row }.undo_float(input, output)
        }
        Codec::Swap { element } => swap::swap(element, input, output),
        Codec::Transpose { element, ref shape, ref order } => {
            transpose::undo(&transpose::Axes { element, shape, order }, input, output)
        }
        Codec::Crc32c | Codec::Fletcher32 => Ok(0),
    }
}

fn lz4_of(_: &mut Tools, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    lz4::block(input, output)
}

fn zstd_of(tools: &mut Tools, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
    tools.zstandard.decode(input, output)
}
