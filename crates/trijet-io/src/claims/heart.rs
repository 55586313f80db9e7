//! The signs of life of a process: a thread writes the state of the process again and again.

use super::folder::ClaimFolder;
use super::record::{ProcessActivity, ProcessState};
use crate::file_error;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use trijet::Result;

/// The number of signs of life during a lease.
const BEATS: u32 = 6;

/// The signs of life of this process. They end when this value is dropped.
#[derive(Debug)]
pub(super) struct Heart {
    shared: Arc<ShownState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ShownState {
    folder: ClaimFolder,
    begin: Instant,
    state: Mutex<ProcessState>,
    changed: Condvar,
}

impl Heart {
    /// Writes the first sign of life, and starts the thread that writes the others.
    pub(super) fn start(folder: ClaimFolder, lease: Duration) -> Result<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let state = ProcessState {
            host,
            process: std::process::id(),
            activity: ProcessActivity::Waiting,
            rows: Vec::new(),
            rows_done: 0,
            seconds: 0,
            error: None,
            beat: 0,
        };
        let (begin, path) = (Instant::now(), folder.path().to_owned());
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(ShownState { folder, begin, state, changed });
        let io = |error| file_error::io("claim", &path, error);
        shared.show().map_err(io)?;
        let (own, interval) = (Arc::clone(&shared), lease / BEATS);
        let beat = move || own.beat(interval);
        let thread = Builder::new().name("claims".to_owned()).spawn(beat).map_err(io)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The milliseconds since this process began, by its monotonic clock.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.shared.begin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Shows the rows that this process computes. Without rows, it waits for other processes.
    pub(super) fn works_on(&self, rows: &[Range<u64>]) {
        let mut state = self.shared.state();
        state.activity =
            if rows.is_empty() { ProcessActivity::Waiting } else { ProcessActivity::Working };
        state.rows = rows.to_vec();
    }

    /// Shows that rows are done.
    pub(super) fn did(&self, rows: u64) {
        self.shared.state().rows_done += rows;
    }

    /// The number of rows that this process has done.
    pub(super) fn rows_done(&self) -> u64 {
        self.shared.state().rows_done
    }

    /// Waits for `time`, or until the process ends.
    pub(super) fn pause(&self, time: Duration) {
        let state = self.shared.state();
        let over = |state: &mut ProcessState| !state.activity.is_over();
        drop(self.shared.changed.wait_timeout_while(state, time, over));
    }

    /// Shows that this process works no more, so that others take over its ranges at once. An error
    /// of this last sign is ignored, because the claims fall back without it.
    pub(super) fn end(&mut self, error: Option<&str>) {
        let Some(thread) = self.thread.take() else { return };
        let mut state = self.shared.state();
        state.activity =
            if error.is_some() { ProcessActivity::Failed } else { ProcessActivity::Stopped };
        state.error = error.map(str::to_owned);
        state.rows.clear();
        drop(state);
        self.shared.changed.notify_all();
        // The thread panics only if an allocation fails.
        drop(thread.join());
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl ShownState {
    fn state(&self) -> MutexGuard<'_, ProcessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one sign of life.
    fn show(&self) -> std::io::Result<bool> {
        let mut state = self.state();
        state.beat += 1;
        state.seconds = self.begin.elapsed().as_secs();
        let shown = state.clone();
        drop(state);
        self.folder.show(&shown)
    }

    /// Writes signs of life until the process ends. An error is ignored: if no sign is written
    /// during a lease, other processes take over the ranges of this process.
    fn beat(&self, interval: Duration) {
        loop {
            let state = self.state();
            let living = |state: &mut ProcessState| !state.activity.is_over();
            let waited = self.changed.wait_timeout_while(state, interval, living);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let is_over = state.activity.is_over();
            drop(state);
            drop(self.show());
            if is_over {
                return;
            }
        }
    }
}
