//! The setup that a launch passes to the workers, and the layout of their common memory.
//! `scheduler.cuh` has the same structure and the same layout.
#![forbid(unsafe_code)]

use super::options::{Policy, RunOptions};
use bytemuck::{NoUninit, Pod, Zeroable};

/// The number of 32-bit words in a line of 128 bytes.
const LINE: usize = 32;

/// The number of 32-bit words before the first part of the common memory: 13 common words, each in
/// a line of its own.
const COMMON: usize = 13 * LINE;

/// Indices of words in the host words of a run. A word has 32 bits.
pub(super) mod host {
    use super::LINE;
    /// Nonzero if the host has asked the workers to leave.
    pub(in crate::workers) const ASKED: usize = 0;
    /// The first word of the report of the end. The report has the code of the end, the worker, the
    /// balance of the credits, the task in two words, and the total of each count in two words.
    pub(in crate::workers) const REPORTED: usize = 1;
    /// The number of tasks that the host has fed.
    pub(in crate::workers) const FED: usize = LINE;
    /// The number of answers that the host has taken.
    pub(in crate::workers) const TAKEN: usize = LINE + 1;
    /// Nonzero if the host will feed no more tasks.
    pub(in crate::workers) const CLOSED: usize = LINE + 2;
    /// The number of fed tasks that the workers have taken.
    pub(in crate::workers) const SEEN: usize = 2 * LINE;
    /// The first word of the ring of tasks. The ring of answers follows the ring of tasks.
    pub(in crate::workers) const RINGS: usize = 3 * LINE;

    /// The number of host words of a run. With a feed, the two rings have `1 << bits` slots each.
    /// Without a feed, `bits` is 0, and there are no rings.
    pub(in crate::workers) fn words(bits: u32) -> usize {
        if bits == 0 { RINGS } else { RINGS + (6 << bits) }
    }

    /// The index of the first word of a task. `number` is the number of earlier tasks.
    pub(in crate::workers) fn task(bits: u32, number: u32) -> usize {
        RINGS + 2 * (number as usize & ((1 << bits) - 1))
    }

    /// The index of the first word of an answer. `number` is the number of earlier answers.
    pub(in crate::workers) fn answer(bits: u32, number: u32) -> usize {
        RINGS + (2 << bits) + 4 * (number as usize & ((1 << bits) - 1))
    }
}

/// The number of counts of a worker.
pub(super) const COUNTS: usize = 5;
/// The number of 64-bit words in the statistics of a worker.
pub(super) const STATS: usize = 8;
/// The number of 64-bit words per task whose times are kept: the word of the task, its start and
/// its end.
pub(super) const SPAN: usize = 3;

/// The structure `Setup` of `scheduler.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Zeroable, Pod)]
#[repr(C)]
pub(super) struct Setup {
    pub(super) policy: u32,
    pub(super) workers: u32,
    pub(super) initial: u32,
    pub(super) seed: u32,
    pub(super) ring_bits: u32,
    pub(super) deque_bits: u32,
    pub(super) chunk: u32,
    pub(super) watchdog_us: u32,
    deques: u32,
    ranges: u32,
    running: u32,
    ring: u32,
    has_stats: u32,
    /// The index of the first word of the statistics in the memory of the queues (see `tasks` of
    /// [`WorkersLayout`]).
    pub(super) stats: u32,
    pub(super) is_graph: u32,
    pub(super) levels: u32,
    pub(super) successors: u32,
    pub(super) order: u32,
    pub(super) level: u32,
    /// The base-2 logarithm of the number of slots of each ring of a feed; 0 without a feed.
    pub(super) feed_bits: u32,
    /// Maximum time that a worker sleeps after it has found no task, in nanoseconds.
    pub(super) nap_ns: u32,
    /// The index of the fields of the nodes in the words of the graph.
    pub(super) fields: u32,
    /// The number of nodes that have fields in the words of the graph.
    pub(super) with_fields: u32,
    /// The number of last tasks per worker whose times are kept.
    pub(super) traced: u32,
    /// The word of initial task 0, if the initial tasks are a range of payloads.
    pub(super) first: u64,
}

const _: fn() = || {
    fn is_no_uninit<T: NoUninit>() {}
    is_no_uninit::<Setup>();
};

