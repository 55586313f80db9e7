//! Windows of the operations on neighbourhoods, and the rows of a call.
//!
//! A window has `2 r + 1` elements along each axis, around its middle element. The last three axes
//! of an array are the images of a volume, the rows of an image and the elements of a row. Windows
//! stay in one volume; beyond its edges, [`Edges`] determines the elements.
#![forbid(unsafe_code)]

use crate::call::refused;
use crate::stack::Typed;
use std::ops::Range;
use trijet::kernels::ArgBlock;
use trijet::kernels::median::Edges;
use trijet::{LaunchConfig, Result, View};

/// Maximum number of blocks along the second axis of a grid (CUDA C++ Programming Guide, compute
/// capabilities).
const GRID_Y_MAX: u64 = 65_535;

/// Maximum number of blocks along the first axis of a grid that a launch of this crate uses. Blocks
/// stride over tiles, so any grid is right.
const GRID_X_MAX: u64 = 1 << 20;

/// The number of rows that one tile of a twin computes.
pub(crate) const TWIN_ROWS: u64 = 16;

/// An array as volumes of `depth` images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Volumes {
    pub(crate) depth: u64,
    pub(crate) height: u64,
    pub(crate) width: u64,
}

/// The radii of a window along the images, the rows and the columns, and the elements beyond the
/// edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) radius: [u32; 3],
    pub(crate) edges: Edges,
}

/// The location of the rows of a call in its array: `Place` of window.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) volumes: Volumes,
    pub(crate) first_out: u64,
    pub(crate) first_in: u64,
}

impl Volumes {
    /// The last three axes of the array. An array of less axes is one image.
    pub(crate) fn of(x: &Typed) -> Result<Self> {
        let stack = x.stack()?;
        let depth = match x.shape[..] {
            [.., depth, _, _] => depth,
            _ => 1,
        };
        Ok(Self { depth, height: stack.height, width: stack.width })
    }

    /// The rows that the windows of the rows `y` reach.
    ///
    /// A window along the images gets whole images. With [`Edges::Wrap`], a window gets all rows of
    /// its image, or all images of its volume, even where it does not leave them. Otherwise later
    /// rows would need earlier ones.
    pub(crate) fn rows_of_windows(&self, reach: Reach, y: Range<u64>) -> Range<u64> {
        if y.is_empty() || self.height == 0 || self.depth == 0 {
            return y.start..y.start;
        }
        let [z, v, _] = reach.radius.map(u64::from);
        let (first, last) = (y.start / self.height, (y.end - 1) / self.height);
        if z > 0 {
            let images = spread(first..last + 1, z, self.depth, reach.edges);
            return images.start * self.height..images.end * self.height;
        }
        spread(y, v, self.height, reach.edges)
    }
}

/// The items that are at most `radius` away from one of `items`, in the same group of `size` items.
fn spread(items: Range<u64>, radius: u64, size: u64, edges: Edges) -> Range<u64> {
    if radius == 0 {
        return items;
    }
    let radius = if edges == Edges::Wrap { size } else { radius };
    let (first, last) = (items.start / size * size, (items.end - 1) / size * size);
    let start = items.start.saturating_sub(radius).max(first);
    start..items.end.saturating_add(radius).min(last + size)
}

/// Some rows of an array in the memory of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsOfArray<'a> {
    /// The number of the first row.
    pub(crate) first: u64,
    pub(crate) row_bytes: u64,
    pub(crate) bytes: View<'a, u8>,
}

impl<'a> RowsOfArray<'a> {
    /// The bytes of the rows `rows`, which lie within these rows.
    pub(crate) fn part(&self, rows: &Range<u64>) -> Result<View<'a, u8>> {
        let at = |row: u64| {
            let offset = row.checked_sub(self.first)?.checked_mul(self.row_bytes)?;
            usize::try_from(offset).ok().filter(|&offset| offset <= self.bytes.len())
        };
        match (at(rows.start), at(rows.end)) {
            (Some(start), Some(end)) if start <= end => Ok(self.bytes.slice(start..end)),
            _ => Err(refused("window", format!("rows {rows:?} are not in the input"))),
        }
    }
}

