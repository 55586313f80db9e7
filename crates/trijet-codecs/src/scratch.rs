//! Memory that decoders use again for the next block.

use crate::deflate::Inflater;
use crate::lzw::LzwDecoder;
use crate::zstandard::Zstandard;

/// Memory for the steps between the stored bytes and the elements, and the states of decoders.
///
/// A thread that decodes many blocks keeps one. The two buffers grow to the largest length between
/// two steps, which depends on the chain and on the elements that the caller expects.
///
/// ```
/// use trijet_codecs::{Chain, Codec, Scratch};
///
/// let mut scratch = Scratch::default();
/// for block in [[1, 2], [3, 4]] {
///     let mut decoded = [0; 2];
///     Chain::new(vec![Codec::Swap { element: 2 }]).decode(&block, 0, &mut decoded, &mut scratch)?;
///     assert_eq!(decoded, [block[1], block[0]]);
/// }
/// # Ok::<(), trijet_codecs::CodecError>(())
/// ```
#[derive(Debug, Default)]
pub struct Scratch {
    /// The output of the last step.
    pub(crate) front: Vec<u8>,
    /// The output of the next step.
    pub(crate) back: Vec<u8>,
    pub(crate) tools: Tools,
}

/// The states of decoders.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// A block of a container before its bytes or bits are in order.
    pub(crate) block: Vec<u8>,
    pub(crate) inflater: Inflater,
    pub(crate) lzw: LzwDecoder,
    pub(crate) zstandard: Zstandard,
}

/// The first bytes of a buffer, which grows if it is shorter.
pub(crate) fn grown(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}
