//! The clock of the recorder of calls.

use std::sync::OnceLock;
use std::time::Instant;

static STARTED: OnceLock<Instant> = OnceLock::new();

/// Starts the clock.
pub(super) fn start() {
    STARTED.get_or_init(Instant::now);
}

/// The nanoseconds since the start. May be called in a signal handler.
pub(super) fn now() -> u64 {
    let elapsed = STARTED.get().map_or(0, |started| started.elapsed().as_nanos());
    u64::try_from(elapsed).unwrap_or(u64::MAX)
}