impl Reach {
    pub(crate) fn new(
        operation: &'static str,
        radius: [u32; 3],
        edges: Edges,
        radius_max: u32,
    ) -> Result<Self> {
        if radius.iter().any(|&r| r > radius_max) {
            let cause =
                format!("the radius is {radius:?}; each of its numbers is 0 to {radius_max}");
            return Err(refused(operation, cause));
        }
        Ok(Self { radius, edges })
    }

    /// The number of elements of a window.
    pub(crate) fn size(&self) -> u32 {
        self.radius.iter().map(|r| 2 * r + 1).product()
    }

    /// The radius, as in messages: `[1, 2, 2]`.
    pub(crate) fn text(&self) -> String {
        format!("radius {:?}, edges {}", self.radius, self.edges)
    }
}

impl Place {
    /// The place of a call whose input starts with the row `first_in`.
    pub(crate) fn new(volumes: Volumes, y: &Range<u64>, first_in: u64) -> Self {
        Self { volumes, first_out: y.start, first_in }
    }

    /// The parameter of the kernels.
    pub(crate) fn words(&self) -> [u64; 5] {
        let Self { volumes: Volumes { depth, height, width }, first_out, first_in } = *self;
        [width, height, depth, first_out, first_in]
    }

    /// The place with these words.
    pub(crate) fn from_words(words: [u64; 5]) -> Self {
        let [width, height, depth, first_out, first_in] = words;
        Self { volumes: Volumes { depth, height, width }, first_out, first_in }
    }

    /// Checks the spans of a launch: elements are aligned, the rows are whole, and the input has
    /// every row that the windows reach. `x` is the first span of the launch, and `y` the last.
    pub(crate) fn check(
        &self,
        args: &ArgBlock,
        element_bytes: u64,
        reach: Reach,
    ) -> std::result::Result<(), String> {
        let Volumes { depth, height, width } = self.volumes;
        if depth == 0 || height == 0 || width == 0 {
            return Err(format!("volumes of {depth} x {height} x {width} elements are empty"));
        }
        let row_bytes = width.checked_mul(element_bytes).ok_or("a row is too long")?;
        let rows = |index: usize, name: &str| {
            let span = &args.spans()[index];
            let address = args.iter().nth(span.index).copied().unwrap_or_default();
            if !address.is_multiple_of(element_bytes) {
                return Err(format!(
                    "the address of {name} is no multiple of the {element_bytes} bytes of an element"
                ));
            }
            let bytes = span.bytes();
            if bytes.is_multiple_of(row_bytes) {
                Ok(bytes / row_bytes)
            } else {
                Err(format!(
                    "{name} has {bytes} bytes, which are not whole rows of {row_bytes} bytes"
                ))
            }
        };
        let (in_rows, out_rows) = (rows(0, "x")?, rows(args.spans().len() - 1, "y")?);
        let end = |first: u64, rows| {
            let end = first.checked_add(rows).filter(|&end| i64::try_from(end).is_ok());
            end.ok_or_else(|| "the row numbers overflow".to_owned())
        };
        let y = self.first_out..end(self.first_out, out_rows)?;
        let x = self.first_in..end(self.first_in, in_rows)?;
        let needed = self.volumes.rows_of_windows(reach, y.clone());
        if !y.is_empty() && (needed.start < x.start || needed.end > x.end) {
            return Err(format!("the input has rows {x:?}, and the windows reach rows {needed:?}"));
        }
        Ok(())
    }

    /// The number of output rows in a span of `bytes` bytes.
    pub(crate) fn rows(&self, bytes: u64, element_bytes: u64) -> u64 {
        bytes.checked_div(self.volumes.width.saturating_mul(element_bytes)).unwrap_or(0)
    }

    /// One block of 256 threads for each tile of `columns` x `tile_rows` elements of the output,
    /// with at most `GRID_X_MAX` x `GRID_Y_MAX` blocks; no blocks for no rows.
    pub(crate) fn config(&self, rows: u64, columns: u64, tile_rows: u64) -> LaunchConfig {
        let blocks = |count: u64, most: u64| u32::try_from(count.clamp(1, most)).unwrap_or(1);
        let x = blocks(self.volumes.width.div_ceil(columns), GRID_X_MAX);
        let y = blocks(rows.div_ceil(tile_rows), GRID_Y_MAX);
        let grid = if rows == 0 { [0; 3] } else { [x, y, 1] };
        LaunchConfig::new(grid, [256, 1, 1])
    }
}

