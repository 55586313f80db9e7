//! Encoding, for the codecs that writers need.

use crate::chain::Chain;
use crate::codec::Codec;
use crate::error::{Cause, CodecError};
use crate::scratch::{Scratch, Tools};
use crate::{deflate, shuffle, swap, transpose};

impl Chain {
    /// Encodes the elements of a block.
    ///
    /// Deflate, gzip, Zstandard, shuffle, crc32c, the byte order and the order of axes can be
    /// encoded. Levels of compression are those that the libraries use by default.
    ///
    /// ```
    /// use trijet_codecs::{Chain, Codec, Scratch};
    ///
    /// let chain = Chain::new(vec![Codec::Crc32c, Codec::Swap { element: 2 }]);
    /// let stored = chain.encode(&[1, 2, 3, 4], &mut Scratch::default())?;
    /// assert_eq!(stored[..4], [2, 1, 4, 3]);
    /// assert_eq!(stored.len(), 8);
    /// # Ok::<(), trijet_codecs::CodecError>(())
    /// ```
    ///
    /// # Errors
    /// If a codec is only decoded, or does not fit the block. Zstandard needs the feature `zstd-c`.
    pub fn encode(&self, elements: &[u8], scratch: &mut Scratch) -> Result<Vec<u8>, CodecError> {
        let mut stored = elements.to_vec();
        for codec in self.0.iter().rev() {
            let next = encoded(codec, stored, &mut scratch.tools);
            stored = next.map_err(|cause| CodecError::new(codec.name(), cause))?;
        }
        Ok(stored)
    }
}

/// The output of one step.
fn encoded(codec: &Codec, mut input: Vec<u8>, tools: &mut Tools) -> Result<Vec<u8>, Cause> {
    let mut output = Vec::new();
    let kept = |output: &mut Vec<u8>| output.resize(input.len(), 0);
    match *codec {
        Codec::Deflate => deflate::encode(&input, &mut output)?,
        Codec::Gzip => deflate::encode_gzip(&input, &mut output)?,
        Codec::Zstd => tools.zstandard.encode(&input, &mut output)?,
        Codec::Shuffle { element } => {
            kept(&mut output);
            shuffle::apply(element, &input, &mut output).map(drop)?;
        }
        Codec::Swap { element } => {
            kept(&mut output);
            swap::swap(element, &input, &mut output).map(drop)?;
        }
        Codec::Transpose { element, ref shape, ref order } => {
            kept(&mut output);
            let axes = transpose::Axes { element, shape, order };
            transpose::apply(&axes, &input, &mut output).map(drop)?;
        }
        Codec::Crc32c => {
            input.extend_from_slice(&crc32c::crc32c(&input).to_le_bytes());
            return Ok(input);
        }
        _ => return Err("is only decoded".into()),
    }
    Ok(output)
}
