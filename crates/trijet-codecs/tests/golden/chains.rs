//! The codecs of each case, by its name.

use trijet_codecs::Codec;

/// The codecs of the case `name`.
pub(crate) fn of(name: &str) -> Vec<Codec> {
    let words: Vec<&str> = name.split('_').collect();
    match words.as_slice() {
        ["shuffle", element] => vec![Codec::Shuffle { element: number(element) }],
        ["swap", element] => vec![Codec::Swap { element: number(element) }],
        ["blosc", ..] => vec![Codec::Blosc],
        ["transpose", which] => vec![transpose(which)],
        ["hdf5", rest @ ..] => hdf5(rest),
        ["tiff", rest @ ..] => tiff(rest),
        [codec, ..] => vec![plain(codec)],
        [] => panic!("no name"),
    }
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}

fn plain(name: &str) -> Codec {
    match name {
        "zlib" | "deflate" => Codec::Deflate,
        "gzip" => Codec::Gzip,
        "zstd" => Codec::Zstd,
        "lz4" => Codec::Lz4,
        "lzw" => Codec::Lzw,
        "packbits" => Codec::PackBits,
        "crc32c" => Codec::Crc32c,
        "fletcher32" => Codec::Fletcher32,
        other => panic!("`{other}` is no codec"),
    }
}

fn transpose(which: &str) -> Codec {
    let (element, shape, order) = match which {
        "f" => (2, vec![3, 4, 5], vec![2, 1, 0]),
        "120" => (2, vec![3, 4, 5], vec![1, 2, 0]),
        "3102" => (3, vec![2, 3, 40, 4], vec![3, 1, 0, 2]),
        "plane" => (1, vec![35, 41], vec![1, 0]),
        other => panic!("`{other}` is no order"),
    };
    Codec::Transpose { element, shape, order }
}

fn hdf5(words: &[&str]) -> Vec<Codec> {
    let element = |size: &str| match size {
        "u1" => 1,
        "u4" => 4,
        "f8" => 8,
        "16" => 16,
        _ => 2,
    };
    match *words {
        ["gzip", _] => vec![Codec::Deflate],
        ["lz4", ..] => vec![Codec::Lz4Hdf5],
        ["zstd"] => vec![Codec::Zstd],
        ["shuffle"] => vec![Codec::Deflate, Codec::Shuffle { element: 4 }],
        ["checksum"] => {
            vec![Codec::Fletcher32, Codec::Deflate, Codec::Shuffle { element: 2 }]
        }
        ["checksum", _] => vec![Codec::Fletcher32],
        ["blosc"] => vec![Codec::Blosc],
        ["bitshuffle", compression, size] => {
            let (element, block) = (element(size), if size == "small" { 16 } else { 0 });
            vec![match compression {
                "lz4" => Codec::BitshuffleLz4 { element, block },
                "zstd" => Codec::BitshuffleZstd { element, block },
                _ => Codec::Bitshuffle { element, block },
            }]
        }
        _ => panic!("{words:?} are no filters"),
    }
}

fn tiff(words: &[&str]) -> Vec<Codec> {
    match *words {
        ["horizontal", "big", _] => vec![
            Codec::Zstd,
            Codec::Swap { element: 2 },
            Codec::HorizontalPredictor { sample: 2, samples: 1, row: 14 },
        ],
        ["horizontal", sample, samples] => {
            let (sample, samples) = (number(sample), number(samples));
            let row = 7 * sample * samples;
            vec![Codec::Zstd, Codec::HorizontalPredictor { sample, samples, row }]
        }
        ["float", "tile"] => {
            vec![Codec::Zstd, Codec::FloatPredictor { sample: 4, samples: 1, row: 64 }]
        }
        ["float", sample, samples] => {
            let (sample, samples) = (number(sample), number(samples));
            let row = 7 * sample * samples;
            vec![Codec::Zstd, Codec::FloatPredictor { sample, samples, row }]
        }
        [compression, ..] => vec![plain(compression)],
        [] => panic!("no compression"),
    }
}
