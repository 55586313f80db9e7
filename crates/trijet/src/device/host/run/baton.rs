//! The baton of a script. One host thread of the script holds the baton at a time, and only this
//! thread runs.
#![forbid(unsafe_code)]

use crate::device::host::engine::ids::Points;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The number of this thread's script, and the number of the thread in the script.
    static SCRIPT: Cell<Option<(u64, u32)>> = const { Cell::new(None) };
    /// The number of this thread in the process.
    static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// The host threads of a script, numbered from 1. The number 0 stands for every other thread.
#[derive(Debug, Default)]
pub(in crate::device::host) struct Baton {
    /// The number of the script in the process; 0 if no script runs.
    pub(super) script: u64,
    /// The number of the thread that may run; 0 before the first thread is chosen, and after the
    /// end of the script.
    pub(super) holder: u32,
    pub(in crate::device::host) threads: Vec<Scripted>,
    /// The steps that the next step of a host thread comes after. During a script, this is the last
    /// step before the script. After a script, these are the last steps of the threads of the
    /// script.
    pub(super) follows: SmallVec<[u32; 4]>,
    /// The last step of each thread that has ended.
    pub(super) ends: SmallVec<[u32; 4]>,
}

/// A thread of a script.
#[derive(Debug, Default, Clone)]
pub(in crate::device::host) struct Scripted {
    pub(in crate::device::host) finished: bool,
    /// The points that the thread waits for.
    pub(super) waits: Points,
}

impl Baton {
    pub(in crate::device::host) fn has_script(&self) -> bool {
        self.script != 0
    }

    /// The number of the calling thread in the script of this driver; 0 for a thread that is not in
    /// this script.
    pub(super) fn caller(&self) -> u32 {
        match SCRIPT.get() {
            Some((script, number)) if script == self.script => number,
            _ => 0,
        }
    }

    /// The key of the calling thread's default stream. For a thread of a script, the key is the
    /// same in a repeated run.
    pub(in crate::device::host) fn thread_key(&self) -> u64 {
        match self.caller() {
            0 => NUMBER.with(|number| *number) << 16,
            number => u64::from(number),
        }
    }
}

/// Whether the calling thread belongs to a script.
pub(super) fn is_scripted() -> bool {
    SCRIPT.get().is_some()
}

/// Makes the calling thread the thread with this number in a script.
pub(super) fn join_script(script: u64, number: u32) {
    SCRIPT.set(Some((script, number)));
}