/// The rows that the windows of one output row reach.
#[derive(Debug)]
pub(crate) struct WindowRows {
    /// The row of x, counted from the first row that x has, for each row of the window; `None`
    /// for zeros. The images come first to last, and the rows of an image first to last.
    pub(crate) rows: Vec<Option<u64>>,
}

impl WindowRows {
    /// The rows of the window of the output row `row` of the whole array.
    pub(crate) fn of(place: &Place, reach: Reach, row: u64) -> Self {
        let Volumes { depth, height, .. } = place.volumes;
        let (image, v) = (row / height, row % height);
        let base = image / depth * depth;
        let [z_radius, v_radius, _] = reach.radius;
        let images = positions(image % depth, z_radius, depth, reach.edges);
        let lines = positions(v, v_radius, height, reach.edges);
        let row = |image: Option<u64>, v: Option<u64>| {
            let (image, v) = (image?, v?);
            Some((base + image) * height + v - place.first_in)
        };
        let rows = images.iter().flat_map(|&image| lines.iter().map(move |&v| row(image, v)));
        Self { rows: rows.collect() }
    }
}

/// The indices that are used at the positions from `middle - radius` to `middle + radius` of an
/// axis of `length` items; `None` for zeros.
pub(crate) fn positions(middle: u64, radius: u32, length: u64, edges: Edges) -> Vec<Option<u64>> {
    let (middle, radius) = (middle.cast_signed(), i64::from(radius));
    (middle - radius..=middle + radius).map(|at| edges.at(at, length.cast_signed())).collect()
}

/// The columns that are used from `radius` columns before a row of `width` elements to `radius`
/// columns after it; `None` for zeros.
pub(crate) fn columns(width: u64, radius: u32, edges: Edges) -> Vec<Option<usize>> {
    let (width, radius) = (width.cast_signed(), i64::from(radius));
    let index = |at| edges.at(at, width).and_then(|at| usize::try_from(at).ok());
    (-radius..width + radius).map(index).collect()
}

/// The bytes of row `row` of x; `None` for zeros.
pub(crate) fn row_of(x: &[u8], row: Option<u64>, row_bytes: usize) -> Option<&[u8]> {
    let start = usize::try_from(row?).ok()? * row_bytes;
    Some(&x[start..start + row_bytes])
}

#[cfg(test)]
mod tests {
    use super::{Reach, Volumes};
    use std::ops::Range;
    use trijet::kernels::median::Edges;

    const VOLUMES: Volumes = Volumes { depth: 3, height: 10, width: 4 };

    fn rows(radius: [u32; 3], edges: Edges, y: Range<u64>) -> Range<u64> {
        VOLUMES.rows_of_windows(Reach { radius, edges }, y)
    }

    #[test]
    fn windows_reach_rows_of_their_own_image() {
        assert_eq!(rows([0, 2, 1], Edges::Reflect, 4..5), 2..7);
        assert_eq!(rows([0, 2, 1], Edges::Nearest, 10..11), 10..13);
        assert_eq!(rows([0, 2, 1], Edges::Mirror, 9..11), 7..13);
        assert_eq!(rows([0, 0, 3], Edges::Constant, 9..11), 9..11);
        assert_eq!(rows([0, 2, 1], Edges::Wrap, 14..15), 10..20);
        assert_eq!(rows([0, 2, 1], Edges::Reflect, 14..14), 14..14);
    }

    #[test]
    fn windows_along_the_images_reach_whole_images_of_their_own_volume() {
        assert_eq!(rows([1, 2, 1], Edges::Reflect, 14..15), 0..30);
        assert_eq!(rows([1, 2, 1], Edges::Reflect, 5..6), 0..20);
        assert_eq!(rows([1, 0, 0], Edges::Nearest, 34..35), 30..50);
        assert_eq!(rows([1, 0, 0], Edges::Wrap, 34..35), 30..60);
    }

    #[test]
    fn later_rows_never_need_earlier_ones() {
        for edges in Edges::ALL {
            for radius in [[0, 1, 1], [0, 12, 0], [1, 0, 0], [2, 3, 1], [0, 0, 2]] {
                let all: Vec<_> = (0..90).map(|row| rows(radius, edges, row..row + 1)).collect();
                assert!(all.is_sorted_by_key(|rows| rows.start), "{radius:?} {edges}");
                assert!(all.is_sorted_by_key(|rows| rows.end), "{radius:?} {edges}");
            }
        }
    }
}
