//! Floats as a device writes them.
#![forbid(unsafe_code)]

/// The result of a float operation as a device writes it. On a device, the bits of a NaN are always
/// the same (CUDA C++ Programming Guide, "Floating-Point Standard"), whereas a CPU keeps the
/// payload.
#[must_use]
#[inline]
pub fn device_float(v: f32) -> f32 {
    if v.is_nan() { f32::from_bits(0x7fff_ffff) } else { v }
}
