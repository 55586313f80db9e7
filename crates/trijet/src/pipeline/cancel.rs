//! Stopping a run from another thread.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a run between two chunks, from any thread. Clones stop the same run.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A run that is not stopped.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the run: what is in flight is finished and written, nothing new begins.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