/// The sizes of the memory of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkersLayout {
    /// The number of 32-bit words of the common memory, which are 0 at the start.
    pub(super) state: usize,
    /// The number of 64-bit words for the queues of all workers, the statistics of all workers, and
    /// the times of tasks.
    pub(super) tasks: usize,
}

impl Setup {
    /// The number of credits of a run. The run is over when all credits are given back. A feed has
    /// one credit until it is closed.
    pub(super) fn credits(&self) -> u32 {
        self.initial + u32::from(self.feed_bits != 0)
    }

    /// The number of 64-bit words in the statistics of all workers.
    pub(super) fn stats_len(&self) -> usize {
        if self.has_stats == 1 { STATS * self.workers as usize } else { 0 }
    }

    /// The number of 64-bit words for the times of tasks. These words follow the statistics.
    pub(super) fn spans_len(&self) -> usize {
        SPAN * self.traced as usize * self.workers as usize
    }

    /// The setup of a run with this many workers and initial tasks, and the size of its memory.
    /// `None` if an index in the memory would not fit into 32 bits.
    pub(super) fn new(
        options: &RunOptions,
        workers: u32,
        initial: u32,
    ) -> Option<(Self, WorkersLayout)> {
        let (deque_bits, ring_bits) = (bits(options.queue), bits(options.ring));
        let mut next = COMMON;
        // Each part starts at a multiple of [`LINE`].
        let mut part = |words: usize| {
            let at = next;
            next = next.checked_add(words)?.checked_next_multiple_of(LINE)?;
            u32::try_from(at).ok()
        };
        let each = workers as usize;
        let has_deques = options.policy != Policy::Levels;
        let has_ring = !matches!(options.policy, Policy::Static | Policy::Levels);
        let (deques, ranges, running) = (part(2 * each)?, part(2 * each)?, part(4 * each)?);
        let ring = part(if has_ring { 4 << ring_bits } else { 0 })?;
        let state = part(0)? as usize;
        let queues = if has_deques { each.checked_mul(1 << deque_bits)? } else { 0 };
        let has_stats = options.statistics || options.trace > 0;
        let stats = if has_stats { STATS * each } else { 0 };
        let traced = each.checked_mul(SPAN)?.checked_mul(options.trace as usize)?;
        let setup = Self {
            policy: options.policy.number(),
            workers,
            initial,
            seed: options.seed,
            ring_bits,
            deque_bits,
            chunk: options.chunk.max(1),
            watchdog_us: u32::try_from(options.watchdog.as_micros()).unwrap_or(u32::MAX),
            deques,
            ranges,
            running,
            ring,
            has_stats: u32::from(has_stats),
            stats: u32::try_from(queues).ok()?,
            is_graph: 0,
            levels: 0,
            successors: 0,
            order: 0,
            level: 0,
            feed_bits: 0,
            // Workers that search for tasks slow down the workers of the same multiprocessor. If
            // there are few workers, they may search often.
            nap_ns: if workers > 1024 { 1024 } else { 256 },
            fields: 0,
            with_fields: 0,
            traced: options.trace,
            first: 0,
        };
        let tasks = (queues + stats).checked_add(traced)?;
        u32::try_from(tasks).ok()?;
        Some((setup, WorkersLayout { state, tasks }))
    }
}

/// The base-2 logarithm of the smallest power of two that is at least `count`.
fn bits(count: u32) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_the_memory_do_not_overlap() {
        let options = RunOptions::new().queue(100).ring(1000).statistics();
        let (setup, layout) = Setup::new(&options, 7, 3).expect("it is small");
        let parts = [
            (setup.deques, 2 * 7),
            (setup.ranges, 2 * 7),
            (setup.running, 4 * 7),
            (setup.ring, 4 * 1024),
        ];
        let mut end = COMMON;
        for (at, words) in parts {
            assert!(at as usize >= end && (at as usize).is_multiple_of(LINE), "{parts:?}");
            end = at as usize + words;
        }
        assert!(layout.state >= end);
        assert_eq!((setup.stats, layout.tasks), (7 * 128, 7 * (128 + STATS)));
        assert_eq!(size_of::<Setup>(), 104, "as in scheduler.cuh");
    }

    #[test]
    fn memory_beyond_the_words_that_a_place_can_name_is_refused() {
        let options = RunOptions::new().queue(1 << 31);
        assert_eq!(Setup::new(&options, 4224, 1), None);
    }
}
