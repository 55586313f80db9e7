//! The order of the calls of the host: the calls of a thread one after another, and the calls of
//! different threads that wait for each other.
//!
//! A trace does not have the waits between threads. A thread that makes no call while other threads
//! make calls for at least half of its pause is taken to wait for them. PyTorch's backward pass is
//! an example: the main thread waits for the thread that launches it.
#![forbid(unsafe_code)]

use super::super::calls::ProgramCall;

/// Minimum length in nanoseconds of a pause in which a thread can wait for another one.
const PAUSE_MIN_NS: u64 = 20_000;

/// The calls of all threads by start and by end.
pub(super) struct HostOrder<'a> {
    /// The calls, sorted by thread and start.
    calls: &'a [ProgramCall],
    by_begin: Vec<usize>,
    by_end: Vec<usize>,
}

/// The call that another call follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PreviousCall {
    /// The index of the earlier call.
    pub(super) call: usize,
    /// Whether the call belongs to another thread.
    pub(super) is_of_another: bool,
}

impl<'a> HostOrder<'a> {
    pub(super) fn of(calls: &'a [ProgramCall]) -> Self {
        let mut by_begin: Vec<usize> = (0..calls.len()).collect();
        let mut by_end = by_begin.clone();
        by_begin.sort_by_key(|&at| calls[at].time.start);
        by_end.sort_by_key(|&at| calls[at].time.end);
        Self { calls, by_begin, by_end }
    }

    /// The call before `at` on the same thread.
    pub(super) fn on_thread(&self, at: usize) -> Option<usize> {
        let before = at.checked_sub(1)?;
        (self.calls[before].thread == self.calls[at].thread).then_some(before)
    }

    /// The call that `at` follows: the last call of the other threads if the thread waits for them,
    /// otherwise the call before it on the thread. `None` for the first call.
    pub(super) fn previous(&self, at: usize) -> Option<PreviousCall> {
        let before = self.on_thread(at);
        let end = before.map_or(0, |before| self.calls[before].time.end);
        let begin = self.calls[at].time.start;
        let own = before.map(|call| PreviousCall { call, is_of_another: false });
        if begin.saturating_sub(end) < PAUSE_MIN_NS {
            return own;
        }
        // No call of this thread lies between `end` and `begin`, so these are calls of others.
        let ended = self.by_end.partition_point(|&one| self.calls[one].time.end <= begin);
        let Some(last) = ended.checked_sub(1).map(|last| self.by_end[last]) else { return own };
        let started = self.by_begin.partition_point(|&one| self.calls[one].time.start < end);
        let Some(&first) = self.by_begin.get(started) else { return own };
        let last_end = self.calls[last].time.end;
        let work = last_end.saturating_sub(self.calls[first].time.start);
        let is_waiting = self.calls[last].thread != self.calls[at].thread
            && last_end > end
            && (before.is_none() || work >= (begin - end) / 2);
        if is_waiting { Some(PreviousCall { call: last, is_of_another: true }) } else { own }
    }
}
