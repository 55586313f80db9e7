//! The reach of the stages: the rows around a chunk that a run needs at each point.
//!
//! A stage that reads a halo needs results of the previous stage in that halo. So the previous
//! stage writes more rows than the chunk has, and reads its own halo around those rows. The law: a
//! stage in a pipeline with several stages computes the same bytes as in a pipeline with this stage
//! alone. In both cases the stage writes whole granules of rows, up to the end of the data, and
//! reads the same rows for these granules.
//!
//! Points are numbered like the buffers of a slot: 0 is the input, and n is the output of stage n -
//! 1.
#![forbid(unsafe_code)]

use super::layout::Layout;
use std::ops::Range;

/// The number of rows around a chunk at each point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pipeline) struct Reach {
    /// The number of rows of the data.
    rows: u64,
    /// The number of rows before and after a chunk at each point; 0 at the last point.
    around: Vec<u64>,
}

impl Reach {
    /// The reach of stages that have these halos. The first halo belongs to the first stage.
    pub(in crate::pipeline) fn new(
        layout: Layout,
        halos: impl DoubleEndedIterator<Item = u64>,
    ) -> Self {
        let mut around = vec![0u64];
        for halo in halos.rev() {
            around.push(around[around.len() - 1].saturating_add(layout.reach([halo])));
        }
        around.reverse();
        Self { rows: layout.rows, around }
    }

    /// The rows of a chunk at point `place`: the rows that the chunk produces, `rows`, and the rows
    /// around them that later stages need. Points are numbered like the buffers of a slot.
    pub(in crate::pipeline) fn rows_at(&self, place: usize, rows: &Range<u64>) -> Range<u64> {
        let around = self.around[place];
        rows.start.saturating_sub(around)..rows.end.saturating_add(around).min(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows at every point.
    fn rows(layout: Layout, halos: &[u64], chunk: Range<u64>) -> Vec<Range<u64>> {
        let reach = Reach::new(layout, halos.iter().copied());
        (0..=halos.len()).map(|place| reach.rows_at(place, &chunk)).collect()
    }

    #[test]
    fn each_place_has_the_halos_of_all_later_stages() {
        let layout = Layout::rows(100, 1);
        assert_eq!(rows(layout, &[3, 0, 2], 40..50), [35..55, 38..52, 38..52, 40..50]);
        assert_eq!(Reach::new(layout, [].into_iter()).rows_at(0, &(40..50)), 40..50);
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
}
