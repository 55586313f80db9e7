//! The twin of `combine`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

use half::bf16;
use std::cmp::Ordering::{Equal, Greater, Less};
use trijet_twins::device_float;

/// An element that can be combined.
pub(crate) trait Combinable: Copy {
    /// The sum, as the device rounds or wraps it.
    fn sum(self, other: Self) -> Self;
    /// The smaller number. If one of two floats is a NaN, the result is a NaN. -0 is less than 0.
    fn least(self, other: Self) -> Self;
    /// The larger number. If one of two floats is a NaN, the result is a NaN. 0 is greater than -0.
    fn most(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($type:ty, $nan:literal, $sum:expr;)*) => {$(
        impl Combinable for $type {
            fn sum(self, other: Self) -> Self {
                $sum(self, other)
            }

            fn least(self, other: Self) -> Self {
                match self.partial_cmp(&other) {
                    None => Self::from_bits($nan),
                    Some(Less) => self,
                    Some(Greater) => other,
                    // Both are zeros, or both are the same number. The result has the sign bit if
                    // one of the two has the sign bit.
                    Some(Equal) => Self::from_bits(self.to_bits() | other.to_bits()),
                }
            }

            fn most(self, other: Self) -> Self {
                match self.partial_cmp(&other) {
                    None => Self::from_bits($nan),
                    Some(Less) => other,
                    Some(Greater) => self,
                    Some(Equal) => Self::from_bits(self.to_bits() & other.to_bits()),
                }
            }
        }
    )*};
}
floats! {
    f32, 0x7fff_ffff, |a: f32, b: f32| device_float(a + b);
    bf16, 0x7fff, |a: bf16, b: bf16| {
        let sum = a.to_f32() + b.to_f32();
        if sum.is_nan() { bf16::from_bits(0x7fff) } else { bf16::from_f32(sum) }
    };
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Combinable for $type {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            fn most(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}
integers! { i32 u32 i64 u64 }

fn each<T: Copy>(x: &[T], y: &mut [T], of: impl Fn(T, T) -> T) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = of(*x, *y);
    }
}

/// `y[i] = x[i] + y[i]` over the shorter of `x` and `y`.
pub(crate) fn sum<T: Combinable>(x: &[T], y: &mut [T]) {
    each(x, y, T::sum);
}

/// `y[i] = min(x[i], y[i])` over the shorter of `x` and `y`.
pub(crate) fn min<T: Combinable>(x: &[T], y: &mut [T]) {
    each(x, y, T::least);
}

/// `y[i] = max(x[i], y[i])` over the shorter of `x` and `y`.
pub(crate) fn max<T: Combinable>(x: &[T], y: &mut [T]) {
    each(x, y, T::most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap() {
        let mut y = [i32::MAX, 5];
        sum(&[1, 2], &mut y);
        assert_eq!(y, [i32::MIN, 7]);
    }

    /// Compares the bits of NaNs, and of zeros of both signs, in both orders.
    #[test]
    fn a_nan_wins_and_zeros_have_an_order() {
        let (one, nan, zero) = (0x3f80_0000, 0x7fff_ffff, 0x8000_0000);
        for (x, y, least, most) in [
            (one, 0xffc0_0001, nan, nan),
            (0x7f80_0001, one, nan, nan),
            (0x7f80_0001, 0x7fc0_0000, nan, nan),
            (zero, 0, zero, 0),
            (0, zero, zero, 0),
            (zero, zero, zero, zero),
        ] {
            let x = [f32::from_bits(x)];
            let (mut small, mut large) = ([f32::from_bits(y)], [f32::from_bits(y)]);
            min(&x, &mut small);
            max(&x, &mut large);
            assert_eq!((small[0].to_bits(), large[0].to_bits()), (least, most), "{x:?}");
        }
    }

    /// 256 + 1 lies in the middle of 256 and 258, and 258 + 1 in the middle of 258 and 260.
    #[test]
    fn a_sum_in_the_middle_of_two_numbers_is_rounded_to_the_even_one() {
        let mut y = [256.0, 258.0, f32::MAX, f32::INFINITY].map(bf16::from_f32);
        sum(&[1.0, 1.0, 3e38, f32::NEG_INFINITY].map(bf16::from_f32), &mut y);
        assert_eq!(y.map(bf16::to_f32)[..3], [256.0, 260.0, f32::INFINITY]);
        assert_eq!(y[3].to_bits(), 0x7fff);
    }
}
