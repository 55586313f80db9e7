//! The steps of a chain.

/// One step of a chain.
///
/// Elements and samples are counted in bytes. A parameter that fits no block, such as an element of
/// no bytes, is an error when the chain decodes.
///
/// ```
/// use trijet_codecs::{Chain, Codec, Scratch};
///
/// // Two rows of three samples of 16 bits, each stored as the difference to the sample before it.
/// let predictor = Codec::HorizontalPredictor { sample: 2, samples: 1, row: 6 };
/// let stored = [5, 0, 1, 0, 1, 0, 9, 0, 255, 255, 0, 1];
/// let mut decoded = [0; 12];
/// Chain::new(vec![predictor]).decode(&stored, 0, &mut decoded, &mut Scratch::default())?;
/// assert_eq!(decoded, [5, 0, 6, 0, 7, 0, 9, 0, 8, 0, 8, 1]);
/// # Ok::<(), trijet_codecs::CodecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Codec {
    /// A zlib stream: compression 8 and 32946 of TIFF, `zlib` of zarr, filter 1 of HDF5. Zero bytes
    /// may follow, because writers of TIFF fill strips up to an even length.
    Deflate,
    /// Members of gzip: `gzip` of zarr.
    Gzip,
    /// Frames of Zstandard: `zstd` of zarr, compression 50000 of TIFF, filter 32015 of HDF5.
    Zstd,
    /// `lz4` of numcodecs: the length as four bytes in little-endian order, and one block of LZ4.
    Lz4,
    /// Filter 32004 of HDF5: the length and the length of a block in big-endian order, and blocks
    /// of LZ4 with their lengths.
    Lz4Hdf5,
    /// LZW of TIFF 6: the most significant bit first, and codes that become longer one code early.
    /// The end code may be missing, and any bytes may follow it, as for other readers.
    Lzw,
    /// PackBits, compression 32773 of TIFF. Bytes that stand for nothing, and zero bytes, may
    /// follow.
    PackBits,
    /// The first bytes of all elements, then the second ones, and so on: filter 2 of HDF5, and
    /// `shuffle` of numcodecs. Bytes that are no whole element stay at the end.
    Shuffle {
        /// The bytes of an element.
        element: usize,
    },
    /// The first bits of all elements of a block, then the second ones, and so on: filter 32008 of
    /// HDF5 without compression. Up to seven elements stay as they are at the end.
    Bitshuffle {
        /// The bytes of an element.
        element: usize,
        /// The elements of a block: a multiple of eight, or 0 for the default of the filter.
        block: usize,
    },
    /// Filter 32008 of HDF5 with LZ4: a header of 12 bytes, and blocks of LZ4 whose bits are
    /// shuffled.
    BitshuffleLz4 {
        /// The bytes of an element.
        element: usize,
        /// The elements of a block, if the header has none: a multiple of eight, or 0 for the
        /// default of the filter.
        block: usize,
    },
    /// Filter 32008 of HDF5 with Zstandard, as with LZ4.
    BitshuffleZstd {
        /// The bytes of an element.
        element: usize,
        /// The elements of a block, if the header has none: a multiple of eight, or 0 for the
        /// default of the filter.
        block: usize,
    },
    /// A container of blosc 1 with blosclz, LZ4, zlib or Zstandard. Snappy and blosc 2 are refused.
    Blosc,
    /// Predictor 2 of TIFF: each sample is the difference to the sample before it in the row, in
    /// little-endian order.
    HorizontalPredictor {
        /// The bytes of a sample: 1, 2, 4 or 8.
        sample: usize,
        /// The samples of a pixel.
        samples: usize,
        /// The bytes of a row.
        row: usize,
    },
    /// Predictor 3 of TIFF: the bytes of a row by their significance, the most significant ones
    /// first, as differences. The decoded samples are in little-endian order.
    FloatPredictor {
        /// The bytes of a sample.
        sample: usize,
        /// The samples of a pixel.
        samples: usize,
        /// The bytes of a row.
        row: usize,
    },
    /// `crc32c` of zarr: the last four bytes are the CRC-32C of the others, in little-endian order.
    Crc32c,
    /// Filter 3 of HDF5: the last four bytes are the sum of Fletcher of the others.
    Fletcher32,
    /// The other byte order.
    Swap {
        /// The bytes of an element.
        element: usize,
    },
    /// Axes in another order: `transpose` of zarr 3, and the order `F` of zarr 2, which is the
    /// order of all axes backwards.
    Transpose {
        /// The bytes of an element.
        element: usize,
        /// The shape of the decoded block, the slowest axis first.
        shape: Vec<usize>,
        /// The axes of the decoded block in the order in which they are stored, the slowest first.
        order: Vec<usize>,
    },
}

/// The length of the output of a step, as far as the length of the input tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// As long as the input.
    Kept,
    /// Shorter than the input, by a checksum at the end.
    Check,
    /// Any length: the step decompresses.
    Free,
}

impl Codec {
    /// The name of the codec in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Lz4Hdf5 => "lz4 of HDF5",
            Self::Lzw => "lzw",
            Self::PackBits => "packbits",
            Self::Shuffle { .. } => "shuffle",
            Self::Bitshuffle { .. } => "bitshuffle",
            Self::BitshuffleLz4 { .. } => "bitshuffle with lz4",
            Self::BitshuffleZstd { .. } => "bitshuffle with zstd",
            Self::Blosc => "blosc",
            Self::HorizontalPredictor { .. } => "horizontal predictor",
            Self::FloatPredictor { .. } => "float predictor",
            Self::Crc32c => "crc32c",
            Self::Fletcher32 => "fletcher32",
            Self::Swap { .. } => "byte order",
            Self::Transpose { .. } => "transpose",
        }
    }

    pub(crate) fn length(&self) -> Length {
        match self {
            Self::Deflate
            | Self::Gzip
            | Self::Zstd
            | Self::Lz4
            | Self::Lz4Hdf5
            | Self::Lzw
            | Self::PackBits
            | Self::BitshuffleLz4 { .. }
            | Self::BitshuffleZstd { .. }
            | Self::Blosc => Length::Free,
            Self::Crc32c | Self::Fletcher32 => Length::Check,
            Self::Shuffle { .. }
            | Self::Bitshuffle { .. }
            | Self::HorizontalPredictor { .. }
            | Self::FloatPredictor { .. }
            | Self::Swap { .. }
            | Self::Transpose { .. } => Length::Kept,
        }
    }
}
