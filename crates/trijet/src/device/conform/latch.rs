//! A latch that makes a stream wait.
#![forbid(unsafe_code)]

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Maximum time for which a stream waits at a latch, and for which an event is polled.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A closed latch. The drop of this value opens the latch.
#[derive(Debug)]
pub(super) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(super) fn closed() -> (Self, impl Fn() + Send + Sync + 'static) {
        let door = Arc::new((Mutex::new(false), Condvar::new()));
        let seen = Arc::clone(&door);
        let wait = move || {
            let (open, changed) = &*seen;
            let open = open.lock().expect("nothing panics under this lock");
            let waited = changed.wait_timeout_while(open, PATIENCE, |open| !*open);
            drop(waited.expect("nothing panics under this lock"));
        };
        (Self(door), wait)
    }
}

impl Drop for Latch {
    fn drop(&mut self) {
        let (open, changed) = &*self.0;
        *open.lock().expect("nothing panics under this lock") = true;
        changed.notify_all();
    }
}
