//! Handles of signals. They show which threads and host functions can still set a signal.
//!
//! A handle belongs to the thread or host function that used it last. Before its first use, the
//! first handle belongs to the thread or host function that made the signal. A clone that was never
//! used may have been moved to any thread, and so may a handle whose last user has ended. Nothing
//! is known of the handles of a signal that was made before the trace began.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use crate::base::ledger::Handled;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of handles that are kept per signal. The handles of a signal with more handles
/// are not tracked.
const HANDLES_MAX: usize = 4096;

/// The holder of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A host thread, by its number in the trace.
    Thread(u64),
    /// A host function, by its position.
    HostFn(Position),
    /// Any thread or host function.
    Anyone,
}

/// A handle of a signal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    pub(super) holder: Holder,
    /// Whether the handle was used since it was made or cloned.
    pub(super) is_used: bool,
}

/// The live handles of the signals that were made in the trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Handles {
    by_id: HashMap<u64, BTreeMap<u64, Handle>>,
}

impl Handles {
    pub(super) fn forget(&mut self, signal: u64) {
        self.by_id.remove(&signal);
    }

    pub(super) fn held_state(&self) -> usize {
        self.by_id.values().map(|live| live.len() + 1).sum()
    }

    /// The live handles of a signal; `None` if the handles are not tracked.
    pub(super) fn live(&self, signal: u64) -> Option<impl Iterator<Item = &Handle>> {
        Some(self.by_id.get(&signal)?.values())
    }

    /// Reads a use of a handle.
    pub(super) fn note(
        &mut self,
        thread: u64,
        (signal, handle): (u64, u64),
        what: Handled,
        inside: Option<Position>,
    ) {
        let by = inside.map_or(Holder::Thread(thread), Holder::HostFn);
        if what == Handled::Made {
            self.by_id.insert(signal, BTreeMap::new());
        }
        let Some(live) = self.by_id.get_mut(&signal) else { return };
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
            self.by_id.remove(&signal);
        }
    }
}
