//! The twin of `combine`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

use crate::kernels::device_float;

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
}
