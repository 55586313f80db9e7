//! Cancellation: a handle that stops a run from any thread.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a run between two chunks, from any thread. Clones stop the same run.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A handle that has not stopped a run yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the run: chunks in flight are finished and written, and no new chunk begins.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Cancel::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
