//! The body of the fuzz target `codecs`: a block of any bytes.

use trijet_codecs::{Chain, Codec, Scratch};

/// The largest block that is decoded, in bytes.
const LENGTH_MAX: usize = 1 << 15;

/// The chain of a number.
fn chain(number: u8) -> Chain {
    let codecs = match number % 18 {
        0 => vec![Codec::Deflate],
        1 => vec![Codec::Gzip],
        2 => vec![Codec::Zstd],
        3 => vec![Codec::Lz4],
        4 => vec![Codec::Lz4Hdf5],
        5 => vec![Codec::Lzw],
        6 => vec![Codec::PackBits],
        7 => vec![Codec::Blosc],
        8 => vec![Codec::BitshuffleLz4 { element: 2, block: 0 }],
        9 => vec![Codec::BitshuffleZstd { element: 4, block: 16 }],
        10 => vec![Codec::Bitshuffle { element: 2, block: 64 }],
        11 => vec![Codec::Fletcher32, Codec::Deflate, Codec::Shuffle { element: 2 }],
        12 => vec![Codec::Crc32c, Codec::Zstd, Codec::Swap { element: 4 }],
        13 => vec![Codec::Gzip, Codec::Blosc],
        14 => vec![Codec::Lzw, Codec::HorizontalPredictor { sample: 2, samples: 3, row: 42 }],
        15 => vec![Codec::PackBits, Codec::FloatPredictor { sample: 4, samples: 1, row: 28 }],
        16 => vec![
            Codec::Lz4,
            Codec::Transpose { element: 2, shape: vec![3, 4, 5], order: vec![2, 0, 1] },
        ],
        _ => vec![Codec::BitshuffleLz4 { element: 3, block: 8 }, Codec::Crc32c, Codec::Lz4],
    };
    Chain::new(codecs)
}

/// Decodes a block. The first byte chooses the chain, the second one the mask, and two more are the
/// length of the elements.
///
/// # Panics
/// If the block decodes to other elements when it is decoded again, or an error has no words.
pub(crate) fn check(bytes: &[u8]) {
    let [number, mask, low, high, stored @ ..] = bytes else { return };
    let length = usize::from(u16::from_le_bytes([*low, *high])) % LENGTH_MAX;
    let (chain, mut scratch) = (chain(*number), Scratch::default());
    let [mut first, mut second] = [vec![0x55; length], vec![0xaa; length]];
    let decoded = chain.decode(stored, u32::from(*mask), &mut first, &mut scratch);
    let again = chain.decode(stored, u32::from(*mask), &mut second, &mut scratch);
    assert_eq!(decoded, again);
    match decoded {
        Ok(()) => assert!(first == second, "the elements depend on earlier bytes"),
        Err(error) => assert!(!error.codec().is_empty() && !error.cause().is_empty()),
    }
}
