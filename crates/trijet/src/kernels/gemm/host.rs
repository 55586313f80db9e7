//! The twin of `gemm`: the same product on the host, with sums in single precision.
#![forbid(unsafe_code)]

use crate::device::tiling::{Matrix, Tiling};
use half::bf16;

/// Computes the elements of the result that are in `run`. The first element of `run` has the index
/// `first` in the memory of the result. Elements between the rows of the result keep their values.
pub(crate) fn matmul(
    a: &Matrix<'_, bf16>,
    b: &Matrix<'_, bf16>,
    d: Tiling,
    first: usize,
    run: &mut [bf16],
) {
    // A row of `a` is converted only once for a whole row of the result.
    let mut of_row = (usize::MAX, Vec::new());
    for (at, d_element) in (first..).zip(run) {
        let (row, column) = (at / d.pitch, at % d.pitch);
        if row >= d.rows || column >= d.columns {
            continue;
        }
        if of_row.0 != row {
            of_row = (row, a.row(row).iter().map(|x| x.to_f32()).collect());
        }
        let products = of_row.1.iter().zip(b.row(column)).map(|(x, y)| x * y.to_f32());
        *d_element = bf16::from_f32(products.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::matmul;
    use crate::device::tiling::{Matrix, Tiling};
    use half::bf16;

    #[test]
    fn a_product_by_hand_without_what_lies_between_rows() {
        let bf16s = |x: &[f32]| -> Vec<bf16> { x.iter().map(|x| bf16::from_f32(*x)).collect() };
        let matrix = |elements, sides| {
            let tiling = Tiling::new(sides, [8, 64]).pitch(4);
            Matrix { elements, tiling }
        };
        let a = bf16s(&[1.0, 2.0, 3.0, f32::NAN, 4.0, 5.0, 6.0]);
        let b = bf16s(&[7.0, 9.0, 11.0, f32::NAN, 8.0, 10.0, 12.0]);
        let (a, b) = (matrix(&a, [2, 3]), matrix(&b, [2, 3]));
        let d = Tiling::new([2, 2], [16, 64]).pitch(4);
        let mut all = bf16s(&[-1.0; 8]);
        matmul(&a, &b, d, 0, &mut all);
        let found = |all: &[bf16]| -> Vec<f32> { all.iter().map(|x| x.to_f32()).collect() };
        // 139 and 154 have 8 significant bits, so bf16 represents them exactly.
        assert_eq!(found(&all), [58.0, 64.0, -1.0, -1.0, 139.0, 154.0, -1.0, -1.0]);
        let mut part = bf16s(&[-1.0; 3]);
        matmul(&a, &b, d, 3, &mut part);
        assert_eq!(found(&part), [-1.0, 139.0, 154.0], "a part of the memory");
    }

    #[test]
    fn the_sum_is_rounded_once_to_the_nearest_even() {
        let product = |x: [f32; 2]| {
            let a: Vec<bf16> = x.into_iter().map(bf16::from_f32).collect();
            let ones = [bf16::ONE; 2];
            let tiling = Tiling::new([1, 2], [8, 64]);
            let mut d = [bf16::ZERO];
            let (a, b) = (Matrix { elements: &a, tiling }, Matrix { elements: &ones, tiling });
            matmul(&a, &b, Tiling::new([1, 1], [16, 64]), 0, &mut d);
            d[0].to_f32()
        };
        assert_eq!(product([256.0, 1.0]), 256.0, "257 lies between 256 and 258, and 256 is even");
        assert_eq!(product([258.0, 1.0]), 260.0, "259 lies between 258 and 260");
        assert_eq!(product([256.0, 1.5]), 258.0, "257.5 is nearer to 258");
    }
}
