//! The affine map of 8 and 16 bit integers and of floats.
#![forbid(unsafe_code)]

use crate::float::device_float;

/// The arithmetic of an element type.
trait Element: Copy {
    /// The element as an `f32`, without rounding.
    fn widen(self) -> f32;

    /// The nearest element, ties to even, saturated to the range of the type. NaN becomes 0 in
    /// integers.
    fn narrow(v: f32) -> Self;
}

impl Element for u8 {
    fn widen(self) -> f32 {
        f32::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low 8 bits hold the integer")]
    fn narrow(v: f32) -> Self {
        rounded(v, f32::from(Self::MAX)) as Self
    }
}

impl Element for u16 {
    fn widen(self) -> f32 {
        f32::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low 16 bits hold the integer")]
    fn narrow(v: f32) -> Self {
        rounded(v, f32::from(Self::MAX)) as Self
    }
}

impl Element for f32 {
    fn widen(self) -> f32 {
        self
    }

    fn narrow(v: f32) -> Self {
        device_float(v)
    }
}

/// 2^23. An `f32` of this size has no bits for a fraction, so adding this number rounds to an
/// integer.
const NO_FRACTION: f32 = 8_388_608.0;

/// The integer nearest to `v`, ties to even, limited to `0..=max`; 0 for NaN. The integer is in the
/// low bits of the result. `max` must be less than 2^23. The rounding by an addition lets the
/// compiler use vector instructions. `round_ties_even` would need vector instructions that not
/// every x86-64 processor has.
fn rounded(v: f32, max: f32) -> u32 {
    let held = if v > 0.0 { v } else { 0.0 };
    let held = if held < max { held } else { max };
    (held + NO_FRACTION).to_bits()
}

/// An element type of the affine map: `u8`, `u16` or `f32`.
pub trait Affine: Copy + sealed::Sealed {
    /// `y[i] = scale * x[i] + offset` over the shorter of `x` and `y`, rounded after the product
    /// and after the sum. An integer result is the nearest integer, ties to even, saturated; NaN
    /// becomes 0.
    ///
    /// ```
    /// use trijet_twins::Affine;
    /// let mut y = [0_u8; 3];
    /// Affine::affine(2.0, 1.0, &[1, 2, 200], &mut y);
    /// assert_eq!(y, [3, 5, 255]);
    /// ```
    fn affine(scale: f32, offset: f32, x: &[Self], y: &mut [Self]);
}

mod sealed {
    #[expect(unnameable_types, reason = "no other crate may implement it")]
    pub trait Sealed {}
}

macro_rules! maps {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl Affine for $type {
            fn affine(scale: f32, offset: f32, x: &[Self], y: &mut [Self]) {
                affine(scale, offset, x, y);
            }
        }
    )*};
}

maps!(u8, u16, f32);

fn affine<T: Element>(scale: f32, offset: f32, x: &[T], y: &mut [T]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = T::narrow(scale * x.widen() + offset);
    }
}

#[cfg(test)]
mod tests {
    use super::affine;

    fn one_u8(scale: f32, offset: f32, x: u8) -> u8 {
        let mut y = [77];
        affine(scale, offset, &[x], &mut y);
        y[0]
    }

    /// Computes the rule as the documentation states it.
    #[test]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "casts of floats saturate, and NaN gives 0"
    )]
    fn narrowing_is_the_nearest_integer_saturated() {
        use super::Element;
        let mut drawn = 1_u64;
        let drawn = (0..200_000).map(|_| {
            // The 64-bit linear congruential generator of Knuth.
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f32::from_bits((drawn >> 32) as u32)
        });
        let halves = (-600..140_000).map(|n| n as f32 / 2.0);
        let beside = halves.clone().flat_map(|v| [v.next_up(), v.next_down()]);
        let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX];
        for v in drawn.chain(halves).chain(beside).chain(special) {
            assert_eq!(u8::narrow(v), v.round_ties_even() as u8, "{v}");
            assert_eq!(u16::narrow(v), v.round_ties_even() as u16, "{v}");
        }
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!([1, 3, 5].map(|x| one_u8(0.5, 0.0, x)), [0, 2, 2]);
    }

    #[test]
    fn values_beyond_the_range_saturate() {
        assert_eq!(one_u8(2.0, 0.0, 200), 255);
        assert_eq!(one_u8(1.0, 254.6, 0), 255);
        assert_eq!(one_u8(-1.0, 0.0, 1), 0);
        assert_eq!(one_u8(f32::INFINITY, 0.0, 1), 255);
        assert_eq!(one_u8(f32::NEG_INFINITY, 0.0, 1), 0);
        let mut wide = [0_u16; 2];
        affine(1.0, 65_534.0, &[1, 2], &mut wide);
        assert_eq!(wide, [65_535, 65_535]);
    }

    #[test]
    fn nan_is_zero_in_integers_and_the_nan_of_the_device_in_floats() {
        assert_eq!(one_u8(f32::INFINITY, 0.0, 0), 0);
        let mut y = [0.0_f32];
        affine(f32::INFINITY, 0.0, &[0.0], &mut y);
        assert_eq!(y[0].to_bits(), 0x7fff_ffff);
    }

    #[test]
    fn the_product_is_rounded_before_the_sum() {
        let a = 1.0 + f32::EPSILON;
        let mut y = [1.0_f32];
        affine(a, -(1.0 + 2.0 * f32::EPSILON), &[a], &mut y);
        assert_eq!(y, [0.0]);
    }
}
