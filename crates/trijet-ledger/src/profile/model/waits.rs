//! The operations that a call of the host waits for.
#![forbid(unsafe_code)]

use super::super::calls::{Class, ProgramCall};
use super::edges::WaitOf;
use super::sorted::{RunOperation, SortedTrace};
use crate::trace::activity::SyncKind;

/// Maximum number of operations that are searched for the one that a wait for an event ended with.
const SEARCHED_MAX: usize = 64;
/// The error in nanoseconds between the times of calls and of operations.
pub(super) const CLOCKS_NS: u64 = 5_000;

/// The operations that a call waits for, by index, and the kind of the wait.
pub(super) struct CallWait {
    pub(super) of: WaitOf,
    pub(super) operations: Vec<usize>,
}

impl SortedTrace<'_> {
    /// The operations that the call `at` waits for; `None` if it waits for none.
    pub(super) fn awaited(&self, at: usize) -> Option<CallWait> {
        let call = &self.calls[at];
        let own = self.enqueued_by(at);
        match call.class {
            Class::DeviceSync => {
                Some(CallWait { of: WaitOf::Sync, operations: self.all_before(call) })
            }
            Class::StreamSync => {
                let wait = self.syncs.get(&call.correlation);
                let operations = match wait {
                    Some((SyncKind::Context, ..)) => self.all_before(call),
                    Some((SyncKind::Stream, context, stream)) => {
                        let last = self.last_of((*context, *stream), call);
                        let end = last.map_or(0, |last| self.operations[last].end());
                        // After the last operation, the stream itself may wait for another one.
                        let waited_from = end.max(call.time.start);
                        let is_long = call.time.end.saturating_sub(waited_from) > 2 * CLOCKS_NS;
                        let ended_later = |&one: &usize| self.operations[one].end() > waited_from;
                        let other = self.ended_before(call).filter(|_| is_long).filter(ended_later);
                        last.into_iter().chain(other).collect()
                    }
                    _ => self.ended_before(call).into_iter().collect(),
                };
                Some(CallWait { of: WaitOf::Sync, operations })
            }
            Class::CopySync => {
                Some(CallWait { of: WaitOf::Copy, operations: self.ending_with(call, own) })
            }
            Class::CopyAsync => {
                let copy = own.iter().find_map(|&one| self.operations[one].staged())?;
                let operations = self.ending_with(call, own);
                Some(CallWait { of: WaitOf::Staged(copy), operations })
            }
            Class::Alloc if call.frees => {
                let all = self.all_before(call);
                let is_over = |&one: &usize| {
                    self.operations[one].end() <= call.time.end.saturating_add(CLOCKS_NS)
                };
                let is_during = |&one: &usize| self.operations[one].end() > call.time.start;
                let waits = all.iter().all(is_over) && all.iter().any(is_during);
                Some(CallWait {
                    of: WaitOf::Allocation,
                    operations: if waits { all } else { Vec::new() },
                })
            }
            Class::Alloc | Class::Other => None,
        }
    }

    /// The operations of a call that are complete when the call returns.
    fn ending_with(&self, call: &ProgramCall, own: Vec<usize>) -> Vec<usize> {
        own.into_iter()
            .filter(|&one| self.operations[one].end() <= call.time.end.saturating_add(CLOCKS_NS))
            .collect()
    }

    /// The last operation of each stream that was enqueued before a call.
    fn all_before(&self, call: &ProgramCall) -> Vec<usize> {
        self.streams.keys().filter_map(|&stream| self.last_of(stream, call)).collect()
    }

    /// The last operation of a stream that was enqueued before a call.
    fn last_of(&self, stream: (u32, u32), call: &ProgramCall) -> Option<usize> {
        let list = self.streams.get(&stream)?;
        let enqueued = list.partition_point(|&one| self.enqueued_at(one) < call.time.start);
        enqueued.checked_sub(1).map(|last| list[last])
    }

    /// The operation that ended last before a call returned, among those that were enqueued before
    /// the call. A wait for an event ends with it.
    fn ended_before(&self, call: &ProgramCall) -> Option<usize> {
        let limit = call.time.end.saturating_add(CLOCKS_NS);
        let ended = self.by_end.partition_point(|&one| self.operations[one].end() <= limit);
        let latest = self.by_end[..ended].iter().rev().take(SEARCHED_MAX).copied();
        { latest }.find(|&one| self.enqueued_at(one) < call.time.start)
    }

    /// The time at which an operation was enqueued. Without its call, the operation is taken to be
    /// enqueued when it starts.
    pub(super) fn enqueued_at(&self, operation: usize) -> u64 {
        let RunOperation { activity, call, .. } = &self.operations[operation];
        call.map_or(activity.begin.0, |call| self.calls[call].time.start)
    }
}
