//! The rows that a chunk needs at each point of a pipeline.
//!
//! A stage that reads a halo needs results of the previous stage in that halo. So the previous
//! stage writes more rows than the chunk has, and reads its own halo around those rows. A stage
//! with rows of its own, such as a stage that adds neighbouring rows, states which rows of its
//! input some rows of its output need. The law: a stage in a pipeline with several stages computes
//! the same bytes as in a pipeline with this stage alone. In both cases the stage writes whole
//! granules of rows, up to the end of the data, and reads the same rows for these granules.
//!
//! Points are numbered like the buffers of a slot: 0 is the input, and n is the output of stage n -
//! 1.
#![forbid(unsafe_code)]

use super::layout::Layout;
use crate::base::error::Result;
use crate::base::panic::called;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// A function that returns the rows of a stage's input that some rows of its output need.
type InputRows<'a> = Rc<dyn Fn(Range<u64>) -> Range<u64> + 'a>;

/// The rows that a stage writes, and the rows of its input that they need.
#[derive(Clone)]
pub(in crate::pipeline) enum StageRows<'a> {
    /// The rows of the input. The stage reads this number of rows before and after the rows that it
    /// writes.
    Same { halo: u64 },
    /// Rows of another layout.
    Other { output: Layout, input_rows: InputRows<'a> },
}

impl fmt::Debug for StageRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same { halo } => f.debug_struct("Same").field("halo", halo).finish(),
            Self::Other { output, .. } => {
                f.debug_struct("Other").field("output", output).finish_non_exhaustive()
            }
        }
    }
}

/// The number of rows at a point, and the number of rows at whose multiples stages start.
#[derive(Debug, Clone, Copy)]
struct RowsAtPoint {
    rows: u64,
    granule: u64,
}

impl RowsAtPoint {
    fn of(layout: Layout) -> Self {
        Self { rows: layout.rows, granule: layout.granule }
    }

    /// The whole granules that contain `rows`, up to the end of the data.
    fn whole(self, rows: Range<u64>) -> Range<u64> {
        let start = rows.start.min(self.rows) / self.granule * self.granule;
        let end = rows.end.checked_next_multiple_of(self.granule).unwrap_or(u64::MAX);
        start..end.min(self.rows).max(start)
    }
}

/// The rows of a chunk at each point.
#[derive(Debug, Clone)]
pub(in crate::pipeline) struct Reach<'a> {
    stages: Vec<StageRows<'a>>,
    points: Vec<RowsAtPoint>,
}

impl<'a> Reach<'a> {
    /// The reach of these stages over data of the layout `input`.
    ///
    /// # Errors
    /// `InvalidValue` for a stage whose output has rows without bytes or a granule without rows.
    pub(in crate::pipeline) fn new(
        input: Layout,
        stages: impl Iterator<Item = StageRows<'a>>,
    ) -> Result<Self> {
        let stages: Vec<_> = stages.collect();
        let mut points = vec![RowsAtPoint::of(input)];
        for stage in &stages {
            points.push(match stage {
                StageRows::Same { .. } => points[points.len() - 1],
                StageRows::Other { output, .. } => {
                    output.check()?;
                    RowsAtPoint::of(*output)
                }
            });
        }
        Ok(Self { stages, points })
    }

    /// The layout by which the rows of the results are divided into chunks. A row has the bytes of
    /// the input that belong to it, on average. `input` is the layout of the data.
    pub(in crate::pipeline) fn chunk_layout(&self, input: Layout) -> Result<Layout> {
        let RowsAtPoint { rows, granule } = self.points[self.points.len() - 1];
        let bytes = input.bytes()?;
        let is_same = self.stages.iter().all(|stage| matches!(stage, StageRows::Same { .. }));
        let row_bytes = if is_same { input.row_bytes } else { bytes.div_ceil(rows.max(1)).max(1) };
        Ok(Layout::rows(rows, row_bytes).granule(granule))
    }

    /// The rows of a chunk at the point `place`: the rows that later stages need to produce the
    /// rows `rows` of the results. Points are numbered like the buffers of a slot.
    pub(in crate::pipeline) fn rows_at(&self, place: usize, rows: &Range<u64>) -> Range<u64> {
        let needed = |rows: Range<u64>, index: usize| {
            let point = self.points[index];
            match &self.stages[index] {
                StageRows::Same { halo } => {
                    point.whole(rows.start.saturating_sub(*halo)..rows.end.saturating_add(*halo))
                }
                StageRows::Other { input_rows, .. } => point.whole(input_rows(rows)),
            }
        };
        (place..self.stages.len()).rev().fold(rows.clone(), needed)
    }

