//! The devices that have the current values of a datum.
#![forbid(unsafe_code)]

use crate::base::interval::RangeMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Maximum number of devices of tasks, because a set of devices is one word of 64 bits.
pub(super) const PLACES_MAX: usize = 64;

/// The copies of a datum on the devices of its tasks. Each copy has a history of its own, so a
/// write on one device does not wait for a read of an older value on another device.
#[derive(Debug)]
pub(super) struct Replicas {
    /// For each device, the number of the copy on the device; `None` if there is no copy.
    numbers: SmallVec<[Option<u32>; 4]>,
    /// For each range of bytes, the devices that have the current values, one bit per device. At
    /// least one bit is set.
    valid: RangeMap<u64>,
    home: usize,
}

/// Bytes whose current values a device lacks, and the number of a device that has these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) from: usize,
    pub(super) range: Range<u64>,
}

impl Replicas {
    /// The copies of the datum `number`, which has `bytes` bytes on the device `home`. The tasks
    /// have `places` devices.
    pub(super) fn new(number: u32, bytes: u64, home: usize, places: usize) -> Self {
        let mut numbers = SmallVec::from_elem(None, places);
        numbers[home] = Some(number);
        let mut valid = RangeMap::default();
        valid.update(0..bytes, || 1 << home, |_| ());
        Self { numbers, valid, home }
    }

    pub(super) fn home(&self) -> usize {
        self.home
    }

    /// The number of the copy on a device, if there is one.
    pub(super) fn number(&self, place: usize) -> Option<u32> {
        self.numbers[place]
    }

    pub(super) fn set_number(&mut self, place: usize, number: u32) {
        self.numbers[place] = Some(number);
    }

    /// The numbers of the copies on devices other than the device of the datum.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + '_ {
        let others = self.numbers.iter().enumerate().filter(|(place, _)| *place != self.home);
        others.filter_map(|(_, number)| *number)
    }

    /// The bytes of a range whose current values a device lacks.
    pub(super) fn missing(&self, place: usize, range: &Range<u64>) -> SmallVec<[Missing; 2]> {
        let mut all: SmallVec<[Missing; 2]> = SmallVec::new();
        for (bytes, valid) in self.valid.overlapping(range.clone()) {
            if valid & (1 << place) != 0 {
                continue;
            }
            let from = valid.trailing_zeros() as usize;
            let range = bytes.start.max(range.start)..bytes.end.min(range.end);
            match all.last_mut() {
                Some(last) if last.from == from && last.range.end == range.start => {
                    last.range.end = range.end;
                }
                _ => all.push(Missing { from, range }),
            }
        }
        all
    }

    /// Notes that the device `place` now also has the current values of the bytes `range`.
    pub(super) fn add(&mut self, place: usize, range: Range<u64>) {
        self.valid.update(range, || 0, |valid| *valid |= 1 << place);
    }

    /// Notes that only the device `place` has the current values of the bytes `range`.
    pub(super) fn written(&mut self, place: usize, range: Range<u64>) {
        self.valid.update(range, || 0, |valid| *valid = 1 << place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// A device lacks the value of a byte exactly if another device wrote the byte after the
        /// device last got the value. The device that `missing` names has the value.
        #[test]
        fn a_device_lacks_what_was_written_elsewhere(
            steps in vec((0u64..16, 0u64..16, 0usize..3, any::<bool>()), 1..40)
        ) {
            let mut replicas = Replicas::new(0, 16, 1, 3);
            let mut has = [[false, true, false]; 16];
            let at = |byte: u64| usize::try_from(byte).expect("few");
            for (a, b, place, writes) in steps {
                let range = a.min(b)..a.max(b);
                let mut found = Vec::new();
                for Missing { from, range } in replicas.missing(place, &range) {
                    for byte in range {
                        prop_assert!(has[at(byte)][from]);
                        found.push(byte);
                    }
                }
                let lacks: Vec<u64> = range.clone().filter(|byte| !has[at(*byte)][place]).collect();
                prop_assert_eq!(found, lacks);
                if writes {
                    replicas.written(place, range.clone());
                } else {
                    replicas.add(place, range.clone());
                }
                for byte in range {
                    let of = &mut has[at(byte)];
                    *of = [0, 1, 2].map(|other| other == place || (of[other] && !writes));
                }
            }
        }
    }
}
