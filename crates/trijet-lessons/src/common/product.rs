//! Products of matrices with known results. Element `(r, k)` of the first matrix is
//! `r % 9 + k % 4`, and element `(k, c)` of the second matrix is `k % 16 + c % 8`. All sums are
//! integers below 2^24, so they are exact.
#![forbid(unsafe_code)]

use trijet::Bytes;

/// The number of rows and of columns of each tile of the kernel `testing::multicast::MATMUL`.
const TILE: usize = 32;

/// The element of the first matrix at an index, with rows of `inner` elements.
pub(crate) fn left(at: usize, inner: usize) -> f32 {
    (at / inner % 9 + at % inner % 4) as f32
}

/// The element of the second matrix at an index, with rows of `columns` elements.
pub(crate) fn right(at: usize, columns: usize) -> f32 {
    (at / columns % 16 + at % columns % 8) as f32
}

/// The first `len` elements of a matrix with rows of `columns` elements.
pub(crate) fn matrix(len: usize, columns: usize, element: fn(usize, usize) -> f32) -> Vec<f32> {
    (0..len).map(|at| element(at, columns)).collect()
}

/// Describes the first wrong element of a product with rows of `columns` elements. The first matrix
/// has rows of `inner` elements.
pub(crate) fn wrong(found: &[f32], inner: usize, columns: usize) -> Option<String> {
    let sum = |term: fn(usize) -> usize| (0..inner).map(term).sum::<usize>();
    // The sum over k of (row + k % 4) * (k % 16 + column).
    let (a, b, both) = (sum(|k| k % 4), sum(|k| k % 16), sum(|k| (k % 4) * (k % 16)));
    let right = |at: usize| {
        let (row, column) = (at / columns % 9, at % columns % 8);
        (row * b + row * column * inner + both + a * column) as f32
    };
    let wrong = (0..found.len()).find(|at| found[*at] != right(*at))?;
    Some(format!("element {wrong} is {}, not {}", found[wrong], right(wrong)))
}

/// The number of bytes that the tiles of a product need, computed from the tiling: `elements`
/// elements of the result, each a sum of `inner` products. Each block fetches its own tiles of the
/// second matrix. Each cluster fetches a tile of the first matrix once for all of its blocks. All
/// sides are multiples of a tile.
pub(crate) fn fetched(elements: usize, inner: usize, cluster: usize) -> Bytes {
    let tiles = elements / (TILE * TILE) * (inner / TILE);
    Bytes(((tiles + tiles / cluster) * TILE * TILE * size_of::<f32>()) as u64)
}

#[cfg(test)]
mod tests {
    use super::{TILE, fetched, left, matrix, right, wrong};
    use trijet::testing::multicast::config;

    #[test]
    fn larger_clusters_fetch_fewer_tiles_of_the_first_matrix() {
        // A block for each tile of the result, as the kernel is launched.
        let side = u32::try_from(TILE).expect("a small tile");
        assert_eq!(config(side, 8 * side, 1).grid, [8, 1, 1]);
        // Eight blocks, each with three steps of two tiles of 4 KiB.
        let of = |cluster| fetched(8 * TILE * TILE, 3 * TILE, cluster).0 >> 10;
        assert_eq!([1, 2, 4, 8].map(of), [8 * 3 * 8, 8 * 3 * 6, 8 * 3 * 5, 8 * 3 * 4 + 3 * 4]);
    }

    #[test]
    fn the_expected_product_is_the_sum_of_the_products_of_the_elements() {
        let (rows, inner, columns) = (20, 35, 10);
        let (x, w) = (matrix(rows * inner, inner, left), matrix(inner * columns, columns, right));
        let term =
            |at: usize, k: usize| x[at / columns * inner + k] * w[k * columns + at % columns];
        let mut y: Vec<f32> =
            (0..rows * columns).map(|at| (0..inner).map(|k| term(at, k)).sum()).collect();
        assert_eq!(wrong(&y, inner, columns), None);
        y[137] += 1.0;
        assert!(wrong(&y, inner, columns).is_some_and(|text| text.starts_with("element 137 is ")));
    }
}
