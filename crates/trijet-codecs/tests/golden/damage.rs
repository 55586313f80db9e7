//! Damaged blocks, blocks of other lengths and blocks that decode to too much: errors, and never
//! other elements without one where the block has a checksum of its length.

use crate::cases::{self, Case};
use trijet_codecs::{Chain, Codec, CodecError, Scratch};

/// The position of every byte of a short block, and of some bytes of a long one.
fn positions(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(1 + length / 400)
}

impl Case {
    /// Decodes these bytes into as many bytes as the elements have.
    fn decoded(&self, stored: &[u8], scratch: &mut Scratch) -> Result<Vec<u8>, CodecError> {
        let mut decoded = vec![0xaa; self.elements.len()];
        self.chain.decode(stored, 0, &mut decoded, scratch).map(|()| decoded)
    }

    /// Whether zero bytes may follow the block.
    fn is_filled(&self) -> bool {
        let last = self.chain.clone();
        [Codec::Deflate, Codec::Lzw, Codec::PackBits].into_iter().any(|codec| {
            last == Chain::new(vec![codec.clone()])
                || last == Chain::new(vec![codec, Codec::Shuffle { element: 4 }])
        })
    }
}

#[test]
fn a_block_that_ends_early_is_refused() {
    let mut scratch = Scratch::default();
    for case in cases::all() {
        for end in positions(case.stored.len()) {
            // The end code of LZW and padding may be missing.
            if let Ok(decoded) = case.decoded(&case.stored[..end], &mut scratch) {
                assert!(decoded == case.elements, "{} up to {end}: other elements", case.name);
                assert!(case.is_filled(), "{} up to {end}", case.name);
            }
        }
    }
}

#[test]
fn bytes_after_a_block_are_refused_and_padding_of_tiff_is_not() {
    let mut scratch = Scratch::default();
    for case in cases::all() {
        let with = |end: &[u8]| [&case.stored, end].concat();
        for end in [&b"U"[..], b"\0U", b"\xff\xff\xff\xff"] {
            let decoded = case.decoded(&with(end), &mut scratch);
            let is_ignored = case.name.starts_with("tiff_lzw");
            assert_eq!(decoded.is_ok(), is_ignored, "{} with {end:?}", case.name);
        }
        for end in [&b"\0"[..], b"\0\0\0"] {
            let decoded = case.decoded(&with(end), &mut scratch);
            assert_eq!(decoded.is_ok(), case.is_filled(), "{} with {end:?}", case.name);
        }
    }
}

#[test]
fn a_block_of_another_length_is_refused() {
    let mut scratch = Scratch::default();
    for case in cases::all() {
        let length = case.elements.len();
        let others = [0, length / 2, length.saturating_sub(1), length + 1, 2 * length + 64];
        for other in others.into_iter().filter(|other| *other != length) {
            let error = case.chain.decode(&case.stored, 0, &mut vec![0; other], &mut scratch);
            let error = error.expect_err(case.name);
            assert!(!error.cause().is_empty() && !error.codec().is_empty());
        }
    }
}

#[test]
fn a_damaged_block_is_refused_or_has_its_length() {
    let mut scratch = Scratch::default();
    for case in cases::all() {
        let mut stored = case.stored.clone();
        for at in positions(stored.len()) {
            for change in [0x01, 0x80, 0xff, stored[at]] {
                stored[at] ^= change;
                let decoded = case.decoded(&stored, &mut scratch);
                if let Ok(decoded) = decoded {
                    assert_eq!(decoded.len(), case.elements.len());
                    let is_summed = case.name.contains("checksum") || case.name.contains("32");
                    assert!(!is_summed || decoded == case.elements, "{}: byte {at}", case.name);
                }
                stored[at] = case.stored[at];
            }
        }
        assert!(case.decoded(&case.stored, &mut scratch).is_ok(), "{}: after damage", case.name);
    }
}

