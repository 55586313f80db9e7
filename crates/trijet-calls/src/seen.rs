//! The accesses of kernels that were seen by their addresses.
//!
//! A file has them after the calls, because they are read when the kernels are complete. So they
//! are collected before the calls are judged.
//!
//! An access is seen as a granule of 256 bytes: the launch accessed at least one byte of it. If a
//! launch accesses several granules in a row, the bytes from the end of the first one to the start
//! of the last one count as accessed. The rest counts as possible: two launches that access
//! different bytes of one granule do not conflict.

use crate::accesses::Touched;
use crate::file::Entry;
use std::collections::HashMap;
use std::ops::Range;
use trijet_cupti::call_file::{CallLaunches, GRANULE, Touch};
use trijet_ledger::base::ledger::{Mode, Place};

/// Maximum number of ranges of all calls that are kept. Further launches count as not seen.
const RANGES_MAX: usize = 1 << 25;

/// The accesses of the launches of a call.
#[derive(Debug, Clone, Default)]
struct SeenCall {
    /// The number of launches whose accesses ended.
    ended: u32,
    is_cut: bool,
    ranges: Vec<(Range<u64>, Mode)>,
    /// The first byte of each tensor that was accessed by a tensor map.
    tensors: Vec<(Range<u64>, Mode)>,
}

/// The accesses of all calls of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenAccesses {
    calls: HashMap<u64, SeenCall>,
    kept: usize,
    /// Whether a load and a store by a tensor map was seen. The Compute Sanitizer API shows loads
    /// from version 13.3 on, and stores not in 13.5. It has no function that tells its version.
    sees_map_loads: bool,
    sees_map_stores: bool,
}

/// The accesses of the launches of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SeenWork {
    /// The accesses. Those that are not exact may be of other bytes.
    pub(crate) touched: Vec<Touched>,
    /// The first bytes of the tensors that were accessed by tensor maps.
    pub(crate) tensors: Vec<(u64, Mode)>,
    /// Accesses by tensor maps that may not be among them.
    pub(crate) unseen_by_maps: Option<Mode>,
}

impl SeenAccesses {
    pub(crate) fn read(&mut self, entry: &Entry<'_>) {
        let Entry::Touched { call, what, ranges } = *entry else { return };
        let one = self.calls.entry(call).or_default();
        let (list, mode) = match what {
            Touch::Read => (&mut one.ranges, Mode::Read),
            Touch::Write => (&mut one.ranges, Mode::Write),
            Touch::MapRead => (&mut one.tensors, Mode::Read),
            Touch::MapWrite => (&mut one.tensors, Mode::Write),
            Touch::End | Touch::Cut => {
                one.ended = one.ended.saturating_add(1);
                one.is_cut |= what == Touch::Cut;
                return;
            }
        };
        self.sees_map_loads |= what == Touch::MapRead;
        self.sees_map_stores |= what == Touch::MapWrite;
        let before = list.len();
        list.extend(ranges.iter().map(|range| (range, mode)));
        self.kept += list.len() - before;
        if self.kept > RANGES_MAX {
            self.kept -= list.len();
            one.is_cut = true;
            list.clear();
        }
    }

    /// Whether accesses of the launches of a call have not ended.
    pub(crate) fn waits_for(&self, of: CallLaunches) -> bool {
        self.calls.get(&of.call).map_or(0, |one| one.ended) < of.told
    }

    /// The accesses of the launches of a call, which launched `least` kernels or more. `None` if
    /// the accesses of one launch are not known, or if nothing was seen: a kernel that was not
    /// patched looks the same. The kernels of a graph may have their accesses in the place of one
    /// of them. A call has its accesses once.
    pub(crate) fn work(&mut self, of: CallLaunches, least: u64) -> Option<SeenWork> {
        let one = self.calls.remove(&of.call)?;
        let is_empty = one.ranges.is_empty() && one.tensors.is_empty();
        let is_known = of.missed == 0 && of.told == one.ended && !one.is_cut && !is_empty;
        if !is_known || u64::from(of.told) < least {
            return None;
        }
        let mut touched = Vec::new();
        let mut add = |range: Range<u64>, mode, is_exact| {
            touched.push(Touched { range, mode, elsewhere: Place::Device, is_exact });
        };
        for (range, mode) in &one.ranges {
            if let Some(sure) = surely_touched(range) {
                add(sure, *mode, true);
            }
            add(range.clone(), *mode, false);
        }
        let tensors = one.tensors.iter().map(|(range, mode)| (range.start, *mode)).collect();
        let unseen_by_maps = match (self.sees_map_loads, self.sees_map_stores) {
            (true, true) => None,
            (true, false) => Some(Mode::Write),
            (false, true) => Some(Mode::Read),
            (false, false) => Some(Mode::Update),
        };
        Some(SeenWork { touched, tensors, unseen_by_maps })
    }
}

