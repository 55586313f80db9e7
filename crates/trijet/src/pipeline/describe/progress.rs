//! The progress of a run.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::panic::called;
use crate::pipeline::plan::{Chunk, Plan};
use std::sync::{Mutex, PoisonError};

/// The progress of a run, in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of finished rows, including the rows of earlier runs.
    pub rows_done: u64,
    /// The number of all rows.
    pub rows: u64,
}

pub(in crate::pipeline) type OnProgress<'a> = Box<dyn Fn(Progress) + Sync + 'a>;

/// Counts the finished rows of a run, and reports the progress to the user, one report at a time.
pub(in crate::pipeline) struct Tally<'a> {
    rows_done: Mutex<u64>,
    rows: u64,
    report: Option<&'a OnProgress<'a>>,
}

impl<'a> Tally<'a> {
    /// Starts the count with the number of rows that the plan leaves out, because an earlier run
    /// finished these rows.
    pub(in crate::pipeline) fn new(
        plan: &Plan,
        rows: u64,
        report: Option<&'a OnProgress<'a>>,
    ) -> Self {
        let rows_done = Mutex::new(rows.saturating_sub(plan.rows_out()));
        Self { rows_done, rows, report }
    }

    /// Counts the rows of a finished chunk, and reports the progress.
    ///
    /// # Errors
    /// `Panicked` if the report panics.
    pub(in crate::pipeline) fn finished(&self, chunk: &Chunk) -> Result<()> {
        let mut rows_done = self.rows_done.lock().unwrap_or_else(PoisonError::into_inner);
        *rows_done += chunk.rows_out();
        let progress = Progress { rows_done: *rows_done, rows: self.rows };
        self.report.map_or(Ok(()), |report| {
            called("progress", || {
                report(progress);
                Ok(())
            })
        })
    }
}
