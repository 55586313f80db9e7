//! The parameters of the kernels of `pointwise.cu`.
#![forbid(unsafe_code)]

use trijet::kernels::{Read, Write};

/// `(from, to, x, y)`
pub(super) type ConvertParams = (u32, u32, Read<u8>, Write<u8>);
/// `(bytes, x, y)`
pub(super) type SwapParams = (u32, Read<u8>, Write<u8>);
/// `(type, scale, offset, x, y)`
pub(super) type AffineParams = (u32, f64, f64, Read<u8>, Write<u8>);
/// `(from, to, low, high, to_low, to_high, x, y)`
pub(super) type RescaleParams = (u32, u32, f64, f64, f64, f64, Read<u8>, Write<u8>);
/// `(type, low, high, x, y)`
pub(super) type ClipParams = (u32, u64, u64, Read<u8>, Write<u8>);
/// `(type, above, low, high, x, y)`
pub(super) type ThresholdParams = (u32, u64, u32, u32, Read<u8>, Write<u8>);
/// `(from, to, first, area, scale, x, dark, flat, y)`
pub(super) type FieldParams = (u32, u32, u64, u64, f64, Read<u8>, Read<f64>, Read<f64>, Write<u8>);
