//! How a run ended, and what its workers counted.
#![forbid(unsafe_code)]

use super::end::{self, Report};
use super::setup::{COUNTS, STATS, Setup};
use super::task::{PAYLOAD, Task};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Nanos;
use std::ops::Range;

/// What all workers of a run counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The tasks that ran.
    pub ran: u64,
    /// The tasks that bodies made, those that a finished node made ready among them.
    pub spawned: u64,
    /// The tasks, or ranges of initial tasks, that workers took from others.
    pub stolen: u64,
    /// The children for which the queues had no room.
    pub refused: u64,
    /// The searches for a task that found none.
    pub missed: u64,
    /// Each worker, if [`Options::statistics`](super::Options::statistics) is set.
    pub workers: Vec<WorkerOutcome>,
}

/// What a worker counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerOutcome {
    /// The tasks that it ran.
    pub ran: u64,
    /// The children that it made.
    pub spawned: u64,
    /// The tasks, or ranges, that it took from others.
    pub stolen: u64,
    /// Its first and its last instant, by the clock of the device. Zero on a host device, whose workers take turns.
    pub span: Range<Nanos>,
    /// The time in bodies of tasks.
    pub busy: Nanos,
}

/// The name of a task for errors.
pub(super) fn named(task: u64, kinds: &[&str]) -> String {
    let kind = (task >> 56) as usize;
    match kind.checked_sub(1).and_then(|at| kinds.get(at)) {
        Some(kind) => format!("`{kind}` with the payload {:#x}", Task(task).payload()),
        None => format!(
            "of kind {kind}, which the program lacks, with the payload {:#x}",
            task & PAYLOAD
        ),
    }
}

/// The error of a run that ended so.
pub(super) fn error(report: &Report, setup: &Setup, kinds: &[&str]) -> Error {
    let Report { code, worker, task, .. } = *report;
    let failed = |kind, cause| Error::new(kind, "run_workers", cause);
    match code {
        end::ABORTED => failed(ErrorKind::Cancelled, "the program cancelled the run".to_owned()),
        end::FULL => {
            let (queue, ring) = (1_u64 << setup.deque_bits, 1_u64 << setup.ring_bits);
            failed(
                ErrorKind::OutOfMemory,
                format!(
                    "worker {worker} had no room for the task {}; a worker's queue holds {queue} and the common one {ring}",
                    named(task, kinds)
                ),
            )
        }
        end::HUNG => failed(
            ErrorKind::Stalled,
            format!(
                "worker {worker} ran the task {} for more than {} us while others had nothing to do",
                named(task, kinds),
                setup.watchdog_us
            ),
        ),
        end::LOST => failed(
            ErrorKind::Stalled,
            format!("worker {worker} found no task, and none ran, although tasks are left"),
        ),
        other => {
            failed(ErrorKind::Stalled, format!("the workers left before the end (code {other})"))
        }
    }
}

impl Outcome {
    /// Adds the counts of another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.ran += other.ran;
        self.spawned += other.spawned;
        self.stolen += other.stolen;
        self.refused += other.refused;
        self.missed += other.missed;
        self.workers.extend_from_slice(&other.workers);
    }

    /// The outcome by the report of the last worker, and the statistics of all.
    pub(super) fn read(
        setup: &Setup,
        kinds: &[&str],
        report: &Report,
        stats: &[u64],
    ) -> Result<Self> {
        if report.code > end::DRAINED || report.credits != setup.credits() {
            return Err(error(report, setup, kinds));
        }
        let [ran, spawned, stolen, refused, missed] = report.totals;
        let workers = stats.chunks_exact(STATS).map(WorkerOutcome::read).collect();
        Ok(Self { ran, spawned, stolen, refused, missed, workers })
    }
}

impl WorkerOutcome {
    fn read(words: &[u64]) -> Self {
        let span = Nanos(words[COUNTS])..Nanos(words[COUNTS + 1]);
        let [ran, spawned, stolen] = [words[0], words[1], words[2]];
        Self { ran, spawned, stolen, span, busy: Nanos(words[COUNTS + 2]) }
    }
}
