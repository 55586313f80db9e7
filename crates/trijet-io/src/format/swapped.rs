//! An input whose first two axes are exchanged: the sinograms of a stack of projections.
//!
//! The array `[a, b, ...]` becomes `[b, a, ...]`. A read of the new array reads, for each index of
//! the old first axis, one run of neighbouring rows of the old array. So larger reads have longer
//! runs.

use super::contract::{Opened, Reader};
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::parallel::each_part;
use std::ops::Range;
use trijet::{Error, ErrorKind, Result};

/// The number of runs that a thread reads at once.
const RUNS_AT_ONCE: usize = 16;

/// The lengths of the axes of the old array, as far as the order of the rows depends on them.
#[derive(Debug, Clone, Copy)]
struct OldAxes {
    first: u64,
    second: u64,
    /// The number of rows that have the same indices of both axes.
    unit_rows: u64,
}

#[derive(Debug)]
struct SwappedReader {
    axes: OldAxes,
    inner: Box<dyn Reader>,
    row_bytes: u64,
}

/// The rows of a read that have one index of the old first axis. Their numbers in the old array
/// follow one another.
struct OldRun<'a> {
    first_row: u64,
    pieces: Vec<&'a mut [u8]>,
}

/// A way to read rows of the old array.
type ReadOld<'a> = &'a (dyn Fn(Range<u64>, &mut [u8]) -> Result<()> + Sync);

/// The input `opened`, with the first two axes of its array exchanged.
///
/// # Errors
/// `InvalidValue` for an array with fewer than three axes, and for an input that can only be read
/// by whole images or from its start.
pub(crate) fn swapped(opened: Opened) -> Result<Opened> {
    let refused = |cause: String| Err(Error::new(ErrorKind::InvalidValue, "axis", cause));
    let array = &opened.array;
    let [first, second, rest @ ..] = array.shape() else {
        return refused(format!("{array} has one axis; three are needed"));
    };
    if rest.is_empty() {
        return refused(format!("{array} has two axes; three are needed"));
    }
    if opened.granule > 1 {
        let cause = "the input is read by whole images, so each chunk would decode all of them; \
                     write it to an .npy file first";
        return refused(cause.to_owned());
    }
    if !opened.reader.is_parallel() {
        let cause = "the input is decoded from its start, so each chunk would decode all of it; \
                     write it to an .npy file first";
        return refused(cause.to_owned());
    }
    let shape = [&[*second, *first], rest].concat();
    let unit_rows = rest[..rest.len() - 1].iter().product();
    let axes = OldAxes { first: *first, second: *second, unit_rows };
    let layout = array.layout();
    // The rows of the old array that are decoded at once, in whole indices of its second axis.
    let decoded = opened.whole_rows.clamp(unit_rows.max(1), (second * unit_rows).max(1));
    let slabs = decoded.div_ceil(unit_rows.max(1));
    let whole_rows = (slabs * first * unit_rows).max(1);
    let array = Array::new(array.dtype(), shape)?;
    let Opened { items, left_out, mut annotations, reader: inner, .. } = opened;
    annotations.spacing.swap(0, 1);
    annotations.ome_xml = None;
    let reader = Box::new(SwappedReader { axes, inner, row_bytes: layout.row_bytes });
    Ok(Opened { array, granule: 1, whole_rows, items, left_out, annotations, reader })
}

impl OldAxes {
    /// The number in the old array of a row of the new array.
    fn old(&self, row: u64) -> u64 {
        let (unit, within) = (row / self.unit_rows, row % self.unit_rows);
        let (second, first) = (unit / self.first, unit % self.first);
        (first * self.second + second) * self.unit_rows + within
    }
}

/// Divides the target of a read of the rows `rows` into runs of rows of the old array.
fn runs<'a>(
    axes: &OldAxes,
    rows: &Range<u64>,
    row_bytes: usize,
    into: &'a mut [u8],
) -> Vec<OldRun<'a>> {
    let mut runs: Vec<OldRun<'a>> = Vec::new();
    let first_unit = rows.start / axes.unit_rows;
    for (row, piece) in rows.clone().zip(into.chunks_exact_mut(row_bytes)) {
        // The units of a read have all indices of the old first axis in turn. The first unit with
        // an index begins a run.
        let run = (row / axes.unit_rows - first_unit) % axes.first;
        let run = usize::try_from(run).expect("a run has at least one piece in memory");
        match runs.get_mut(run) {
            Some(run) => run.pieces.push(piece),
            None => runs.push(OldRun { first_row: axes.old(row), pieces: vec![piece] }),
        }
    }
    runs
}

fn read_run(read: ReadOld<'_>, run: OldRun<'_>, buffer: &mut Vec<u8>) -> Result<()> {
    let OldRun { first_row, mut pieces } = run;
    let rows = first_row..first_row + pieces.len() as u64;
    if let [piece] = &mut pieces[..] {
        return read(rows, piece);
    }
    let row_bytes = pieces.first().map_or(0, |piece| piece.len());
    buffer.resize(row_bytes * pieces.len(), 0);
    read(rows, buffer)?;
    for (piece, row) in pieces.into_iter().zip(buffer.chunks_exact(row_bytes)) {
        piece.copy_from_slice(row);
    }
    Ok(())
}

