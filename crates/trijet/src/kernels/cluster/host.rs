//! The twin of `cluster`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

use trijet_twins::device_float;

/// Computes rows of the product of `x` and `w` into `y`. `x` has the same rows as `y`, with `inner`
/// elements each. `w` has rows of `columns` elements.
pub(crate) fn matmul(inner: usize, columns: usize, x: &[f32], w: &[f32], y: &mut [f32]) {
    for (row, y) in y.chunks_mut(columns).enumerate() {
        let x = &x[row * inner..][..inner];
        for (column, y) in y.iter_mut().enumerate() {
            let w = w.iter().skip(column).step_by(columns);
            *y = device_float(x.iter().zip(w).fold(0.0, |sum, (x, w)| sum + x * w));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matmul;

    #[test]
    fn a_product_by_hand() {
        let (x, w) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
        let mut y = [0.0; 4];
        matmul(3, 2, &x, &w, &mut y);
        assert_eq!(y, [58.0, 64.0, 139.0, 154.0]);
    }

    #[test]
    fn without_inner_elements_the_sums_are_zero() {
        let mut y = [7.0; 3];
        matmul(0, 3, &[], &[], &mut y);
        assert_eq!(y, [0.0; 3]);
    }

    #[test]
    fn products_are_rounded_before_the_sum_in_the_order_of_the_rows() {
        let a = 1.0 + f32::EPSILON;
        let mut y = [0.0];
        matmul(2, 1, &[-(1.0 + 2.0 * f32::EPSILON), a], &[1.0, a], &mut y);
        assert_eq!(y, [0.0], "a fused operation keeps the square of epsilon");
        matmul(3, 1, &[1e8, 1.0, -1e8], &[1.0; 3], &mut y);
        assert_eq!(y, [0.0], "1 is lost in 1e8");
    }
}
