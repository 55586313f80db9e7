//! Chains of several codecs: their order, their masks, and codecs that do not fit a block.

use proptest::prelude::*;
use trijet_codecs::{Chain, Codec, Scratch};

/// Decodes into `length` bytes.
fn decode(codecs: &[Codec], stored: &[u8], mask: u32, length: usize) -> Result<Vec<u8>, String> {
    let mut decoded = vec![0xaa; length];
    Chain::new(codecs.to_vec())
        .decode(stored, mask, &mut decoded, &mut Scratch::default())
        .map(|()| decoded)
        .map_err(|error| error.to_string())
}

fn encode(codecs: &[Codec], elements: &[u8]) -> Vec<u8> {
    let encoded = Chain::new(codecs.to_vec()).encode(elements, &mut Scratch::default());
    encoded.expect("these codecs are encoded")
}

#[test]
fn no_codec_copies_a_block_of_the_right_length() {
    assert_eq!(decode(&[], b"abc", 0, 3), Ok(b"abc".to_vec()));
    assert_eq!(decode(&[], b"abc", 0, 4), Err("block: has 3 bytes, and 4 are expected".into()));
    assert!(Chain::new(Vec::new()).is_empty() && !Chain::new(vec![Codec::Crc32c]).is_empty());
}

#[test]
fn a_mask_skips_codecs_in_the_order_of_encoding() {
    let shuffle = Codec::Shuffle { element: 2 };
    let chain = [Codec::Crc32c, Codec::Deflate, shuffle.clone()];
    let elements = b"abcdefgh".to_vec();
    let without = [vec![0, 1], vec![0, 2], vec![1, 2], vec![0], vec![1], vec![2], vec![]];
    for (kept, mask) in without.into_iter().zip([0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111]) {
        let codecs: Vec<Codec> = kept.iter().map(|&at: &usize| chain[at].clone()).collect();
        let stored = encode(&codecs, &elements);
        assert_eq!(decode(&chain, &stored, mask, 8), Ok(elements.clone()), "{kept:?}");
    }
    // Bits without a codec skip nothing.
    let stored = encode(&chain, &elements);
    assert_eq!(decode(&chain, &stored, !0b111, 8), Ok(elements));
}

#[test]
fn lengths_between_codecs_need_not_be_known() {
    let elements: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
    let chain = [
        Codec::Crc32c,
        Codec::Gzip,
        Codec::Shuffle { element: 3 },
        Codec::Crc32c,
        Codec::Deflate,
        Codec::Crc32c,
        Codec::Shuffle { element: 4 },
        Codec::Crc32c,
    ];
    let stored = encode(&chain, &elements);
    assert_eq!(decode(&chain, &stored, 0, elements.len()), Ok(elements.clone()));
    assert!(decode(&chain, &stored, 0, elements.len() - 4).is_err());
    assert!(decode(&chain, &stored, 0, 0).is_err());
}

#[test]
fn a_chain_of_33_codecs_is_refused() {
    let swap = Codec::Swap { element: 1 };
    assert_eq!(decode(&vec![swap.clone(); 32], b"ab", 0, 2), Ok(b"ab".to_vec()));
    let refused = decode(&vec![swap; 33], b"ab", 0, 2);
    assert_eq!(refused, Err("chain: has more than 32 codecs".into()));
}

#[test]
fn codecs_that_do_not_fit_a_block_are_refused() {
    let huge = usize::MAX;
    let transpose = |element, shape: &[usize], order: &[usize]| Codec::Transpose {
        element,
        shape: shape.to_vec(),
        order: order.to_vec(),
    };
    let rows = |sample, samples, row| {
        [
            Codec::HorizontalPredictor { sample, samples, row },
            Codec::FloatPredictor { sample, samples, row },
        ]
    };
    let mut codecs = vec![
        Codec::Shuffle { element: 0 },
        Codec::Bitshuffle { element: 0, block: 0 },
        Codec::Bitshuffle { element: 5, block: 0 },
        Codec::Bitshuffle { element: 2, block: 9 },
        Codec::Swap { element: 0 },
        Codec::Swap { element: 5 },
        Codec::Swap { element: huge },
        Codec::HorizontalPredictor { sample: 3, samples: 1, row: 12 },
        transpose(0, &[24], &[0]),
        transpose(1, &[4, 5], &[0, 1]),
        transpose(1, &[4, 6], &[0, 0]),
        transpose(1, &[4, 6], &[0, 2]),
        transpose(1, &[4, 6], &[0]),
        transpose(huge, &[huge, huge], &[1, 0]),
    ];
    for (sample, samples, row) in
        [(0, 1, 6), (1, 0, 6), (2, 1, 5), (1, 1, 0), (1, 1, 7), (2, huge, 6)]
    {
        codecs.extend(rows(sample, samples, row));
    }
    for codec in codecs {
        let refused = decode(std::slice::from_ref(&codec), &[7; 24], 0, 24);
        assert!(refused.is_err(), "{codec:?}: {refused:?}");
    }
    // Parameters that a file states, with a block of no bytes.
    for codec in rows(1, 1, huge) {
        assert_eq!(decode(&[codec], &[], 0, 0), Ok(Vec::new()));
    }
}

#[test]
fn elements_larger_than_the_block_stay_as_they_are() {
    for element in [25, usize::MAX] {
        for codec in
            [Codec::Shuffle { element }, Codec::BitshuffleLz4 { element, block: usize::MAX & !7 }]
        {
            let decoded = decode(std::slice::from_ref(&codec), &[7; 24], 0, 24);
            let is_shuffle = codec == Codec::Shuffle { element };
            assert_eq!(decoded.ok(), is_shuffle.then(|| vec![7; 24]));
        }
    }
}

