//! The times of a process that shares a job: its lease, and its pauses while it waits for others.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use trijet::Bytes;

/// How a process takes part in a job.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOptions {
    /// The time without a sign of life after which the ranges of a process fall back to the others.
    pub lease: Duration,
    /// Minimum size of a range in bytes. The first process of a job determines its ranges.
    pub range_min: Bytes,
}

impl Default for ClaimOptions {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), range_min: Bytes(8 << 20) }
    }
}

/// The first pause of a process that waits for others, and the longest one. The longest one is at
/// most a twentieth of a lease.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
pub(super) const PAUSES_PER_LEASE: u32 = 20;

/// The time after which a network file system shows the state that other machines have made. The
/// caches of clients keep an older state for some seconds.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(30);

/// Waits for a pause.
pub(super) fn wait(pause: Duration) {
    let (nothing, never) = (Mutex::new(()), Condvar::new());
    let guard = nothing.lock().unwrap_or_else(PoisonError::into_inner);
    drop(never.wait_timeout(guard, pause));
}
