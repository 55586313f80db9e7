//! The twin of the median filter: whole output rows of a chunk, over slices.
//!
//! For radius 1 it sorts the three pixels of every column, then takes the median of the largest
//! minimum, the median of medians and the smallest maximum. These are plain minima and maxima over
//! rows, which the compiler turns into vector code. For larger radii it slides a histogram along
//! the row (Huang 1979), and each step adds 2r+1 pixels and removes as many.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::histogram::Histogram;
use super::pixel::Pixel;
use super::plan::RADIUS_MAX;

/// Rows of the largest window.
const SIDE_MAX: usize = 2 * RADIUS_MAX as usize + 1;

/// A stack of images and the part of it that an input slice holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Pixels in a row.
    pub(crate) width: u32,
    /// Rows in an image.
    pub(crate) height: u32,
    /// The global row of the input's first row.
    pub(crate) first_in_row: u64,
}

impl Geometry {
    /// The global rows that the windows of the output rows `out_rows` reach. The input must have at
    /// least these.
    pub(crate) fn in_rows(&self, radius: u32, out_rows: Range<u64>) -> Range<u64> {
        if out_rows.is_empty() {
            return out_rows;
        }
        let first = self.window_rows(radius, out_rows.start).start;
        first..self.window_rows(radius, out_rows.end - 1).end
    }

    /// The rows of the image of `row` within `radius` of it.
    fn window_rows(&self, radius: u32, row: u64) -> Range<u64> {
        let height = u64::from(self.height);
        let image = row / height * height;
        let radius = u64::from(radius);
        row.saturating_sub(radius).max(image)..(row + radius + 1).min(image + height)
    }
}

/// Writes the medians of the global rows `out_rows` to `y`, reading `x`, whose first row is
/// `geometry.first_in_row`.
///
/// # Panics
///
/// If `radius` is not in `1..=7`, an image is empty, `y` does not have exactly the rows `out_rows`,
/// or `x` lacks a row of [`Geometry::in_rows`].
pub(crate) fn median<T: Pixel>(
    geometry: &Geometry,
    radius: u32,
    x: &[T],
    out_rows: Range<u64>,
    y: &mut [T],
) {
    assert!((1..=RADIUS_MAX).contains(&radius), "median radius {radius} is not in 1..=7");
    assert!(geometry.width > 0 && geometry.height > 0, "the images are empty");
    let width = geometry.width as usize;
    let rows = out_rows.end.saturating_sub(out_rows.start);
    assert_eq!(
        y.len() as u64,
        rows * u64::from(geometry.width),
        "y does not have the requested rows"
    );
    let mut filter = Filter::new(radius, width);
    for (row, out) in out_rows.zip(y.chunks_exact_mut(width)) {
        let reach = geometry.window_rows(radius, row);
        let mut window: [&[T]; SIDE_MAX] = [&[]; SIDE_MAX];
        let side = 2 * u64::from(radius) + 1;
        for (place, line) in (0..side).zip(&mut window) {
            let from = (row + place).saturating_sub(u64::from(radius));
            let index = from.clamp(reach.start, reach.end - 1) - geometry.first_in_row;
            let start = usize::try_from(index * u64::from(geometry.width)).expect("x is in memory");
            *line = &x[start..start + width];
        }
        filter.row(&window, out);
    }
}

/// The working memory of one radius and width.
enum Filter<T> {
    Columns(Columns<T>),
    Sliding { radius: usize, histogram: Histogram },
}

impl<T: Pixel> Filter<T> {
    fn new(radius: u32, width: usize) -> Self {
        if radius == 1 {
            let column = || vec![T::default(); width + 2];
            Self::Columns(Columns { least: column(), middle: column(), most: column() })
        } else {
            Self::Sliding { radius: radius as usize, histogram: Histogram::new::<T>() }
        }
    }

    /// One output row from the rows of its window, top down.
    fn row(&mut self, window: &[&[T]; SIDE_MAX], out: &mut [T]) {
        match self {
            Self::Columns(columns) => columns.row([window[0], window[1], window[2]], out),
            Self::Sliding { radius, histogram } => {
                slide(histogram, *radius, &window[..2 * *radius + 1], out);
            }
        }
    }
}

/// The sorted columns of a window of radius 1, with one column more at either edge.
struct Columns<T> {
    least: Vec<T>,
    middle: Vec<T>,
    most: Vec<T>,
}

impl<T: Pixel> Columns<T> {
    fn row(&mut self, window: [&[T]; 3], out: &mut [T]) {
        let width = out.len();
        let Self { least, middle, most } = self;
        let sorted = least[1..].iter_mut().zip(&mut middle[1..]).zip(&mut most[1..]);
        let pixels = window[0].iter().zip(window[1]).zip(window[2]);
        for (((least, middle), most), ((&a, &b), &c)) in sorted.zip(pixels) {
            let (low, high) = (a.min(b), a.max(b));
            *least = low.min(c);
            *middle = low.max(high.min(c));
            *most = high.max(c);
        }
        for column in [&mut *least, &mut *middle, &mut *most] {
            column[0] = column[1];
            column[width + 1] = column[width];
        }
        let least = maxima(least);
        let most = minima(most);
        let middle = middle.windows(3).map(|m| median3(m[0], m[1], m[2]));
        for (((out, least), middle), most) in out.iter_mut().zip(least).zip(middle).zip(most) {
            *out = median3(least, middle, most);
        }
    }
}

