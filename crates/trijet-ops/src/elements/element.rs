//! The arithmetic of the element types, as `elements.cuh` defines it.
#![forbid(unsafe_code)]

/// An element of a real type.
///
/// Values are computed in `f64`. A result becomes an element with one rounding: to nearest, ties to
/// even; integers saturate, and NaN gives 0. A NaN in a float has all bits set but the sign.
pub(crate) trait Element: Copy {
    /// The size in bytes.
    const BYTES: usize;
    /// Whether the type is an integer.
    const IS_INTEGER: bool;

    /// The element with these bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Writes the bytes of the element.
    fn write(self, bytes: &mut [u8]);
    /// The value. 64-bit integers are rounded to nearest.
    fn real(self) -> f64;
    /// The value, rounded to odd: towards zero, and the last bit set if this was not exact. A value
    /// that is rounded to odd can be rounded again to a type with at least two bits less, with the
    /// same result as if rounded once.
    fn odd(self) -> f64;
    /// The element nearest to a value.
    fn nearest(v: f64) -> Self;
    /// The value of an integer. 0 for a float.
    fn whole(self) -> i128;
    /// The integer modulo the number of values of the type. For floats the nearest element.
    fn wrapped(v: i128) -> Self;
}

/// The elements of a span.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(T::BYTES).map(T::from_bytes)
}

/// An integer of 64 bits, rounded to odd.
#[expect(clippy::cast_possible_truncation, reason = "an i128 holds every rounded integer")]
fn odd_of(v: i128) -> f64 {
    let near = v as f64;
    if near as i128 == v {
        return near;
    }
    // The neighbour towards zero, if the nearest value is further away from zero.
    let bits = near.abs().to_bits() - u64::from((near as i128).abs() > v.abs());
    f64::from_bits(bits | 1).copysign(near)
}

/// The nearest `f32`.
#[expect(clippy::cast_possible_truncation, reason = "the cast rounds to nearest")]
pub(crate) fn single(v: f64) -> f32 {
    v as f32
}

/// A value rounded to odd in single precision. Not for NaN.
fn odd_f32(v: f64) -> f32 {
    let near = single(v);
    if f64::from(near) == v {
        return near;
    }
    let bits = near.abs().to_bits() - u32::from(f64::from(near).abs() > v.abs());
    f32::from_bits(bits | 1).copysign(near)
}

/// 1.5 * 2^52. After the addition of this number to a smaller value, an `f64` has no bits for a
/// fraction, so the addition rounds to an integer. The compiler can use vector instructions for it.
const NO_FRACTION: f64 = 6_755_399_441_055_744.0;

/// The integer nearest to a value, ties to even.
fn rounded(v: f64) -> f64 {
    const EXACT: f64 = 2_251_799_813_685_248.0;
    if v.abs() < EXACT { (v + NO_FRACTION) - NO_FRACTION } else { v.round_ties_even() }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<Self>();
            const IS_INTEGER: bool = true;

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn real(self) -> f64 {
                self as f64
            }

            fn odd(self) -> f64 {
                if size_of::<Self>() < 8 { self as f64 } else { odd_of(self.into()) }
            }

            #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
            fn nearest(v: f64) -> Self {
                rounded(v) as Self
            }

            fn whole(self) -> i128 {
                self.into()
            }

            #[expect(clippy::cast_possible_truncation, reason = "the low bits are the remainder")]
            fn wrapped(v: i128) -> Self {
                v as Self
            }
        }
    )*};
}

integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! floats {
    ($($type:ident $bytes:literal $decode:expr, $encode:expr;)*) => {$(
        impl Element for $type {
            const BYTES: usize = $bytes;
            const IS_INTEGER: bool = false;

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; $bytes];
                own.copy_from_slice(bytes);
                $decode(own)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.own_bytes());
            }

            fn real(self) -> f64 {
                self.value()
            }

            fn odd(self) -> f64 {
                self.value()
            }

            fn nearest(v: f64) -> Self {
                $encode(v)
            }

            fn whole(self) -> i128 {
                0
            }

            fn wrapped(v: i128) -> Self {
                Self::nearest(odd_of(v))
            }
        }
    )*};
}

/// A half-precision float, as its bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct F16(u16);

/// The upper half of an `f32`, as its bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BF16(u16);

/// The bytes and the value of a float.
trait Float {
    type Bytes;
    fn own_bytes(self) -> Self::Bytes;
    fn value(self) -> f64;
}

impl Float for F16 {
    type Bytes = [u8; 2];

    fn own_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    fn value(self) -> f64 {
        let (exponent, fraction) = (i32::from(self.0 >> 10 & 31), f64::from(self.0 & 1023));
        let size = match exponent {
            0 => fraction * 2_f64.powi(-24),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
        };
        if self.0 >> 15 == 1 { -size } else { size }
    }
}

impl Float for BF16 {
    type Bytes = [u8; 2];

    fn own_bytes(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    fn value(self) -> f64 {
        f32::from_bits(u32::from(self.0) << 16).into()
    }
}

impl Float for f32 {
    type Bytes = [u8; 4];

    fn own_bytes(self) -> [u8; 4] {
        self.to_le_bytes()
    }

    fn value(self) -> f64 {
        self.into()
    }
}

impl Float for f64 {
    type Bytes = [u8; 8];

    fn own_bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }

    fn value(self) -> f64 {
        self
    }
}

floats! {
    F16 2 |own| Self(u16::from_le_bytes(own)), |v| Self(half_bits(v));
    BF16 2 |own| Self(u16::from_le_bytes(own)), |v| Self(upper_bits(v));
    f32 4 Self::from_le_bytes, |v: f64| {
        if v.is_nan() { Self::from_bits(0x7fff_ffff) } else { single(v) }
    };
    f64 8 Self::from_le_bytes, |v: f64| {
        if v.is_nan() { Self::from_bits(u64::MAX >> 1) } else { v }
    };
}

/// The bits of the half-precision float that is nearest to a value.
fn half_bits(v: f64) -> u16 {
    if v.is_nan() {
        return 0x7fff;
    }
    let sign = if v.is_sign_negative() { 0x8000 } else { 0 };
    // 2^-24 is the smallest float. From 2^-14, a float has 10 bits after its first bit. The factor
    // makes the last bit of the result the unit; the product is exact.
    let size = v.abs().min(131_072.0);
    let exponent = i32::try_from(size.to_bits() >> 52).unwrap_or(0) - 1023;
    let exponent = exponent.max(-14);
    let units = rounded(size * 2_f64.powi(10 - exponent));
    // The bits of floats count up through the exponents, so a carry into the exponent is right.
    let bits = units + 1024.0 * f64::from(exponent + 14);
    sign | <u16 as Element>::nearest(bits.min(31_744.0))
}

/// The upper half of the bits of the `f32` that is nearest to a value in this format.
fn upper_bits(v: f64) -> u16 {
    if v.is_nan() {
        return 0x7fff;
    }
    let bits = odd_f32(v).to_bits();
    let up = u32::from(bits >> 16 & 1 == 1) + 0x7fff;
    u16::try_from((bits + up) >> 16).unwrap_or(u16::MAX)
}
