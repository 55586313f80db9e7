//! The turn of a scripted host thread: of the threads of a script, one holds the baton at a time.
#![forbid(unsafe_code)]

use super::ids::Points;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The script that this thread belongs to, and its number there.
    static SCRIPT: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
    static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// The host threads of a script, numbered from 1; 0 is whoever is not scripted.
#[derive(Debug, Default)]
pub(super) struct Baton {
    /// Scripts are numbered over the process; 0 while there is none.
    pub(super) script: u64,
    pub(super) holder: u32,
    pub(super) threads: Vec<Scripted>,
    /// The last step before the script; after it, the last steps of its threads.
    pub(super) follows: SmallVec<[u32; 4]>,
    pub(super) ends: SmallVec<[u32; 4]>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Scripted {
    pub(super) finished: bool,
    /// What it waits for.
    pub(super) waits: Points,
}

impl Baton {
    pub(super) fn has_script(&self) -> bool {
        self.script != 0
    }

    /// Who calls: the number in the script of this driver, or 0.
    pub(super) fn me(&self) -> u32 {
        match SCRIPT.get() {
            Some((script, number)) if script == self.script => number,
            _ => 0,
        }
    }

    /// A number of the calling thread that a repeated run gives again, for its default stream.
    pub(super) fn thread_key(&self) -> u64 {
        match self.me() {
            0 => NUMBER.with(|number| *number) << 16,
            number => u64::from(number),
        }
    }
}

/// Whether the calling thread is one of a script.
pub(super) fn is_scripted() -> bool {
    SCRIPT.get().is_some()
}

/// Makes the calling thread the one with this number of a script.
pub(super) fn join_script(script: u64, number: u32) {
    SCRIPT.set(Some((script, number)));
}
