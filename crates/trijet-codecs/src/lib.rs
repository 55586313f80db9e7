//! Bounded decoders of the blocks of array files: strips and tiles of TIFF, chunks of zarr and of
//! HDF5.
//!
//! A [`Chain`] of [`Codec`]s turns the stored bytes of one block into the elements of the block.
//! The caller knows the length of the elements, so the length after each step is known or bounded
//! before the step begins. A decoder writes into memory of this length, and a block that decodes to
//! more is an error. No decoder reserves memory by a number from the data, and no bytes make one
//! panic.
//!
//! Codecs that libraries implement well are calls of these libraries: deflate, Zstandard, LZ4, LZW
//! and CRC-32C. The others are here: the containers of HDF5 and blosc, blosclz, PackBits, the
//! shuffles of bytes and bits, the predictors, and the order of bytes and axes.
//!
//! Beside these, the crate has the loops over all elements of a buffer, and the encoder of images,
//! for the crate that reads and writes files. That crate is compiled without optimisation.
//!
//! ```
//! use trijet_codecs::{Chain, Codec, Scratch};
//!
//! // A chunk of HDF5: the filters shuffle and deflate, undone in the opposite order.
//! let chain = Chain::new(vec![Codec::Deflate, Codec::Shuffle { element: 2 }]);
//! let mut scratch = Scratch::default();
//! let elements = [1, 0, 2, 0, 3, 0];
//! let stored = chain.encode(&elements, &mut scratch)?;
//! let mut decoded = [0; 6];
//! chain.decode(&stored, 0, &mut decoded, &mut scratch)?;
//! assert_eq!(decoded, elements);
//! // A block that is longer than the caller expects is refused.
//! let mut short = [0; 4];
//! let error = chain.decode(&stored, 0, &mut short, &mut scratch).unwrap_err();
//! assert_eq!(error.to_string(), "deflate: decodes to more than 4 bytes");
//! # Ok::<(), trijet_codecs::CodecError>(())
//! ```
#![forbid(unsafe_code)]

mod bits;
mod bitshuffle;
mod blosc;
mod blosclz;
mod bytes;
mod chain;
mod checksum;
mod codec;
mod deflate;
mod elements;
mod encode;
mod error;
mod gray_png;
mod lookup3;
mod lz4;
mod lzw;
mod packbits;
mod predictor;
mod scratch;
mod shuffle;
mod swap;
mod transpose;
mod zstandard;

pub use chain::Chain;
pub use codec::Codec;
pub use elements::{fill, gather, swap_in_place};
pub use error::CodecError;
pub use gray_png::gray_png;
pub use lookup3::lookup3;
pub use scratch::Scratch;