#[test]
fn zeros_that_decode_to_too_much_are_refused() {
    let (mut scratch, mut tested) = (Scratch::default(), 0);
    for case in cases::all().iter().filter(|case| case.name.ends_with("zeros")) {
        let error = case.chain.decode(&case.stored, 0, &mut [0; 100], &mut scratch).unwrap_err();
        assert_eq!(error.cause(), "decodes to more than 100 bytes", "{}", case.name);
        tested += 1;
    }
    assert_eq!(tested, 8);
    let zeros = vec![0; 1 << 24];
    for codec in [Codec::Deflate, Codec::Gzip] {
        let bomb = Chain::new(vec![codec.clone()]).encode(&zeros, &mut scratch).expect("encoded");
        assert!(bomb.len() < zeros.len() / 900);
        for codecs in [vec![codec.clone()], vec![codec.clone(), codec.clone()]] {
            let mut decoded = vec![0; 1000];
            let refused = Chain::new(codecs).decode(&bomb, 0, &mut decoded, &mut scratch);
            assert!(refused.unwrap_err().cause().starts_with("decodes to more than"));
        }
    }
}

/// The cause for which a codec refuses a block that should have eight bytes.
fn cause(codec: Codec, stored: &[u8]) -> String {
    let refused = Chain::new(vec![codec]).decode(stored, 0, &mut [0; 8], &mut Scratch::default());
    refused.expect_err("the block is damaged").cause().to_owned()
}

/// A container of blosc of these flags, with the length 8.
fn blosc(version: u8, flags: u8, data: &[u8]) -> Vec<u8> {
    let all = u32::try_from(16 + data.len()).expect("short").to_le_bytes();
    [&[version, 1, flags, 2, 8, 0, 0, 0, 8, 0, 0, 0][..], &all, data].concat()
}

#[test]
fn containers_that_are_not_supported_are_named() {
    let block = [20, 0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(
        cause(Codec::Blosc, &blosc(2, 2 << 5, &block)),
        "is compressed with snappy, which is not supported"
    );
    assert_eq!(
        cause(Codec::Blosc, &blosc(5, 0, &block)),
        "has format 5, of blosc 2, which is not supported"
    );
    assert_eq!(cause(Codec::Blosc, &blosc(2, 7 << 5, &block)), "has the unknown compression 7");
    assert_eq!(cause(Codec::Blosc, &blosc(2, 8, &block)), "has flags of a later format");
}

#[test]
fn lengths_that_a_container_states_wrongly_are_refused() {
    let long = "decodes to more than 8 bytes";
    assert_eq!(cause(Codec::Lz4, &[0xff; 20]), long);
    assert_eq!(cause(Codec::Lz4Hdf5, &[0xff; 20]), long);
    assert_eq!(cause(Codec::BitshuffleLz4 { element: 1, block: 0 }, &[0xff; 20]), long);
    let mut stored = blosc(2, 2, &[0; 8]);
    assert_eq!(cause(Codec::Blosc, &stored[..20]), "the data end early");
    stored[7] = 0x7f;
    assert_eq!(cause(Codec::Blosc, &stored), long);
    // A block begins at its own end, after the data or in the header.
    for start in [24_u32, 25, u32::MAX] {
        let stored = blosc(2, 0, &[&start.to_le_bytes()[..], &[0; 4]].concat());
        assert!(!cause(Codec::Blosc, &stored).is_empty());
    }
    // No bytes in a block, and blocks of seven elements.
    let header = [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 1];
    assert_eq!(cause(Codec::Lz4Hdf5, &header), "the blocks have no bytes");
    let header = [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 7, 1, 1];
    assert_eq!(
        cause(Codec::BitshuffleZstd { element: 1, block: 0 }, &header),
        "blocks of 7 elements are no multiple of eight"
    );
    // A frame of Zstandard that states four bytes, and has 24.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 4, 0xc3, 0, 0, 7];
    assert!(!cause(Codec::Zstd, &frame).is_empty());
    // One that states 2^62 bytes.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0];
    assert_eq!(cause(Codec::Zstd, &frame), long);
}

#[test]
fn a_large_window_of_zstandard_needs_no_memory() {
    // A window of 2 GiB, and one stored block of three bytes.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 0x19, 0, 0, b'a', b'b', b'c'];
    let mut decoded = [0; 3];
    let chain = Chain::new(vec![Codec::Zstd]);
    chain.decode(&frame, 0, &mut decoded, &mut Scratch::default()).expect("a sound frame");
    assert_eq!(decoded, *b"abc");
}
