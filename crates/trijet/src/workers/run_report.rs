//! The report of a run, and the counts of its workers.
#![forbid(unsafe_code)]

use super::end::{self, EndReport};
use super::setup::{COUNTS, SPAN, STATS, Setup};
use super::task::{PAYLOAD, WorkerTask};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Engine, Op, StreamWork, Times};
use crate::base::units::Nanos;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Totals over all workers of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunReport {
    /// The number of tasks that ran.
    pub ran: u64,
    /// The number of tasks that bodies made. In a graph, each node that became ready when its last
    /// predecessor had run counts as such a task.
    pub spawned: u64,
    /// The number of times that workers took a task, or a range of initial tasks, from another
    /// worker.
    pub stolen: u64,
    /// The number of tasks that bodies could not make, because the queues had no room.
    pub refused: u64,
    /// The number of searches in the queues of other workers that found no task.
    pub missed: u64,
    /// The report of each worker, if [`RunOptions::statistics`](super::RunOptions::statistics) is
    /// set.
    pub workers: Vec<WorkerReport>,
    /// The last tasks of each worker, in the order of their start, if
    /// [`RunOptions::trace`](super::RunOptions::trace) is set.
    pub tasks: Vec<TaskSpan>,
}

/// A task that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSpan {
    /// The worker that ran the task.
    pub worker: u32,
    /// The name of the kind of the task.
    pub kind: &'static str,
    /// The kind and the payload of the task.
    pub task: WorkerTask,
    /// The start and the end of the task, on the clock of the device. A host device has no such
    /// clock. There, the first task of a run lasts from nanosecond 0 to 1, the second from 1 to 2,
    /// and so on.
    pub span: Range<Nanos>,
}

/// The counts of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The number of tasks that the worker ran.
    pub ran: u64,
    /// The number of tasks that the bodies of this worker made.
    pub spawned: u64,
    /// The number of times that the worker took a task, or a range of initial tasks, from another
    /// worker.
    pub stolen: u64,
    /// The start and the end of the worker, on the clock of the device. On a host device, both are
    /// 0.
    pub span: Range<Nanos>,
    /// The time that the worker spent in bodies of tasks.
    pub busy: Nanos,
}

/// Describes a task for an error.
pub(super) fn named(task: u64, kinds: &[&str]) -> String {
    let kind = (task >> 56) as usize;
    match kind.checked_sub(1).and_then(|at| kinds.get(at)) {
        Some(kind) => format!("`{kind}` with the payload {:#x}", WorkerTask(task).payload()),
        None => format!(
            "of kind {kind}, which the program lacks, with the payload {:#x}",
            task & PAYLOAD
        ),
    }
}

/// Returns the error of a run whose end report is `report`.
pub(super) fn error(report: &EndReport, setup: &Setup, kinds: &[&str]) -> Error {
    let EndReport { code, worker, task, .. } = *report;
    let failed = |kind, cause| Error::new(kind, "run_workers", cause);
    match code {
        end::ABORTED => failed(ErrorKind::Cancelled, "the program cancelled the run".to_owned()),
        end::FULL => {
            let (queue, ring) = (1_u64 << setup.deque_bits, 1_u64 << setup.ring_bits);
            failed(
                ErrorKind::OutOfMemory,
                format!(
                    "worker {worker} had no room for the task {}; a worker's queue holds {queue} tasks \
                     and the common queue {ring}: raise `queue` or `ring` in `RunOptions`",
                    named(task, kinds)
                ),
            )
        }
        end::HUNG => failed(
            ErrorKind::Stalled,
            format!(
                "worker {worker} ran the task {} for more than {} us while other workers had no task",
                named(task, kinds),
                setup.watchdog_us
            ),
        ),
        end::LOST => failed(
            ErrorKind::Stalled,
            format!(
                "worker {worker} found no task, and no worker ran a task, although tasks are left"
            ),
        ),
        other => failed(
            ErrorKind::Stalled,
            format!("the workers left before all tasks had run (code {other})"),
        ),
    }
}

