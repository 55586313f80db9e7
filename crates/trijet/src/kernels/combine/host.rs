//! The twin of `combine`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

use crate::kernels::device_float;
use half::bf16;

/// An element that can be combined.
pub(crate) trait Element: Copy + PartialOrd {
    /// The sum, as the device rounds or wraps it.
    fn sum(self, other: Self) -> Self;
}

impl Element for f32 {
    fn sum(self, other: Self) -> Self {
        device_float(self + other)
    }
}

impl Element for bf16 {
    fn sum(self, other: Self) -> Self {
        let sum = self.to_f32() + other.to_f32();
        if sum.is_nan() { Self::from_bits(0x7fff) } else { Self::from_f32(sum) }
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Element for $type {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
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
pub(crate) fn sum<T: Element>(x: &[T], y: &mut [T]) {
    each(x, y, T::sum);
}

/// The smaller of both, over the shorter of `x` and `y`.
pub(crate) fn min<T: Element>(x: &[T], y: &mut [T]) {
    each(x, y, |x, y| if x < y { x } else { y });
}

/// The larger of both, over the shorter of `x` and `y`.
pub(crate) fn max<T: Element>(x: &[T], y: &mut [T]) {
    each(x, y, |x, y| if x > y { x } else { y });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_a_nan_in_the_second_stays() {
        let mut y = [i32::MAX, 5];
        sum(&[1, 2], &mut y);
        assert_eq!(y, [i32::MIN, 7]);
        let mut y = [f32::NAN, 1.0];
        min(&[0.0, f32::NAN], &mut y);
        max(&[0.0, f32::NAN], &mut y);
        assert!(y[0].is_nan());
        assert_eq!(y[1].to_bits(), 1.0f32.to_bits());
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
