//! The twin of `warp_specialized`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

use trijet_twins::device_float;

/// `z[i] = x[i] + y[i]` over the shortest of the three.
pub(crate) fn add(x: &[f32], y: &[f32], z: &mut [f32]) {
    for ((z, x), y) in z.iter_mut().zip(x).zip(y) {
        *z = device_float(x + y);
    }
}

#[cfg(test)]
mod tests {
    use super::add;

    #[test]
    fn sums_are_rounded_and_every_nan_is_that_of_the_device() {
        let mut z = [0.0; 3];
        add(&[1.0, f32::INFINITY, 2.5], &[f32::EPSILON / 2.0, f32::NEG_INFINITY, -2.5], &mut z);
        assert_eq!(z.map(f32::to_bits), [1.0_f32.to_bits(), 0x7fff_ffff, 0]);
    }

    #[test]
    fn elements_beyond_the_shortest_slice_stay() {
        let mut z = [9.0; 3];
        add(&[1.0, 2.0], &[10.0, 20.0, 30.0], &mut z);
        assert_eq!(z, [11.0, 22.0, 9.0]);
    }
}
