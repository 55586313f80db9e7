//! The memory of the host that a run may use, and what a plan needs of it.
#![forbid(unsafe_code)]

use super::builder::{Input, Output};
use super::plan::Plan;
use super::validate::Job;
use crate::base::units::Bytes;

/// What the trace of an operation of a chunk takes: upload, a kernel and download, with their waits,
/// records and the accesses of the host, were measured as 11.5 KiB together.
const TRACED_OPERATION: Bytes = Bytes(4 << 10);

/// The page-locked memory of a plan, and the memory of its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) pinned: Bytes,
    pub(super) trace: Bytes,
}

impl Need {
    pub(super) fn of(job: &Job<'_>, plan: &Plan) -> Self {
        let stages = &job.stages;
        // One more than there are slots: the host fills one while the others are in flight.
        let buffers = plan.slots() as u64 + 1;
        let all = |rows: u64, row_bytes| rows.saturating_mul(row_bytes).saturating_mul(buffers);
        let read = match job.input {
            Input::Source(_) => all(plan.input_rows_max(), stages.row_in()),
            Input::Pinned { .. } => 0,
        };
        let written = match job.output {
            Output::Sink(_) => all(plan.rows_max(), stages.row_out()),
            Output::Pinned { .. } => 0,
        };
        // Upload, a kernel for each stage, download.
        let operations = plan.chunks.len() as u64 * (stages.stages.len() as u64 + 2);
        Self {
            pinned: Bytes(read.saturating_add(written)),
            trace: Bytes(operations.saturating_mul(TRACED_OPERATION.0)),
        }
    }

    /// Whether the page-locked memory alone is within a limit.
    pub(super) fn fits(self, limit: Bytes) -> bool {
        self.pinned <= limit
    }

    /// Whether the trace fits into what the page-locked memory leaves of a limit.
    pub(super) fn leaves_a_trace(self, limit: Bytes) -> bool {
        self.pinned.0.saturating_add(self.trace.0) <= limit.0
    }
}
