//! The twin of `axpy`: the same computation on the host, over slices. The product and the sum are
//! rounded separately.
#![forbid(unsafe_code)]

use trijet_twins::device_float;

/// `y[i] = a * x[i] + y[i]` over the shorter of `x` and `y`.
pub(crate) fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = device_float(a * x + *y);
    }
}

#[cfg(test)]
mod tests {
    use super::axpy;

    #[test]
    fn the_product_is_rounded_before_the_sum() {
        // (1 + e)^2 = 1 + 2e + e^2. The rounding of the product loses e^2. A fused operation keeps
        // e^2.
        let a = 1.0 + f32::EPSILON;
        let mut y = [-(1.0 + 2.0 * f32::EPSILON)];
        assert!(a.mul_add(a, y[0]) > 0.0);
        axpy(a, &[a], &mut y);
        assert_eq!(y, [0.0]);
    }

    #[test]
    fn every_nan_is_the_nan_of_the_device() {
        let mut y = [f32::from_bits(0xffc0_0001), 0.0];
        axpy(f32::INFINITY, &[1.0, 0.0], &mut y);
        assert_eq!(y.map(f32::to_bits), [0x7fff_ffff; 2]);
    }

    #[test]
    fn elements_beyond_the_shorter_slice_stay() {
        let mut y = [1.0, 1.0, 1.0];
        axpy(2.0, &[1.0, 2.0], &mut y);
        assert_eq!(y, [3.0, 5.0, 1.0]);
    }
}
