//! The filter: whole output rows of a part of a stack, over slices.
//!
//! For radius 1, the filter sorts the three pixels of every column, then takes the median of the
//! largest minimum, the median of medians and the smallest maximum. These are plain minima and
//! maxima over rows, which the compiler turns into vector code. For larger radii, the filter slides
//! a histogram along the row (Huang 1979). Each step adds 2r+1 pixels and removes 2r+1.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::RADIUS_MAX;
use crate::edges::Edges;
use crate::histogram::Histogram;
use crate::pixel::Pixel;

/// The number of rows of the largest window.
const SIDE_MAX: usize = 2 * RADIUS_MAX as usize + 1;

/// A stack of images, and the part of the stack that an input slice has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The number of pixels of a row.
    pub width: u32,
    /// The number of rows of an image.
    pub height: u32,
    /// The number of the first row of the input, counted over the whole stack.
    pub first_in_row: u64,
}

impl Geometry {
    /// The input rows that the windows of the output rows `out_rows` reach. Rows are numbered over
    /// the whole stack. A window has the rows of its image that are at most `radius` rows away.
    /// With [`Edges::Wrap`], if a window leaves its image, it has all rows of the image. The input
    /// must have at least these rows.
    #[must_use]
    pub fn in_rows(&self, radius: u32, edges: Edges, out_rows: Range<u64>) -> Range<u64> {
        if out_rows.is_empty() {
            return out_rows;
        }
        let (first, last) = (self.image_of(out_rows.start), self.image_of(out_rows.end - 1));
        let needed = |rows: Range<u64>, image: &Range<u64>| {
            let radius = u64::from(radius);
            let leaves = rows.start < image.start + radius || rows.end + radius > image.end;
            if leaves && edges == Edges::Wrap {
                return image.clone();
            }
            rows.start.saturating_sub(radius).max(image.start)..(rows.end + radius).min(image.end)
        };
        let head = out_rows.start..out_rows.end.min(first.end);
        let tail = out_rows.start.max(last.start)..out_rows.end;
        needed(head, &first).start..needed(tail, &last).end
    }

    /// The rows of the image that contains `row`.
    fn image_of(&self, row: u64) -> Range<u64> {
        let height = u64::from(self.height);
        let image = row / height * height;
        image..image + height
    }
}

/// Writes the medians of the rows `out_rows` of the stack to `y`. The first row of `x` is
/// `geometry.first_in_row`.
///
/// # Panics
///
/// If `radius` is not in `1..=7`, an image is empty, `y` does not have exactly the rows `out_rows`,
/// or `x` lacks a row of [`Geometry::in_rows`].
pub(crate) fn median<T: Pixel>(
    geometry: &Geometry,
    radius: u32,
    edges: Edges,
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
    let mut filter = Filter::new(radius, edges, width);
    let zeros = vec![T::default(); width];
    let side = 2 * radius as usize + 1;
    for (row, out) in out_rows.zip(y.chunks_exact_mut(width)) {
        let image = geometry.image_of(row).start;
        let mut window: [&[T]; SIDE_MAX] = [&[]; SIDE_MAX];
        for (place, line) in window[..side].iter_mut().enumerate() {
            let from = (row - image).cast_signed() + place as i64 - i64::from(radius);
            *line = match edges.at(from, i64::from(geometry.height)) {
                None => &zeros,
                Some(from) => {
                    let index = (image + from - geometry.first_in_row) * u64::from(geometry.width);
                    let start =
                        usize::try_from(index).expect("the offset of a row of `x` fits in `usize`");
                    &x[start..start + width]
                }
            };
        }
        filter.row(&window, out);
    }
}

/// The working memory for one radius and one width.
enum Filter<T> {
    Columns(Columns<T>),
    Sliding { columns: Vec<usize>, histogram: Histogram },
}

impl<T: Pixel> Filter<T> {
    fn new(radius: u32, edges: Edges, width: usize) -> Self {
        if radius == 1 {
            let column = || vec![T::default(); width + 2];
            let ends = [-1, width as i64].map(|at| column_at(edges, at, width));
            Self::Columns(Columns { least: column(), middle: column(), most: column(), ends })
        } else {
            let radius = i64::from(radius);
            let columns = (-radius..width as i64 + radius).map(|at| column_at(edges, at, width));
            Self::Sliding { columns: columns.collect(), histogram: Histogram::new::<T>() }
        }
    }

    /// Computes one output row. `window` has the input rows from top to bottom.
    fn row(&mut self, window: &[&[T]; SIDE_MAX], out: &mut [T]) {
        match self {
            Self::Columns(columns) => columns.row([window[0], window[1], window[2]], out),
            Self::Sliding { columns, histogram } => {
                let side = columns.len() - out.len() + 1;
                slide(histogram, columns, &window[..side], out);
            }
        }
    }
}

