//! The tasks that used the bytes of a datum last. A new task comes after some of these tasks,
//! depending on how the tasks use the bytes.
#![forbid(unsafe_code)]

use super::task_state::{Hazard, Number, TaskEdge};
use crate::base::interval::RangeMap;
use crate::base::ledger::Mode;
use smallvec::SmallVec;
use std::ops::Range;

/// If bytes have at least this number of readers, a new reader removes the readers that are over.
/// The operations of the removed readers are still in the stamps of the memory, so later operations
/// still follow these operations.
const READERS_KEPT: usize = 32;

/// The tasks that used some bytes last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Last {
    writer: Option<Number>,
    /// Whether the writer is a task of a reduction: the library combined the part of the task into
    /// the bytes.
    reduced: bool,
    /// The tasks that have read the bytes since the writer wrote them.
    readers: SmallVec<[Number; 4]>,
}

/// The last users of each byte of a datum.
#[derive(Debug, Default)]
pub(super) struct History(RangeMap<Last>);

/// A use of a datum by a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct HistoryUse {
    pub(super) task: Number,
    /// The number of the datum, for explanations.
    pub(super) datum: u32,
    pub(super) mode: Mode,
    /// Whether the use is a reduction: the library combines a part that the task computes into the
    /// bytes.
    pub(super) reduces: bool,
}

impl History {
    /// Adds a use by `task`, and calls `edge` for each earlier use that `task` comes after.
    pub(super) fn add(
        &mut self,
        HistoryUse { task, datum, mode, reduces }: HistoryUse,
        range: &Range<u64>,
        is_over: impl Fn(Number) -> bool,
        mut edge: impl FnMut(TaskEdge),
    ) {
        // The range of an empty datum overlaps no range, so an empty datum has no users.
        for (bytes, last) in self.0.overlapping(range.clone()) {
            let both = bytes.start.max(range.start)..bytes.end.min(range.end);
            let mut push = |from: Number, hazard| {
                edge(TaskEdge { from, datum, range: both.clone(), hazard, kept_by: None });
            };
            if let Some(writer) = last.writer {
                push(
                    writer,
                    match mode {
                        Mode::Write => Hazard::Waw,
                        Mode::Read | Mode::Update if reduces && last.reduced => Hazard::Reduction,
                        Mode::Read | Mode::Update => Hazard::Raw,
                    },
                );
            }
            if mode.writes() {
                last.readers.iter().for_each(|reader| push(*reader, Hazard::War));
            }
        }
        self.0.update(range.clone(), Last::default, |last| {
            if mode.writes() {
                last.writer = Some(task);
                last.reduced = reduces;
                last.readers.clear();
            } else {
                if last.readers.len() >= READERS_KEPT {
                    last.readers.retain(|reader| !is_over(*reader));
                }
                last.readers.push(task);
            }
        });
    }

    /// Cuts a range into pieces. All bytes of a piece have the same last writer, or no writer.
    /// Returns each piece with this writer.
    pub(super) fn pieces(&self, range: &Range<u64>) -> SmallVec<[(Range<u64>, Option<Number>); 2]> {
        let mut all = SmallVec::new();
        let mut start = range.start;
        for (bytes, last) in self.0.overlapping(range.clone()) {
            let both = bytes.start.max(range.start)..bytes.end.min(range.end);
            if start < both.start {
                all.push((start..both.start, None));
            }
            start = both.end;
            all.push((both, last.writer));
        }
        if start < range.end {
            all.push((start..range.end, None));
        }
        all
    }

    /// The tasks that last wrote bytes of a range.
    pub(super) fn writers(&self, range: Range<u64>) -> impl Iterator<Item = Number> + '_ {
        self.0.overlapping(range).filter_map(|(_, last)| last.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The last users of one byte, in a simple model of the history.
    #[derive(Default, Clone)]
    struct Byte {
        writer: Option<Number>,
        readers: Vec<Number>,
    }

    fn used(task: Number, mode: Mode) -> HistoryUse {
        HistoryUse { task, datum: 0, mode, reduces: false }
    }

    /// Readers that are over may be forgotten. Readers that are not over are never forgotten, even
    /// if there are many.
    #[test]
    fn a_writer_comes_after_every_reader_that_is_not_over() {
        let mut history = History::default();
        let is_over = |reader: Number| reader.is_multiple_of(3);
        let all = 4 * READERS_KEPT as Number;
        for reader in 1..=all {
            history.add(used(reader, Mode::Read), &(0..8), is_over, |_| ());
        }
        let mut found = Vec::new();
        history.add(used(all + 1, Mode::Write), &(0..8), is_over, |edge| {
            found.push(edge.from);
        });
        assert!((1..=all).all(|reader| is_over(reader) || found.contains(&reader)), "{found:?}");
    }

    proptest! {
        /// A task comes after the last writer of each byte that it uses. For bytes that the task
        /// writes, the task also comes after all readers since the last write.
        #[test]
        fn the_last_users_of_each_byte_come_before(
            steps in vec((0u64..16, 0u64..16, 0usize..3), 1..40)
        ) {
            let (mut history, mut bytes) = (History::default(), vec![Byte::default(); 16]);
            for (task, (a, b, mode)) in (1..).zip(steps) {
                let range = a.min(b)..a.max(b);
                let mode = [Mode::Read, Mode::Write, Mode::Update][mode];
                let mut found = Vec::new();
                history.add(used(task, mode), &range, |_| false, |edge| {
                    found.extend(edge.range.map(|byte| (byte, edge.from, edge.hazard)));
                });
                let mut expected = Vec::new();
                for at in range {
                    let byte = &mut bytes[usize::try_from(at).expect("few")];
                    let of_write = if mode == Mode::Write { Hazard::Waw } else { Hazard::Raw };
                    expected.extend(byte.writer.map(|writer| (at, writer, of_write)));
                    if mode.writes() {
                        expected.extend(byte.readers.drain(..).map(|reader| (at, reader, Hazard::War)));
                        byte.writer = Some(task);
                    } else {
                        byte.readers.push(task);
                    }
                }
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
