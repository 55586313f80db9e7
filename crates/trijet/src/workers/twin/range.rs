//! The initial tasks that are left to a worker, as a range of numbers. The worker takes numbers
//! from the front, and a thief takes the upper half. No two ranges ever have a number in common.
//! Only the owner of an empty range changes the range. So a compare-and-swap succeeds only if the
//! range is unchanged since the read. `range_take` and `range_steal` of `scheduler.cuh` do the same
//! on a GPU.
#![forbid(unsafe_code)]
#![expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The first number in the lower 32 bits, and the end in the upper 32 bits.
#[derive(Debug)]
pub(crate) struct Range(AtomicU64);

fn pack(first: u32, end: u32) -> u64 {
    u64::from(end) << 32 | u64::from(first)
}

fn unpack(range: u64) -> (u32, u32) {
    (range as u32, (range >> 32) as u32)
}

impl Range {
    /// The numbers from `first` up to, but not including, `end`.
    pub(crate) fn new(first: u32, end: u32) -> Self {
        Self(AtomicU64::new(pack(first, end)))
    }

    /// The number of tasks that are left, as far as this thread can see.
    pub(crate) fn len(&self) -> u32 {
        let (first, end) = unpack(self.0.load(Ordering::Relaxed));
        end.saturating_sub(first)
    }

    /// Takes numbers from the front of the range. Returns the first of these numbers, and the
    /// number after the last of them. `count` gets the number of tasks that are left, and returns
    /// the number of tasks to take. Only the owner may call this.
    pub(crate) fn take(&self, count: impl Fn(u32) -> u32) -> Option<(u32, u32)> {
        let mut is = self.0.load(Ordering::Relaxed);
        loop {
            let (first, end) = unpack(is);
            if first >= end {
                return None;
            }
            let next = first + count(end - first).clamp(1, end - first);
            match self.swap(is, pack(next, end)) {
                Ok(_) => return Some((first, next)),
                Err(other) => is = other,
            }
        }
    }

    /// Takes the upper half of the numbers, and returns the first number of this half. The other
    /// numbers of the half go into `own`, the range of the thief. `own` must be empty before the
    /// call.
    pub(crate) fn steal(&self, own: &Self) -> Option<u32> {
        let is = self.0.load(Ordering::Relaxed);
        let (first, end) = unpack(is);
        if first >= end {
            return None;
        }
        let begin = end - (end - first).div_ceil(2);
        self.swap(is, pack(first, begin)).ok()?;
        own.0.store(pack(begin + 1, end), Ordering::Relaxed);
        Some(begin)
    }

    fn swap(&self, is: u64, next: u64) -> Result<u64, u64> {
        self.0.compare_exchange(is, next, Ordering::AcqRel, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Range;

    #[test]
    fn the_owner_takes_the_first_numbers_and_a_thief_the_upper_half() {
        let (range, thief) = (Range::new(10, 20), Range::new(0, 0));
        assert_eq!(range.take(|left| left / 4), Some((10, 12)));
        assert_eq!((range.steal(&thief), range.len(), thief.len()), (Some(16), 4, 3));
        assert_eq!(thief.take(|_| 100), Some((17, 20)));
        assert_eq!(thief.take(|_| 1), None);
        let one = Range::new(5, 6);
        assert_eq!((one.steal(&thief), one.len(), thief.len()), (Some(5), 0, 0));
        assert_eq!(one.steal(&thief), None);
    }
}

#[cfg(all(test, loom))]
mod every_order {
    use super::Range;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn a_number_is_taken_once_by_its_owner_or_by_a_thief() {
        loom::model(|| {
            let range = Arc::new(Range::new(0, 3));
            let steal = || {
                let range = Arc::clone(&range);
                thread::spawn(move || {
                    let own = Range::new(0, 0);
                    let mut all: Vec<u32> = range.steal(&own).into_iter().collect();
                    all.extend(std::iter::from_fn(|| own.take(|_| 1)).map(|(first, _)| first));
                    all
                })
            };
            let thieves = [steal(), steal()];
            let mut all: Vec<u32> = range.take(|_| 1).into_iter().map(|(first, _)| first).collect();
            for thief in thieves {
                all.extend(thief.join().expect("it does not panic"));
            }
            all.extend(std::iter::from_fn(|| range.take(|_| 1)).map(|(first, _)| first));
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        });
    }
}