    /// The rows of the input that the rows `rows` of the results need.
    ///
    /// # Errors
    /// `Panicked` for a function of a stage that panics.
    pub(in crate::pipeline) fn input_rows(&self, rows: &Range<u64>) -> Result<Range<u64>> {
        called("the input rows of a stage", || Ok(self.rows_at(0, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(halo: u64) -> StageRows<'static> {
        StageRows::Same { halo }
    }

    /// The rows at every point.
    fn rows(layout: Layout, halos: &[u64], chunk: Range<u64>) -> Vec<Range<u64>> {
        let reach = Reach::new(layout, halos.iter().copied().map(same)).unwrap();
        (0..=halos.len()).map(|place| reach.rows_at(place, &chunk)).collect()
    }

    #[test]
    fn each_place_has_the_halos_of_all_later_stages() {
        let layout = Layout::rows(100, 1);
        assert_eq!(rows(layout, &[3, 0, 2], 40..50), [35..55, 38..52, 38..52, 40..50]);
        assert_eq!(Reach::new(layout, [].into_iter()).unwrap().rows_at(0, &(40..50)), 40..50);
    }

    #[test]
    fn every_place_ends_where_the_data_end() {
        let layout = Layout::rows(100, 1);
        assert_eq!(rows(layout, &[3, 2], 1..99), [0..100, 0..100, 1..99]);
        assert_eq!(rows(layout, &[u64::MAX, u64::MAX], 40..50), [0..100, 0..100, 40..50]);
    }

    #[test]
    fn a_halo_is_rounded_up_to_whole_granules_at_each_stage() {
        let layout = Layout::rows(95, 1).granule(10);
        assert_eq!(rows(layout, &[1, 0, 11], 40..60), [10..90, 20..80, 20..80, 40..60]);
        assert_eq!(rows(layout, &[1, 1], 70..80), [50..95, 60..90, 70..80]);
        assert_eq!(rows(layout, &[u64::MAX], 0..10), [0..95, 0..10]);
    }

    /// A stage that adds `by` rows into one, with a granule of the output.
    fn sums(rows: u64, by: u64, granule: u64) -> StageRows<'static> {
        let output = Layout::rows(rows / by, 4).granule(granule);
        let input_rows = Rc::new(move |y: Range<u64>| y.start * by..y.end * by);
        StageRows::Other { output, input_rows }
    }

    #[test]
    fn rows_before_a_stage_with_other_rows_are_rows_of_its_input() {
        let input = Layout::rows(100, 4).granule(5);
        let reach = Reach::new(input, [same(1), sums(100, 4, 1), same(1)].into_iter()).unwrap();
        let at = |place| reach.rows_at(place, &(6..7));
        // Row 6 needs rows 5 to 7, which are the sums of rows 20 to 31.
        assert_eq!((at(3), at(2), at(1), at(0)), (6..7, 5..8, 20..35, 15..40));
        let chunks = reach.chunk_layout(input).unwrap();
        assert_eq!((chunks.rows, chunks.row_bytes, chunks.granule), (25, 16, 1));
    }

    #[test]
    fn rows_of_a_stage_outside_of_its_input_are_left_out() {
        let output = Layout::rows(4, 1);
        let input_rows = Rc::new(|_: Range<u64>| 3..u64::MAX);
        let beyond = StageRows::Other { output, input_rows };
        let reach = Reach::new(Layout::rows(10, 1), [beyond].into_iter()).unwrap();
        assert_eq!(reach.rows_at(0, &(0..1)), 3..10);
        let input_rows = Rc::new(|_: Range<u64>| 30..40);
        let nothing = StageRows::Other { output, input_rows };
        let reach = Reach::new(Layout::rows(10, 1), [nothing].into_iter()).unwrap();
        assert_eq!(reach.rows_at(0, &(0..1)), 10..10);
    }

    proptest! {
        /// The law: the rows at a point contain the rows that each single row of the results needs.
        #[test]
        fn a_chunk_has_the_rows_that_each_of_its_rows_needs(
            by in 1u64..5, halos in (0u64..4, 0u64..4), granules in (1u64..4, 1u64..4),
            cut in (0u64..20, 1u64..20),
        ) {
            let input = Layout::rows(120, 4).granule(granules.0);
            let stages = [same(halos.0), sums(120, by, granules.1), same(halos.1)];
            let reach = Reach::new(input, stages.into_iter()).unwrap();
            let end = (cut.0 + cut.1).min(120 / by);
            let chunk = cut.0.min(end)..end;
            for row in chunk.clone() {
                for place in 0..=3 {
                    let (all, one) =
                        (reach.rows_at(place, &chunk), reach.rows_at(place, &(row..row + 1)));
                    prop_assert!(all.start <= one.start && one.end <= all.end, "{all:?} {one:?}");
                }
            }
        }
    }
}
