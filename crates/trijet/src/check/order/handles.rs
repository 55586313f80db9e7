//! Handles of signals: who could still set one that has not been set.
//!
//! A handle is with the thread or the host function that used it last, and before its first use with
//! the thread that made it. A clone that was never used may have been moved anywhere, and so may a
//! handle whose last user has ended. Of a signal that was made before the record nothing is known.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use crate::base::ledger::Handled;
use std::collections::{BTreeMap, HashMap};

/// Handles of a signal that are kept. Of a signal with more of them, nothing is known any more.
const HANDLES_MAX: usize = 4096;

/// Who has a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// The thread, by its number in the record.
    Thread(u64),
    HostFn(Position),
    Anyone,
}

/// A handle of a signal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handle {
    pub(super) holder: Holder,
    pub(super) is_used: bool,
}

/// The live handles of the signals that were made in the record.
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

    /// The live handles of a signal; `None` when nothing is known of them.
    pub(super) fn live(&self, signal: u64) -> Option<impl Iterator<Item = &Handle>> {
        Some(self.by_id.get(&signal)?.values())
    }

    /// A use of a handle of a signal.
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
