//! The twins of the passes, with the sums of `gaussian.cu` in the same order.
#![forbid(unsafe_code)]

use super::weights::{Pass, Weights};
use crate::elements::{Element, RealType, elements, with_element};
use crate::window::{Place, Reach, WindowRows, columns, row_of};

/// Writes the passes along the rows and the columns of images to `y`, from the row
/// `place.first_out` on.
pub(super) fn plane<T: Element>(
    place: &Place,
    reach: Reach,
    y_weights: &Weights,
    x_weights: &Weights,
    x: &[u8],
    y: &mut [u8],
) {
    let Some(row_bytes) = row_bytes::<T>(place) else { return };
    let [_, y_radius, x_radius] = reach.radius;
    let along_y = Pass { radius: y_radius, weights: *y_weights };
    let columns = columns(place.volumes.width, x_radius, reach.edges);
    for (row, out) in (place.first_out..).zip(y.chunks_exact_mut(row_bytes)) {
        let lines = lines::<T>(place, reach, row, x, row_bytes);
        let line: Vec<f64> = across::<T>(&along_y, &lines).collect();
        let line: Vec<f64> = columns.iter().map(|at| at.map_or(0.0, |at| line[at])).collect();
        let side = 2 * x_radius as usize + 1;
        let sums = line.windows(side).map(|window| {
            let middle = x_radius as usize;
            let pairs = (1..=middle).rev();
            pairs.fold(window[middle] * x_weights[0], |sum, k| {
                sum + (window[middle - k] + window[middle + k]) * x_weights[k]
            })
        });
        write::<T>(sums, out);
    }
}

/// Writes the pass along the images of volumes to `y`, from the row `place.first_out` on.
pub(super) fn stack(
    of: RealType,
    place: &Place,
    reach: Reach,
    weights: &Weights,
    x: &[u8],
    y: &mut [u8],
) {
    let pass = Pass { radius: reach.radius[0], weights: *weights };
    with_element!(of, T => {
        let Some(row_bytes) = row_bytes::<T>(place) else { return };
        for (row, out) in (place.first_out..).zip(y.chunks_exact_mut(row_bytes)) {
            let lines = lines::<T>(place, reach, row, x, row_bytes);
            write::<T>(across::<T>(&pass, &lines), out);
        }
    });
}

/// The element of a sum: integers drop the fraction, as SciPy's casts do.
fn cut<T: Element>(sum: f64) -> T {
    T::nearest(if T::IS_INTEGER { sum.trunc() } else { sum })
}

/// Writes the elements of sums.
fn write<T: Element>(sums: impl Iterator<Item = f64>, y: &mut [u8]) {
    for (element, sum) in y.chunks_exact_mut(T::BYTES).zip(sums) {
        cut::<T>(sum).write(element);
    }
}

/// The size of a row in bytes; `None` if rows have no elements.
fn row_bytes<T: Element>(place: &Place) -> Option<usize> {
    let bytes = place.volumes.width.checked_mul(T::BYTES as u64)?;
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

/// The rows of the window of an output row as values.
fn lines<T: Element>(
    place: &Place,
    reach: Reach,
    row: u64,
    x: &[u8],
    row_bytes: usize,
) -> Vec<Vec<f64>> {
    let rows = WindowRows::of(place, reach, row).rows;
    let line = |row: &Option<u64>| match row_of(x, *row, row_bytes) {
        Some(bytes) => elements::<T>(bytes).map(Element::real).collect(),
        None => vec![0.0; row_bytes / T::BYTES],
    };
    rows.iter().map(line).collect()
}

/// The pass across the rows of a window, rounded to elements of `T`.
fn across<T: Element>(pass: &Pass, lines: &[Vec<f64>]) -> impl Iterator<Item = f64> {
    let middle = pass.radius as usize;
    let mut sums: Vec<f64> = lines[middle].iter().map(|value| value * pass.weights[0]).collect();
    for k in (1..=middle).rev() {
        let pairs = lines[middle - k].iter().zip(&lines[middle + k]);
        let weight = pass.weights[k];
        sums.iter_mut().zip(pairs).for_each(|(sum, (before, after))| {
            *sum += (before + after) * weight;
        });
    }
    sums.into_iter().map(|sum| cut::<T>(sum).real())
}
