//! The twin of `multicast`: the same computation on the host, over matrices.
#![forbid(unsafe_code)]

use crate::device::tiling::Matrix;
use trijet_twins::device_float;

/// Computes elements of the product of `x` and `w` into `y`, row by row. The first element of `y`
/// has the index `first` in the product.
pub(crate) fn matmul(x: &Matrix<'_, f32>, w: &Matrix<'_, f32>, first: usize, y: &mut [f32]) {
    let columns = w.tiling.columns;
    for (at, y) in (first..).zip(y) {
        let (row, column) = (x.row(at / columns), at % columns);
        let product = |sum, (k, x): (usize, &f32)| sum + x * w.at(k, column);
        *y = device_float(row.iter().enumerate().fold(0.0, product));
    }
}

#[cfg(test)]
mod tests {
    use super::matmul;
    use crate::device::tiling::{Matrix, Tiling};

    fn matrix(elements: &[f32], sides: [usize; 2], pitch: usize) -> Matrix<'_, f32> {
        Matrix { elements, tiling: Tiling::new(sides, [8, 32]).pitch(pitch) }
    }

    #[test]
    fn a_product_by_hand_without_what_lies_between_rows() {
        let x = [1.0, 2.0, 3.0, f32::NAN, 4.0, 5.0, 6.0];
        let w = [7.0, 8.0, f32::NAN, f32::NAN, 9.0, 10.0, f32::NAN, f32::NAN, 11.0, 12.0];
        let (x, w) = (matrix(&x, [2, 3], 4), matrix(&w, [3, 2], 4));
        let mut y = [0.0; 4];
        matmul(&x, &w, 0, &mut y);
        assert_eq!(y, [58.0, 64.0, 139.0, 154.0]);
        matmul(&x, &w, 1, &mut y[..2]);
        assert_eq!(y, [64.0, 139.0, 139.0, 154.0], "a part of the elements");
    }

    #[test]
    fn products_are_rounded_before_the_sum_in_the_order_of_the_rows() {
        let a = 1.0 + f32::EPSILON;
        let product = |x: &[f32], w: &[f32]| {
            let mut y = [0.0];
            matmul(&matrix(x, [1, x.len()], 4), &matrix(w, [w.len(), 1], 1), 0, &mut y);
            y[0]
        };
        let squared = product(&[-(1.0 + 2.0 * f32::EPSILON), a], &[1.0, a]);
        assert_eq!(squared, 0.0, "a fused operation keeps the square of epsilon");
        assert_eq!(product(&[1e8, 1.0, -1e8], &[1.0; 3]), 0.0, "1 is lost in 1e8");
        let nan = product(&[f32::INFINITY], &[0.0]);
        assert_eq!(nan.to_bits(), 0x7fff_ffff, "a device makes only this NaN");
    }
}
