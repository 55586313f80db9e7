//! Handles of signals: who could still set one that has not been set.
//!
//! A handle is with the thread or the host function that used it last, and before its first use with
//! the thread that made it. A clone that was never used may have been moved anywhere, and so may a
//! handle whose last user has ended. Of a signal that was made before the record nothing is known.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::signals::State;
use super::{Actor, Order};
use crate::base::id::Position;
use crate::base::ledger::Handled;
use std::collections::{BTreeMap, HashMap};

/// Handles of a signal that are kept. Of a signal with more of them, nothing is known any more.
const HANDLES_MAX: usize = 4096;

/// Who has a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// The thread, by its number in the record.
    Thread(u64),
    HostFn(Position),
    Anyone,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    holder: Holder,
    is_used: bool,
}

/// The live handles of the signals that were made in the record.
#[derive(Debug, Clone, Default)]
pub(super) struct Handles {
    of: HashMap<u64, BTreeMap<u64, Handle>>,
}

impl Handles {
    pub(super) fn forget(&mut self, signal: u64) {
        self.of.remove(&signal);
    }

    pub(super) fn held_state(&self) -> usize {
        self.of.values().map(|live| live.len() + 1).sum()
    }
}

impl Order {
    pub(super) fn handle(
        &mut self,
        thread: u64,
        (signal, handle): (u64, u64),
        what: Handled,
        inside: Option<Position>,
    ) {
        let by = inside.map_or(Holder::Thread(thread), Holder::HostFn);
        let handles = &mut self.signals.handles.of;
        if what == Handled::Made {
            handles.insert(signal, BTreeMap::new());
        }
        let Some(live) = handles.get_mut(&signal) else { return };
        let now = match what {
            Handled::Made => Handle { holder: by, is_used: false },
            Handled::Cloned => Handle { holder: Holder::Anyone, is_used: false },
            Handled::Used => Handle { holder: by, is_used: true },
            Handled::Dropped => {
                live.remove(&handle);
                return;
            }
        };
        live.insert(handle, now);
        if live.len() > HANDLES_MAX {
            handles.remove(&signal);
        }
    }

    /// Whether `by` may have a handle of the signal.
    pub(super) fn may_hold(&self, signal: u64, by: Actor) -> bool {
        let Some(live) = self.signals.handles.of.get(&signal) else { return true };
        live.values().any(|handle| match (handle.holder, by) {
            (Holder::Anyone, _) => true,
            // It may have been made here, and moved there.
            (Holder::Thread(_), Actor::HostFn(..)) if !handle.is_used => true,
            (Holder::Thread(id), _) if self.has_ended(id) => true,
            (Holder::Thread(id), Actor::Thread(thread)) => self.threads[thread].id == id,
            (Holder::Thread(_), Actor::HostFn(..)) => false,
            (Holder::HostFn(at), _) if self.has_run(at) => true,
            (Holder::HostFn(at), Actor::HostFn(lane, seq)) => {
                let number = self.signals.host_fn(lane, seq).map(|one| one.number);
                self.lanes[lane].id == at.lane && number == Some(at.seq)
            }
            (Holder::HostFn(_), Actor::Thread(_)) => false,
        })
    }

    fn has_ended(&self, id: u64) -> bool {
        self.thread_of.get(&id).is_some_and(|thread| self.threads[*thread].is_gone)
    }

    /// Whether the host function at the position has returned; one that is forgotten has.
    fn has_run(&self, at: Position) -> bool {
        match self.host_fn_at(at) {
            Some(Actor::HostFn(lane, seq)) => {
                self.signals.host_fn(lane, seq).is_none_or(|one| one.state == State::Ran)
            }
            // Its record may still come.
            _ => self.lane_of.contains_key(&at.lane) && !self.signals.is_early(at),
        }
    }
}
