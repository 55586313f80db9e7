//! The thread vector: the work that the calling host thread knows to be complete, for each domain.
//!
//! Synchronizations, successful queries, ticket waits and futures of this thread raise the vector.
//! Law A11 is the reason for a vector per thread: a wait of the host orders the calling thread
//! only. Work that the thread enqueues later follows all work in the vector (law A2), so it needs
//! no wait for that work.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use crate::base::vector_clock::VectorClock;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of domains that a thread remembers. If a thread forgets a domain, the only effect
/// is that it makes needless waits.
const DOMAINS_MAX: usize = 16;

thread_local! {
    /// A number that identifies the current content of this thread's vectors. Each new content gets
    /// a new number, and 0 means that the thread knows nothing.
    static VERSION: Cell<u64> = const { Cell::new(0) };
    static KNOWN: RefCell<Vec<(u64, VectorClock)>> = const { RefCell::new(Vec::new()) };
    /// The version, the domain and the known positions of this thread's last entry. These values
    /// are kept because the next entry usually has the same positions.
    static WRITTEN: RefCell<(u64, u64, Known)> = const { RefCell::new((0, 0, None)) };
    static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// The positions that a thread knows to be complete. Entries of the thread share the list. `None`
/// if there are no such positions.
pub(crate) type Known = Option<Arc<[Position]>>;

/// The positions of `domain` that the calling thread knows to be complete, for entries of a ledger.
pub(crate) fn written(domain: u64) -> Known {
    let version = version();
    if version == 0 {
        return None;
    }
    let read = |known: &VectorClock| -> Known {
        let positions: Arc<[Position]> = known.positions().collect();
        (!positions.is_empty()).then_some(positions)
    };
    let written = WRITTEN.try_with(|written| {
        let mut written = written.borrow_mut();
        if (written.0, written.1) != (version, domain) {
            *written = (version, domain, with_known(domain, read));
        }
        written.2.clone()
    });
    written.unwrap_or_else(|_| with_known(domain, read))
}

/// The number of the calling thread in ledgers.
pub(crate) fn number() -> u64 {
    NUMBER.with(|number| *number)
}

/// A number that changes whenever the calling thread learns that work is complete.
#[inline]
pub(crate) fn version() -> u64 {
    VERSION.get()
}

/// Calls `look` with the positions of `domain` that the calling thread knows to be complete.
pub(crate) fn with_known<R>(domain: u64, look: impl FnOnce(&VectorClock) -> R) -> R {
    static NOTHING: VectorClock = VectorClock::new();
    let mut look = Some(look);
    let mut once = |known: &VectorClock| look.take().map(|look| look(known));
    // The destructor of another thread-local value may drop a buffer after `KNOWN` was destroyed.
    // The thread then knows nothing.
    let seen = KNOWN.try_with(|all| {
        let all = all.borrow();
        once(all.iter().find(|(id, _)| *id == domain).map_or(&NOTHING, |(_, clock)| clock))
    });
    seen.unwrap_or_else(|_| once(&NOTHING)).expect("a failed `try_with` has not called `look`")
}

/// Adds the positions of `observed` to the positions that the calling thread knows to be complete.
pub(crate) fn learn(domain: u64, observed: &VectorClock) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    VERSION.set(NEXT.fetch_add(1, Ordering::Relaxed));
    // A thread that is ending needs no knowledge.
    KNOWN
        .try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some((_, clock)) = all.iter_mut().find(|(id, _)| *id == domain) {
                clock.join(observed);
                return;
            }
            if all.len() == DOMAINS_MAX {
                all.remove(0);
            }
            all.push((domain, observed.clone()));
        })
        .unwrap_or(());
}
