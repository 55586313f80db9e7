//! The activities of each tag. CUPTI numbers the calls of the driver. Under the number of a call,
//! CUPTI reports the tag of the call and the activities that the call caused.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::device::driver::{Activities, EngineActivity};
use std::collections::{BTreeMap, HashMap};
use trijet_cupti::layout::Record;

/// The records that CUPTI returned. They come in any order: the record of an activity may come
/// before the record of its tag.
#[derive(Debug, Default)]
pub(super) struct Tagged {
    /// The tag of each call under a tag, by the number of the call.
    tags: HashMap<u32, u64>,
    /// For each activity of an engine: the number of the call, the start and the end.
    work: Vec<(u32, Nanos, Nanos)>,
    lost: u64,
}

impl Tagged {
    /// Takes one record. Records other than tags and operations are ignored.
    pub(super) fn take(&mut self, record: Option<Record>) {
        match record {
            Some(Record::Tag { correlation, tag }) => {
                self.tags.insert(correlation, tag);
            }
            Some(Record::Transfer(one, _) | Record::Kernel(one, ..) | Record::Graph(one, _)) => {
                // The end of an unfinished activity is 0.
                if one.end > 0 {
                    if one.begin == 0 || one.end < one.begin {
                        self.lost += 1;
                    } else {
                        self.work.push((one.correlation, Nanos(one.begin), Nanos(one.end)));
                    }
                }
            }
            Some(
                Record::Plain(_)
                | Record::StreamWait(..)
                | Record::Event(_)
                | Record::Sample(_)
                | Record::Call(..)
                | Record::Context { .. }
                | Record::Stream { .. }
                | Record::Allocation(_)
                | Record::Mark { .. },
            )
            | None => {}
        }
    }

    /// Counts records that CUPTI had no buffer for.
    pub(super) fn lost(&mut self, records: u64) {
        self.lost += records;
    }

    /// One activity for each tag with work, from the earliest start of the work to the latest end.
    pub(super) fn activities(self) -> Activities {
        let mut hulls: BTreeMap<u64, (Nanos, Nanos)> = BTreeMap::new();
        for (correlation, begin, end) in self.work {
            let Some(tag) = self.tags.get(&correlation) else { continue };
            let hull = hulls.entry(*tag).or_insert((begin, end));
            *hull = (hull.0.min(begin), hull.1.max(end));
        }
        let work = hulls.into_iter().map(|(tag, (begin, end))| EngineActivity { tag, begin, end });
        Activities { work: work.collect(), lost: self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet_cupti::layout::read;

    /// A record in the layout of the C compiler.
    fn record(kind: u32, fields: &[(usize, u64)]) -> Option<Record> {
        let mut bytes = vec![0; 208];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        for (at, value) in fields {
            // After each word, there are fields that nothing here reads.
            bytes[*at..*at + 8].copy_from_slice(&value.to_le_bytes());
        }
        read(&bytes, 130_001)
    }

    fn tag(correlation: u64, tag: u64) -> Option<Record> {
        record(39, &[(4, 3), (8, tag), (16, correlation)])
    }

    fn copy(correlation: u64, begin: u64, end: u64) -> Option<Record> {
        record(1, &[(16, begin), (24, end), (44, correlation)])
    }

    fn kernel(correlation: u64, begin: u64, end: u64) -> Option<Record> {
        record(10, &[(16, begin), (24, end), (92, correlation)])
    }

    fn found(records: impl IntoIterator<Item = Option<Record>>) -> Vec<(u64, u64, u64)> {
        let mut tagged = Tagged::default();
        records.into_iter().for_each(|record| tagged.take(record));
        let work = tagged.activities().work;
        work.into_iter().map(|one| (one.tag, one.begin.0, one.end.0)).collect()
    }

    #[test]
    fn work_is_matched_to_the_tag_of_its_call_in_whatever_order_records_come() {
        let records =
            || vec![tag(5, 70), copy(5, 100, 200), kernel(6, 300, 400), tag(6, 71), tag(7, 72)];
        assert_eq!(found(records()), [(70, 100, 200), (71, 300, 400)]);
        assert_eq!(found(records().into_iter().rev()), [(70, 100, 200), (71, 300, 400)]);
    }

    #[test]
    fn kernels_fills_and_copies_of_every_kind_are_work() {
        let span = [(16, 100), (24, 200)];
        for (kind, correlation) in [(10, 92), (1, 44), (22, 60), (2, 44)] {
            let work = record(kind, &[span[0], span[1], (correlation, 5)]);
            assert_eq!(found([tag(5, 70), work]), [(70, 100, 200)], "kind {kind}");
        }
    }

    #[test]
    fn a_batch_is_one_activity_from_its_first_begin_to_its_last_end() {
        let records = [copy(5, 300, 400), tag(5, 70), copy(5, 100, 150), copy(5, 120, 130)];
        assert_eq!(found(records), [(70, 100, 400)]);
    }

    #[test]
    fn calls_of_one_tag_are_one_activity() {
        let records = [tag(5, 70), tag(6, 70), copy(5, 100, 150), copy(6, 160, 170)];
        assert_eq!(found(records), [(70, 100, 170)]);
    }

    #[test]
    fn work_of_others_and_work_that_has_not_ended_have_no_tag() {
        let records = [copy(4, 100, 150), tag(5, 70), copy(5, 100, 0)];
        assert_eq!(found(records), []);
    }

    #[test]
    fn a_wait_under_a_tag_is_no_work() {
        let wait = record(38, &[(4, 3), (8, 100), (16, 200), (24, 5)]);
        assert_eq!(found([tag(5, 70), wait]), []);
    }

    #[test]
    fn work_with_impossible_times_is_lost_and_counted() {
        let mut tagged = Tagged::default();
        for record in [tag(5, 70), copy(5, 0, 150), kernel(5, 200, 199), copy(5, 300, 400)] {
            tagged.take(record);
        }
        let found = tagged.activities();
        assert_eq!((found.lost, found.work.len()), (2, 1));
        assert_eq!((found.work[0].begin, found.work[0].end), (Nanos(300), Nanos(400)));
    }

    #[test]
    fn lost_records_are_counted() {
        let mut tagged = Tagged::default();
        tagged.lost(2);
        tagged.lost(3);
        assert_eq!(tagged.activities().lost, 5);
    }
}