/// The bytes of whole granules in a row from the last byte of the first one to the first byte of
/// the last one. `None` if that is nothing, or a single granule.
fn surely_touched(range: &Range<u64>) -> Option<Range<u64>> {
    let (start, end) = (range.start.checked_add(GRANULE - 1)?, range.end.checked_sub(GRANULE - 1)?);
    (start < end && range.end - range.start >= 2 * GRANULE).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kernels write the two parts of a buffer, whose border is inside a granule.
    #[test]
    fn neighbours_in_one_granule_do_not_surely_conflict() {
        let (first, second) = (surely_touched(&(0..1024)), surely_touched(&(768..2048)));
        assert_eq!((first, second), (Some(255..769), Some(1023..1793)));
        assert_eq!(surely_touched(&(0..256)), None);
        assert_eq!(surely_touched(&(0..512)), Some(255..257));
        assert_eq!(surely_touched(&(u64::MAX - 255..u64::MAX)), None);
    }

    /// The accesses in a file with these blocks.
    fn seen(blocks: impl FnOnce(&mut Vec<u8>)) -> SeenAccesses {
        let mut bytes = Vec::new();
        trijet_cupti::call_file::header(&mut bytes, 1);
        blocks(&mut bytes);
        let mut seen = SeenAccesses::default();
        crate::CallFile::new(&bytes).unwrap().entries(|entry| seen.read(&entry)).unwrap();
        seen
    }

    #[test]
    fn a_call_is_known_if_the_accesses_of_all_its_launches_are() {
        let of = |told, missed| CallLaunches { call: 4, told, missed };
        let add = |out: &mut Vec<u8>, what, ranges: &[_]| {
            trijet_cupti::call_file::touched(out, 4, what, ranges);
        };
        let ranges = [512..1024, 2048..2304];
        let known = |seen: SeenAccesses, of, least| {
            let work = { seen }.work(of, least);
            work.map(|work| work.touched.len())
        };
        assert_eq!(known(SeenAccesses::default(), of(1, 0), 1), None);
        let one = || {
            seen(|out| {
                add(out, Touch::Write, &ranges);
                add(out, Touch::End, &[]);
            })
        };
        assert_eq!(known(one(), of(1, 0), 1), Some(3));
        assert_eq!(known(one(), of(2, 0), 2), None, "one launch has no end");
        assert_eq!(known(one(), of(1, 1), 2), None, "one launch had no table");
        assert_eq!(known(one(), of(1, 0), 2), None, "the graph has another kernel");
        let cut = seen(|out| {
            add(out, Touch::Write, &ranges);
            add(out, Touch::Cut, &[]);
        });
        assert_eq!(known(cut, of(1, 0), 1), None, "accesses are missing");
        let not_patched = seen(|out| add(out, Touch::End, &[]));
        assert_eq!(known(not_patched, of(1, 0), 1), None, "nothing was seen");
    }

    #[test]
    fn a_process_that_shows_loads_by_tensor_maps_may_hide_stores() {
        let ranges = [512..1024, 4096..4352];
        let unseen = |others: &[Touch]| {
            let mut seen = seen(|out| {
                let mut add = |call, what, ranges: &[_]| {
                    trijet_cupti::call_file::touched(out, call, what, ranges);
                };
                add(4, Touch::Read, &ranges);
                add(4, Touch::End, &[]);
                others.iter().for_each(|what| add(5, *what, &ranges));
            });
            seen.work(CallLaunches { call: 4, told: 1, missed: 0 }, 1).unwrap().unseen_by_maps
        };
        assert_eq!(unseen(&[]), Some(Mode::Update));
        assert_eq!(unseen(&[Touch::MapRead]), Some(Mode::Write));
        assert_eq!(unseen(&[Touch::MapWrite]), Some(Mode::Read));
        assert_eq!(unseen(&[Touch::MapRead, Touch::MapWrite]), None);
    }
}