/// The largest of every three neighbours.
fn maxima<T: Pixel>(column: &[T]) -> impl Iterator<Item = T> {
    column.windows(3).map(|v| v[0].max(v[1]).max(v[2]))
}

/// The smallest of every three neighbours.
fn minima<T: Pixel>(column: &[T]) -> impl Iterator<Item = T> {
    column.windows(3).map(|v| v[0].min(v[1]).min(v[2]))
}

fn median3<T: Pixel>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

/// Computes one row with a sliding histogram, which is empty before and afterwards.
fn slide<T: Pixel>(histogram: &mut Histogram, radius: usize, window: &[&[T]], out: &mut [T]) {
    let last = out.len() - 1;
    let rank = u32::try_from(window.len() * window.len() / 2).expect("a window is small");
    let side = 2 * radius + 1;
    let column = |place: usize| place.saturating_sub(radius).min(last);
    for place in 0..side {
        for line in window {
            histogram.add(line[column(place)]);
        }
    }
    out[0] = histogram.select(rank);
    for (left, out) in out[1..].iter_mut().enumerate() {
        let (leaving, coming) = (column(left), column(left + side));
        for line in window {
            histogram.remove(line[leaving]);
            histogram.add(line[coming]);
        }
        *out = histogram.select(rank);
    }
    for place in last..last + side {
        for line in window {
            histogram.remove(line[column(place)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Geometry, Pixel, median};

    /// Marsaglia's xorshift64: enough to draw shapes and pixels.
    struct Draw(u64);

    impl Draw {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 >> 11
        }

        fn in_range(&mut self, least: u64, most: u64) -> u64 {
            least + self.next() % (most - least + 1)
        }
    }

    /// Sorts the window of one pixel of the whole stack.
    fn by_sorting<T: Pixel>(
        stack: &[T],
        (width, height): (i64, i64),
        radius: i64,
        (row, column): (i64, i64),
    ) -> T {
        let top = row / height * height;
        let mut window = Vec::new();
        for r in row - radius..=row + radius {
            for c in column - radius..=column + radius {
                let (r, c) = (r.clamp(top, top + height - 1), c.clamp(0, width - 1));
                window.push(stack[usize::try_from(r * width + c).unwrap()]);
            }
        }
        window.sort_unstable();
        window[window.len() / 2]
    }

    /// A random stack, a random run of its rows, only the input rows that the run needs.
    fn agrees_with_sorting<T: Pixel + std::fmt::Debug>(seed: u64, radius: u32) {
        let mut draw = Draw(seed);
        let (width, height) = (draw.in_range(1, 40), draw.in_range(1, 40));
        let rows = height * draw.in_range(1, 4);
        let mask = (1 << draw.in_range(1, u64::from(T::BITS))) - 1;
        let stack: Vec<T> = (0..width * rows)
            .map(|_| T::from_bin(usize::try_from(draw.next() & mask).unwrap()))
            .collect();
        let start = draw.in_range(0, rows - 1);
        let out_rows = start..draw.in_range(start, rows);
        let geometry = Geometry {
            width: u32::try_from(width).unwrap(),
            height: u32::try_from(height).unwrap(),
            first_in_row: 0,
        };
        let need = geometry.in_rows(radius, out_rows.clone());
        let geometry = Geometry { first_in_row: need.start, ..geometry };
        let at = |row: u64| usize::try_from(row * width).unwrap();
        let mut y = vec![T::default(); at(out_rows.end - out_rows.start)];
        median(&geometry, radius, &stack[at(need.start)..at(need.end)], out_rows.clone(), &mut y);

        let signed = |v: u64| i64::try_from(v).unwrap();
        let size = (signed(width), signed(height));
        let mut got = y.into_iter();
        for row in out_rows {
            for column in 0..width {
                let place = (signed(row), signed(column));
                let want = by_sorting(&stack, size, i64::from(radius), place);
                assert_eq!(got.next(), Some(want), "seed {seed}, radius {radius}, at {place:?}");
            }
        }
    }

    #[test]
    fn every_radius_agrees_with_sorting_on_u8() {
        for radius in 1..=7 {
            for seed in 1..=24 {
                agrees_with_sorting::<u8>(seed * 7919, radius);
            }
        }
    }

    #[test]
    fn every_radius_agrees_with_sorting_on_u16() {
        for radius in 1..=7 {
            for seed in 1..=24 {
                agrees_with_sorting::<u16>(seed * 7919, radius);
            }
        }
    }

    #[test]
    fn windows_stay_in_their_image() {
        let geometry = Geometry { width: 5, height: 10, first_in_row: 0 };
        assert_eq!(geometry.in_rows(3, 12..14), 10..17);
        assert_eq!(geometry.in_rows(3, 8..9), 5..10);
        assert_eq!(geometry.in_rows(7, 0..30), 0..30);
        assert_eq!(geometry.in_rows(7, 4..4), 4..4);
    }

    #[test]
    #[should_panic(expected = "does not have the requested rows")]
    fn a_short_output_is_refused() {
        let geometry = Geometry { width: 2, height: 2, first_in_row: 0 };
        median(&geometry, 1, &[0_u8; 4], 0..2, &mut [0; 3]);
    }
}
