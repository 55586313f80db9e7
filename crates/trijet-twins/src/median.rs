//! The median filter for each pixel type, compiled in this crate.
#![forbid(unsafe_code)]

use crate::edges::Edges;
use crate::pixel::Pixel;
use crate::rows::{Geometry, median};
use std::ops::Range;

/// A pixel type that has a median filter.
pub trait Median: Pixel {
    /// Writes the medians of the rows `out_rows` to `y`. The window of a pixel is the square of
    /// `2 * radius + 1` by `2 * radius + 1` pixels around it, in the same image. Rows are numbered
    /// over the whole stack. The first row of `x` is `geometry.first_in_row`.
    ///
    /// ```
    /// use trijet_twins::{Edges, Geometry, Median};
    /// let geometry = Geometry { width: 3, height: 3, first_in_row: 0 };
    /// let (x, mut y) = ([1, 1, 1, 1, 255, 1, 1, 1, 1_u8], [0; 9]);
    /// Median::median(&geometry, 1, Edges::Nearest, &x, 0..3, &mut y);
    /// assert_eq!(y, [1; 9]);
    /// ```
    ///
    /// # Panics
    /// If `radius` is not in `1..=7`, an image is empty, `y` does not have exactly the rows
    /// `out_rows`, or `x` lacks a row of [`Geometry::in_rows`].
    fn median(
        geometry: &Geometry,
        radius: u32,
        edges: Edges,
        x: &[Self],
        out_rows: Range<u64>,
        y: &mut [Self],
    );
}

macro_rules! filters {
    ($($type:ty),*) => {$(
        impl Median for $type {
            fn median(
                geometry: &Geometry,
                radius: u32,
                edges: Edges,
                x: &[Self],
                out_rows: Range<u64>,
                y: &mut [Self],
            ) {
                median(geometry, radius, edges, x, out_rows, y);
            }
        }
    )*};
}

filters!(u8, u16);