/// The index of the column that is used at index `at` of a row. If a zero is used at `at`, the
/// result is an index beyond the end of the row.
fn column_at(edges: Edges, at: i64, width: usize) -> usize {
    let beyond = usize::MAX;
    edges.at(at, width as i64).map_or(beyond, |from| usize::try_from(from).unwrap_or(beyond))
}

/// The pixel in a column that [`column_at`] returned.
fn pixel<T: Pixel>(line: &[T], column: usize) -> T {
    line.get(column).map_or(T::default(), |pixel| *pixel)
}

/// The sorted columns of the windows of radius 1 in one row, with one more column before and after
/// the row.
struct Columns<T> {
    least: Vec<T>,
    middle: Vec<T>,
    most: Vec<T>,
    /// The indices of the columns that are used before the first column and after the last column.
    ends: [usize; 2],
}

impl<T: Pixel> Columns<T> {
    fn row(&mut self, window: [&[T]; 3], out: &mut [T]) {
        let width = out.len();
        let Self { least, middle, most, ends } = self;
        let sorted = least[1..].iter_mut().zip(&mut middle[1..]).zip(&mut most[1..]);
        let pixels = window[0].iter().zip(window[1]).zip(window[2]);
        for (((least, middle), most), ((&a, &b), &c)) in sorted.zip(pixels) {
            let (low, high) = (a.min(b), a.max(b));
            *least = low.min(c);
            *middle = low.max(high.min(c));
            *most = high.max(c);
        }
        for column in [&mut *least, &mut *middle, &mut *most] {
            let ends = ends.map(|at| pixel(&column[1..=width], at));
            (column[0], column[width + 1]) = (ends[0], ends[1]);
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

/// Computes one row with a sliding histogram. The histogram is empty before and after the call.
/// `columns` has the indices of the columns of the windows, from left to right.
fn slide<T: Pixel>(histogram: &mut Histogram, columns: &[usize], window: &[&[T]], out: &mut [T]) {
    let rank =
        u32::try_from(window.len() * window.len() / 2).expect("a window has at most 225 pixels");
    let side = window.len();
    let (first, coming) = columns.split_at(side);
    for column in first {
        for line in window {
            histogram.add(pixel(line, *column));
        }
    }
    out[0] = histogram.select(rank);
    for ((leaving, coming), out) in columns.iter().zip(coming).zip(&mut out[1..]) {
        for line in window {
            histogram.remove(pixel(line, *leaving));
            histogram.add(pixel(line, *coming));
        }
        *out = histogram.select(rank);
    }
    for column in &columns[columns.len() - side..] {
        for line in window {
            histogram.remove(pixel(line, *column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Edges, Geometry, Pixel, median};

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

    /// A line with `more` pixels before and after it, as in the documentation of `scipy.ndimage`.
    /// The line is in the middle of the result. `None` stands for a zero.
    fn continued(edges: Edges, line: &[usize], more: usize) -> Vec<Option<usize>> {
        let reversed: Vec<usize> = line.iter().rev().copied().collect();
        let inner = reversed.get(1..line.len().max(2) - 1).unwrap_or_default();
        // `unit` is one period of the continued line: the line, and the part up to its next copy.
        let (zeros, first, last) = (vec![None; more], line[0], line[line.len() - 1]);
        let unit: Vec<usize> = match edges {
            Edges::Constant => {
                let line = line.iter().copied().map(Some);
                return zeros.iter().copied().chain(line).chain(zeros.iter().copied()).collect();
            }
            Edges::Nearest => {
                let ends = (vec![first; more], vec![last; more]);
                return ends
                    .0
                    .into_iter()
                    .chain(line.iter().copied())
                    .chain(ends.1)
                    .map(Some)
                    .collect();
            }
            Edges::Reflect => [line, &reversed].concat(),
            Edges::Mirror => [line, inner].concat(),
            Edges::Wrap => line.to_vec(),
        };
        let times = more.div_ceil(unit.len());
        let endless: Vec<usize> = unit.repeat(2 * times + line.len());
        let start = times * unit.len() - more;
        endless[start..][..2 * more + line.len()].iter().copied().map(Some).collect()
    }

    /// Sorts the window of one pixel of the whole stack.
    fn by_sorting<T: Pixel>(
        stack: &[T],
        (width, height): (usize, usize),
        radius: usize,
        edges: Edges,
        (row, column): (usize, usize),
    ) -> T {
        let top = row / height * height;
        let rows = continued(edges, &(top..top + height).collect::<Vec<_>>(), radius);
        let columns = continued(edges, &(0..width).collect::<Vec<_>>(), radius);
        let mut window = Vec::new();
        for row in &rows[row - top..][..2 * radius + 1] {
            for column in &columns[column..][..2 * radius + 1] {
                let place = row.zip(*column);
                window
                    .push(place.map_or(T::default(), |(row, column)| stack[row * width + column]));
            }
        }
        window.sort_unstable();
        window[window.len() / 2]
    }

    /// Compares a random range of the rows of a random stack. The input has only the rows that this
    /// range needs.
    fn agrees_with_sorting<T: Pixel + std::fmt::Debug>(seed: u64, radius: u32, edges: Edges) {
        let mut draw = Draw(seed);
        // Sides start at 1, so some are shorter than the window, and some are shorter than half the
        // window.
        let most = draw.in_range(1, 40);
        let (width, height) = (draw.in_range(1, most), draw.in_range(1, most));
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
        let need = geometry.in_rows(radius, edges, out_rows.clone());
        let geometry = Geometry { first_in_row: need.start, ..geometry };
        let at = |row: u64| usize::try_from(row * width).unwrap();
        let mut y = vec![T::default(); at(out_rows.end - out_rows.start)];
        let input = &stack[at(need.start)..at(need.end)];
        median(&geometry, radius, edges, input, out_rows.clone(), &mut y);

        let whole = |v: u64| usize::try_from(v).unwrap();
        let size = (whole(width), whole(height));
        let mut got = y.into_iter();
        for row in out_rows {
            for column in 0..width {
                let place = (whole(row), whole(column));
                let want = by_sorting(&stack, size, radius as usize, edges, place);
                assert_eq!(got.next(), Some(want), "seed {seed}, {radius}, {edges:?}, {place:?}");
            }
        }
    }

    /// The examples of `scipy.ndimage`: a line of 4 pixels with 6 positions on either side, and a
    /// line of one pixel.
    #[test]
    fn lines_are_continued_as_scipy_does() {
        let cases = [
            (Edges::Reflect, "cddcba abcd dcbaab"),
            (Edges::Constant, "------ abcd ------"),
            (Edges::Nearest, "aaaaaa abcd dddddd"),
            (Edges::Mirror, "abcdcb abcd cbabcd"),
            (Edges::Wrap, "cdabcd abcd abcdab"),
        ];
        let letter = |at: Option<usize>| at.map_or('-', |at| char::from(b"abcd"[at]));
        for (edges, wanted) in cases {
            let wanted = wanted.replace(' ', "");
            let by_place = |place: i64| edges.at(place, 4).map(|at| usize::try_from(at).unwrap());
            let got: String = (-6..10).map(|place| letter(by_place(place))).collect();
            assert_eq!(got, wanted, "{edges:?}");
            let oracle: String =
                continued(edges, &[0, 1, 2, 3], 6).into_iter().map(letter).collect();
            assert_eq!(oracle, wanted, "the oracle of {edges:?}");
            let one = if edges == Edges::Constant { None } else { Some(0) };
            assert_eq!((edges.at(-7, 1), edges.at(0, 1), edges.at(7, 1)), (one, Some(0), one));
        }
    }

    #[test]
    fn every_radius_agrees_with_sorting_on_u8() {
        for (radius, edges) in (1..=7).flat_map(|radius| Edges::ALL.map(|edges| (radius, edges))) {
            for seed in 1..=24 {
                agrees_with_sorting::<u8>(seed * 7919, radius, edges);
            }
        }
    }

    #[test]
    fn every_radius_agrees_with_sorting_on_u16() {
        for (radius, edges) in (1..=7).flat_map(|radius| Edges::ALL.map(|edges| (radius, edges))) {
            for seed in 1..=24 {
                agrees_with_sorting::<u16>(seed * 7919, radius, edges);
            }
        }
    }

    #[test]
    fn windows_stay_in_their_image() {
        let geometry = Geometry { width: 5, height: 10, first_in_row: 0 };
        for edges in Edges::ALL.into_iter().filter(|edges| *edges != Edges::Wrap) {
            assert_eq!(geometry.in_rows(3, edges, 12..14), 10..17);
            assert_eq!(geometry.in_rows(3, edges, 8..9), 5..10);
            assert_eq!(geometry.in_rows(7, edges, 0..30), 0..30);
            assert_eq!(geometry.in_rows(7, edges, 4..4), 4..4);
        }
    }

    /// A window that leaves its image reaches rows of the other side of the image.
    #[test]
    fn images_that_go_round_are_needed_whole_where_a_window_leaves_them() {
        let geometry = Geometry { width: 5, height: 10, first_in_row: 0 };
        let rows = |out: std::ops::Range<u64>| geometry.in_rows(3, Edges::Wrap, out);
        assert_eq!(rows(13..17), 10..20);
        assert_eq!(rows(13..16), 10..19);
        assert_eq!(rows(14..17), 11..20);
        assert_eq!(rows(12..13), 10..20, "the last row of the image is above its first row");
        assert_eq!(rows(17..18), 10..20);
        assert_eq!(rows(15..24), 10..30, "the windows leave both images");
        assert_eq!(rows(4..4), 4..4);
    }

    #[test]
    #[should_panic(expected = "does not have the requested rows")]
    fn a_short_output_is_refused() {
        let geometry = Geometry { width: 2, height: 2, first_in_row: 0 };
        median(&geometry, 1, Edges::Nearest, &[0_u8; 4], 0..2, &mut [0; 3]);
    }
}