#[test]
fn codecs_that_are_only_decoded_say_so() {
    for codec in [Codec::Lz4, Codec::Blosc, Codec::Lzw, Codec::Fletcher32] {
        let refused = Chain::new(vec![codec]).encode(&[0; 8], &mut Scratch::default());
        assert_eq!(refused.unwrap_err().cause(), "is only decoded");
    }
}

#[cfg(not(feature = "zstd-c"))]
#[test]
fn an_encoder_of_zstandard_needs_the_feature() {
    let refused = Chain::new(vec![Codec::Zstd]).encode(&[0; 8], &mut Scratch::default());
    let cause = "zstd: encoding needs the feature `zstd-c` of trijet-codecs";
    assert_eq!(refused.unwrap_err().to_string(), cause);
}

/// Codecs that are encoded, for blocks of any length.
fn encoded() -> impl Strategy<Value = Codec> {
    prop_oneof![
        Just(Codec::Deflate),
        Just(Codec::Gzip),
        Just(Codec::Crc32c),
        Just(if cfg!(feature = "zstd-c") { Codec::Zstd } else { Codec::Crc32c }),
        (1_usize..20).prop_map(|element| Codec::Shuffle { element }),
    ]
}

/// Elements with many equal bytes, so that encoders compress them.
fn elements(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![3 => Just(0), 1 => any::<u8>()], length)
}

/// The bits of elements in rows, as the format describes them.
fn shuffled_bits(element: usize, elements: &[u8]) -> Vec<u8> {
    let count = elements.len() / element;
    let mut rows = vec![0; elements.len()];
    for at in 0..count {
        for bit in 0..8 * element {
            let is_set = elements[at * element + bit / 8] >> (bit % 8) & 1;
            rows[bit * count / 8 + at / 8] |= is_set << (at % 8);
        }
    }
    rows
}

proptest! {
    #[test]
    fn encoded_blocks_decode_to_their_elements(
        codecs in prop::collection::vec(encoded(), 0..5),
        elements in elements(0..2000),
    ) {
        let stored = encode(&codecs, &elements);
        prop_assert_eq!(decode(&codecs, &stored, 0, elements.len()), Ok(elements));
    }

    #[test]
    fn byte_orders_and_axes_are_undone(
        element in prop::sample::select(vec![1_usize, 2, 3, 4, 8, 16, 20]),
        (shape, order) in prop::collection::vec(0_usize..7, 0..6).prop_flat_map(|shape| {
            let axes: Vec<usize> = (0..shape.len()).collect();
            (Just(shape), Just(axes).prop_shuffle())
        }),
    ) {
        let count = shape.iter().product::<usize>() * element;
        let elements: Vec<u8> = (0..count).map(|at| (at * 7).to_le_bytes()[0]).collect();
        let codecs = [Codec::Swap { element }, Codec::Transpose { element, shape: shape.clone(), order: order.clone() }];
        let stored = encode(&codecs, &elements);
        prop_assert_eq!(decode(&codecs, &stored, 0, count), Ok(elements.clone()));
        // The element of each index lies where the order puts its index.
        let mut expected = vec![0; count];
        let stored = encode(&codecs[1..], &elements);
        for at in 0..count / element {
            let (mut rest, mut index) = (at, vec![0; shape.len()]);
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            let to = order.iter().fold(0, |to, &axis| to * shape[axis] + index[axis]);
            let from = at * element..(at + 1) * element;
            expected[to * element..(to + 1) * element].copy_from_slice(&elements[from]);
        }
        prop_assert_eq!(stored, expected);
    }

    #[test]
    fn bits_are_those_of_the_rows(
        element in 1_usize..20,
        groups in 0_usize..300,
        rest in 0_usize..8,
        seed in any::<u32>(),
    ) {
        let count = (8 * groups + rest) * element;
        let mut state = seed;
        let elements: Vec<u8> = (0..count).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        }).collect();
        let (whole, left) = elements.split_at(8 * groups * element);
        let stored = [&shuffled_bits(element, whole)[..], left].concat();
        // One block, or the blocks of 16 elements.
        let one = [Codec::Bitshuffle { element, block: 8 * groups.max(1) }];
        prop_assert_eq!(decode(&one, &stored, 0, count), Ok(elements.clone()));
        let blocks = whole.chunks(16 * element).map(|block| shuffled_bits(element, block));
        let stored = [&blocks.collect::<Vec<_>>().concat()[..], left].concat();
        let small = [Codec::Bitshuffle { element, block: 16 }];
        prop_assert_eq!(decode(&small, &stored, 0, count), Ok(elements));
    }

    #[test]
    fn any_bytes_are_a_block_or_refused(
        stored in prop::collection::vec(any::<u8>(), 0..200),
        length in 0_usize..300,
    ) {
        for codec in [
            Codec::Deflate, Codec::Gzip, Codec::Zstd, Codec::Lz4, Codec::Lz4Hdf5, Codec::Lzw,
            Codec::PackBits, Codec::Blosc, Codec::BitshuffleLz4 { element: 2, block: 0 },
            Codec::BitshuffleZstd { element: 4, block: 8 }, Codec::Crc32c, Codec::Fletcher32,
        ] {
            let decoded = decode(&[codec], &stored, 0, length);
            prop_assert!(decoded.is_err() || decoded.is_ok_and(|decoded| decoded.len() == length));
        }
    }
}
