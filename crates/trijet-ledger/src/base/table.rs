//! A table of values with small, dense numbers. Each value is set once, and read without a lock.
//!
//! The table grows by segments, each twice as long as the one before, and never moves a value. A
//! reader follows two pointers and never waits.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

/// The binary logarithm of the length of the first segment. The segment is small, because an
/// exploration makes new tables for every run.
const FIRST_BITS: u32 = 3;
/// The number of segments, enough for 2^32 values.
const SEGMENTS: usize = 30;

/// A table of values.
#[derive(Debug)]
pub struct NumberTable<T> {
    segments: [OnceLock<Box<[OnceLock<T>]>>; SEGMENTS],
}

impl<T> Default for NumberTable<T> {
    #[inline]
    fn default() -> Self {
        Self { segments: [const { OnceLock::new() }; SEGMENTS] }
    }
}

/// The segment that has the value of a number, and the index of the value in the segment.
fn place(number: usize) -> (usize, usize) {
    let from_first = number.saturating_add(1 << FIRST_BITS);
    let bits = from_first.ilog2();
    ((bits - FIRST_BITS) as usize, from_first - (1 << bits))
}

impl<T> NumberTable<T> {
    /// The value with this number, if it is set.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        let (segment, at) = place(number);
        self.segments.get(segment)?.get()?.get(at)?.get()
    }

    /// Sets the value with this number, unless it is set, and returns the value that is set.
    ///
    /// # Panics
    /// If `number` exceeds 2^32. The numbers count up from 0, so no number is that large.
    #[inline]
    pub fn set(&self, number: usize, value: T) -> &T {
        let (segment, at) = place(number);
        let unset = || (0..1usize << (segment + FIRST_BITS as usize)).map(|_| OnceLock::new());
        self.segments[segment].get_or_init(|| unset().collect())[at].get_or_init(|| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_keeps_its_first_value() {
        let table = NumberTable::default();
        let numbers = [0, 1, 63, 64, 65, 191, 192, 5000];
        for number in numbers {
            assert_eq!(table.get(number), None);
            table.set(number, number * 3);
            table.set(number, 0);
        }
        for number in 0..6000 {
            let expected = numbers.contains(&number).then_some(number * 3);
            assert_eq!(table.get(number).copied(), expected, "of {number}");
        }
    }
}
