//! The progress of a run.
#![forbid(unsafe_code)]

use super::plan::{Chunk, Plan};
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a run, in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows that are finished, those of earlier runs included.
    pub rows_done: u64,
    /// All rows.
    pub rows: u64,
}

pub(super) type OnProgress<'a> = Box<dyn Fn(Progress) + Sync + 'a>;

/// Counts the finished rows of a run, and reports them to its user.
pub(super) struct Tally<'a> {
    rows_done: AtomicU64,
    rows: u64,
    report: Option<&'a OnProgress<'a>>,
}

impl<'a> Tally<'a> {
    /// Starts with the rows that the plan leaves out: an earlier run finished them.
    pub(super) fn new(plan: &Plan, rows: u64, report: Option<&'a OnProgress<'a>>) -> Self {
        let rows_done = AtomicU64::new(rows.saturating_sub(plan.rows_out()));
        Self { rows_done, rows, report }
    }

    pub(super) fn finished(&self, chunk: &Chunk) {
        let rows = chunk.rows_out();
        let rows_done = self.rows_done.fetch_add(rows, Ordering::Relaxed) + rows;
        if let Some(report) = self.report {
            report(Progress { rows_done, rows: self.rows });
        }
    }
}