impl SwappedReader {
    /// Reads `rows` of the new array. `read` reads rows of the old array.
    fn read_all(&self, read: ReadOld<'_>, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let row_bytes = usize::try_from(self.row_bytes).expect("a row of the target is in memory");
        let runs = runs(&self.axes, &rows, row_bytes, into);
        // A run is short.
        let mut runs = runs.into_iter();
        let several = || Some(runs.by_ref().take(RUNS_AT_ONCE).collect());
        let parts = std::iter::from_fn(several).take_while(|runs: &Vec<_>| !runs.is_empty());
        each_part(parts, |runs| {
            let mut buffer = Vec::new();
            runs.into_iter().try_for_each(|run| read_run(read, run, &mut buffer))
        })
    }
}

impl Reader for SwappedReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_all(&|rows, into| self.inner.read(rows, into), rows, into)
    }

    fn byte_order(&self) -> ByteOrder {
        self.inner.byte_order()
    }

    fn blocks_across(&self) -> u64 {
        self.axes.first.max(1)
    }

    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_all(&|rows, into| self.inner.read_as_stored(rows, into), rows, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::Annotations;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::fs::Metadata;
    use trijet::Dtype;

    /// Rows in memory.
    #[derive(Debug)]
    struct Held(Vec<u8>, usize);

    impl Reader for Held {
        fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
            let at = usize::try_from(rows.start).unwrap() * self.1;
            into.copy_from_slice(&self.0[at..at + into.len()]);
            Ok(())
        }
    }

    /// The bytes of the element at this place of the old array.
    fn number(place: u64) -> [u8; 2] {
        u16::try_from(place % 65_521).unwrap().to_le_bytes()
    }

    fn opened(shape: &[u64], granule: u64, whole_rows: u64) -> Opened {
        let array = Array::new(Dtype::U16, shape.to_vec()).unwrap();
        let bytes = (0..array.bytes() / 2).flat_map(number).collect();
        let row_bytes = usize::try_from(array.layout().row_bytes).unwrap();
        let metadata: Metadata = tempfile::tempfile().unwrap().metadata().unwrap();
        let items = vec![crate::item::Item::new(OsString::new(), &metadata)];
        let annotations =
            Annotations { spacing: [Some(3.0), Some(2.0), None], ..Default::default() };
        let reader = Box::new(Held(bytes, row_bytes));
        Opened { array, granule, whole_rows, items, left_out: Vec::new(), annotations, reader }
    }

    proptest! {
        #[test]
        fn the_rows_are_the_rows_of_the_array_with_its_axes_exchanged(
            shape in prop::collection::vec(1u64..6, 3..6), cuts in (any::<u64>(), any::<u64>()),
        ) {
            let swapped = swapped(opened(&shape, 1, 1)).unwrap();
            let inner: u64 = shape[2..].iter().product();
            let element = |b: u64, a: u64, i: u64| number((a * shape[1] + b) * inner + i);
            let expected: Vec<u8> = (0..shape[1])
                .flat_map(|b| (0..shape[0]).map(move |a| (b, a)))
                .flat_map(|(b, a)| (0..inner).flat_map(move |i| element(b, a, i)))
                .collect();
            let layout = swapped.array.layout();
            let (first, second) = (cuts.0 % (layout.rows + 1), cuts.1 % (layout.rows + 1));
            let (start, end) = (first.min(second), first.max(second));
            let at = |row: u64| usize::try_from(row * layout.row_bytes).unwrap();
            let mut into = vec![0; at(end) - at(start)];
            swapped.reader.read(start..end, &mut into).unwrap();
            prop_assert_eq!(&into[..], &expected[at(start)..at(end)]);
            prop_assert_eq!(&swapped.array.shape()[..2], &[shape[1], shape[0]]);
            prop_assert_eq!(swapped.annotations.spacing, [Some(2.0), Some(3.0), None]);
        }
    }

    #[test]
    fn rows_that_are_decoded_at_once_are_read_at_once() {
        // Blocks of 4 rows of 20: a read of 4 indices of the new first axis.
        assert_eq!(swapped(opened(&[6, 20, 8], 1, 4)).unwrap().whole_rows, 4 * 6);
        // Blocks of several images have all their rows.
        assert_eq!(swapped(opened(&[6, 20, 8], 1, 40)).unwrap().whole_rows, 20 * 6);
        assert_eq!(swapped(opened(&[6, 20, 3, 8], 1, 1)).unwrap().whole_rows, 6 * 3);
    }

    #[test]
    fn an_input_that_cannot_be_read_so_is_refused() {
        let words = |opened| swapped(opened).unwrap_err().to_string();
        assert!(words(opened(&[6], 1, 1)).contains("one axis; three are needed"));
        assert!(words(opened(&[6, 20], 1, 1)).contains("two axes; three are needed"));
        assert!(words(opened(&[6, 20, 8], 20, 20)).contains("write it to an .npy file first"));
    }
}