impl RunReport {
    /// Adds the counts of another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.ran += other.ran;
        self.spawned += other.spawned;
        self.stolen += other.stolen;
        self.refused += other.refused;
        self.missed += other.missed;
        self.workers.extend_from_slice(&other.workers);
        self.tasks.extend_from_slice(&other.tasks);
    }

    /// Makes the report of a run from the end report of the last worker and from the statistics of
    /// all workers. Returns an error for a run that failed.
    pub(super) fn read(
        setup: &Setup,
        kinds: &[&'static str],
        report: &EndReport,
        stats: &[u64],
    ) -> Result<Self> {
        if report.code > end::DRAINED || report.credits != setup.credits() {
            return Err(error(report, setup, kinds));
        }
        let [ran, spawned, stolen, refused, missed] = report.totals;
        let (stats, spans) = stats.split_at(setup.stats_len());
        let workers: Vec<WorkerReport> =
            stats.chunks_exact(STATS).map(WorkerReport::read).collect();
        let spans = (0..).zip(spans.chunks_exact(SPAN * setup.traced.max(1) as usize));
        let of_worker = |((worker, own), counts): ((u32, &[u64]), &WorkerReport)| {
            // If the worker ran fewer tasks than it has slots, the last slots have no times.
            let kept = own.chunks_exact(SPAN).zip(0..counts.ran);
            kept.filter_map(|(words, _)| TaskSpan::read(worker, words, kinds)).collect::<Vec<_>>()
        };
        let mut tasks: Vec<TaskSpan> = spans.zip(&workers).flat_map(of_worker).collect();
        tasks.sort_by_key(|task| (task.span.start, task.worker));
        Ok(Self { ran, spawned, stolen, refused, missed, workers, tasks })
    }

    /// Returns [`RunReport::tasks`] as operations of a trace. Each worker becomes a stream of the
    /// timeline; `first` is the number of the first stream. The first task starts at `begin`, for a
    /// timeline that also has the kernel of the run.
    ///
    /// ```
    /// use trijet::trace::{DeviceId, LaneId, chrome};
    /// use trijet::workers::queens::{self, QUEENS};
    /// use trijet::workers::{RunOptions, Work};
    /// use trijet::{Device, Nanos, Select};
    /// let s = Device::open(Select::Host(0))?.stream()?;
    /// let mut total = s.alloc_zeroed::<u64>(1)?;
    /// let options = RunOptions::new().workers(4).trace(1000);
    /// let root = [queens::root(6)];
    /// let run = s.run_workers(&QUEENS, Work::Tasks(&root), &options, (&mut total, 3u32))?;
    /// let report = run.wait()?;
    /// assert_eq!(report.tasks.len() as u64, report.ran);
    /// let ops = report.ops(DeviceId(0), LaneId(0), Nanos(0));
    /// assert!(chrome::trace(&ops).contains("\"name\": \"place\""));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn ops(&self, device: DeviceId, first: LaneId, begin: Nanos) -> Vec<Op> {
        let zero = self.tasks.first().map_or(0, |task| task.span.start.0);
        let mut sequences = BTreeMap::<u32, u64>::new();
        let op = |TaskSpan { worker, kind, span, .. }: &TaskSpan| {
            let seq = sequences.entry(*worker).or_default();
            *seq += 1;
            let position = Position { lane: LaneId(first.0 + worker), seq: *seq };
            let at = |time: Nanos| Nanos(begin.0 + time.0 - zero);
            let times = Times { begin: at(span.start), end: at(span.end) };
            let op = Op::new(StreamWork::Kernel, Engine::Compute, device, position);
            Op { label: Cow::Borrowed(kind), times: Some(times), ..op }
        };
        self.tasks.iter().map(op).collect()
    }
}

impl TaskSpan {
    fn read(worker: u32, words: &[u64], kinds: &[&'static str]) -> Option<Self> {
        let kind = kinds.get(usize::try_from(words[0] >> 56).ok()?.checked_sub(1)?)?;
        let span = Nanos(words[1])..Nanos(words[2]);
        Some(Self { worker, kind, task: WorkerTask(words[0]), span })
    }
}

impl WorkerReport {
    fn read(words: &[u64]) -> Self {
        let span = Nanos(words[COUNTS])..Nanos(words[COUNTS + 1]);
        let [ran, spawned, stolen] = [words[0], words[1], words[2]];
        Self { ran, spawned, stolen, span, busy: Nanos(words[COUNTS + 2]) }
    }
}
