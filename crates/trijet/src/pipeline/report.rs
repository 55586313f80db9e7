//! The report of a run: the bound, the elapsed time compared with the bound, and the work of each
//! engine.
#![forbid(unsafe_code)]

pub(super) mod advice;
mod brief;
pub(super) mod memory;
mod page;

use super::plan::Plan;
use super::plan::calibrate::{Calibration, Copies};
use super::plan::limits::{CopyTimes, Limits, needs};
use super::plan::schedule::Schedule;
use crate::base::dag::{Dag, Kernels};
use crate::base::ledger::{Engine, Op, Site, Times};
use crate::base::times::TimeSource;
use crate::base::units::{Bytes, Nanos, count, rate};
use crate::check::lint::lints_beside_host;
use crate::check::{CheckOptions, Severity, Verdict, check_with};
use crate::device::driver::{Clock, DeviceInfo};
use crate::log::Trace;
use crate::order::domain::OrderingCounts;
use crate::trace::file::About;
use crate::trace::host_engines::{HostEngine, HostWorked};
use crate::trace::limit::Limit;
use crate::trace::metrics::{CopyEngines, Metrics, Parameters, achieved_overlap, measure};
use crate::trace::queued::{held_by_events, queued};
use crate::trace::summary::{Audience, Settings, Summary, TimeKind, summarize};
use memory::MemoryUse;
use std::ops::Range;
use std::{fmt, mem};

/// The engines of a pipeline, in the order in which a chunk uses them.
const ENGINES: [(Engine, &str); 3] =
    [(Engine::Upload, "upload"), (Engine::Compute, "compute"), (Engine::Download, "download")];

/// The measurements of a run.
pub(super) struct Measured {
    pub(super) trace: Trace,
    /// Start and end of the run on the clock of the trace; `None` if the run was not traced.
    pub(super) window: Option<Range<u64>>,
    pub(super) elapsed: Nanos,
    pub(super) wall: Option<Nanos>,
    pub(super) host: Vec<HostWorked>,
    pub(super) ordering: (OrderingCounts, OrderingCounts),
    pub(super) cold: Cold,
    pub(super) bytes_in: Bytes,
    pub(super) bytes_out: Bytes,
    pub(super) rows: u64,
    pub(super) in_place: bool,
    /// True if the run was not traced because its trace would have been too large.
    pub(super) without_trace: bool,
    pub(super) audience: Audience,
    /// The findings of a checker that runs with the program. The findings concern all streams of
    /// the device's driver. `None` without a checker.
    pub(super) found: Option<Verdict>,
}

/// The time before the first chunk, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Cold {
    /// The time to allocate slots and page-locked memory, and to load kernels.
    pub setup: Nanos,
}

/// The work of one engine in a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EngineReport {
    /// The name of the engine: `upload`, `compute`, `download`, or `reader`, `writer` and `sync`
    /// for the host.
    pub name: &'static str,
    /// The time in which the engine was busy: the union of the times of its operations.
    pub busy: Nanos,
    /// The time that the work of the engine takes alone; `None` if only the busy time is known.
    pub isolated: Option<Nanos>,
    /// The observed time divided by the isolated time. If the quotient is above 1, other work
    /// slowed the engine down.
    pub contention: Option<f64>,
}

impl EngineReport {
    /// W_e: the isolated time if it is known, otherwise the observed busy time.
    #[must_use]
    pub fn work(&self) -> Nanos {
        self.isolated.unwrap_or(self.busy)
    }

    pub(super) fn of_the_host(&self) -> bool {
        HostEngine::ALL.iter().any(|engine| engine.name() == self.name)
    }
}

/// Times of work that were measured while no other engine worked.
#[derive(Debug, Clone, Default)]
struct Alone {
    link: Option<Calibration>,
    /// The time of all kernels of the run.
    kernels: Option<Nanos>,
}

fn length(op: &Op) -> u64 {
    op.times.map_or(0, |times| times.end.0 - times.begin.0)
}

impl Alone {
    /// The time that an operation of a run takes alone, if it is known. All kernels of the run
    /// together were busy for `computed` nanoseconds. `serial` means that the run had one stream.
    /// Then nothing overlapped, so each operation was measured alone.
    fn time(&self, op: &Op, computed: u64, serial: bool) -> Option<Nanos> {
        let copy = Copies { count: 1, bytes: Bytes(op.bytes) };
        match op.engine {
            Engine::Compute if let Some(all) = self.kernels => {
                let share = length(op) as f64 / computed.max(1) as f64;
                Some(Nanos::from_seconds(all.seconds() * share))
            }
            _ if serial => Some(Nanos(length(op))),
            Engine::Upload => self.link.as_ref().map(|link| link.uploads_alone(copy)),
            Engine::Download => self.link.as_ref().map(|link| link.downloads_alone(copy)),
            _ => None,
        }
    }
}

/// The report of a run: its work, and its elapsed time compared with the bound. `Display` prints a
/// short table.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The device's name.
    pub device: String,
    about: About,
    /// The kind of the device's clock.
    pub clock: Clock,
    hardware_queues: Option<u32>,
    /// The source of the times of operations.
    pub times: TimeSource,
    /// The reason why the times come from pairs of events although another source was requested.
    pub instead: Option<String>,
    /// The number of operations without a time.
    pub untimed: usize,
    /// The plan that the run followed.
    pub plan: Plan,
    /// The number of rows that the run produced.
    pub rows: u64,
    /// Bytes that the first stage reads, including halos. These bytes are uploaded, unless the run
    /// was [in place](Report::in_place).
    pub bytes_in: Bytes,
    /// Bytes of the results. The results are downloaded, unless the run was in place.
    pub bytes_out: Bytes,
    /// Whether the stages used the memory of source and sink without copies: because the device
    /// shares the memory of the host, or because of [`Schedule::InPlace`].
    pub in_place: bool,
    /// T: the time from the start of the run to the end of its last operation, on the device's
    /// clock. The figures of [`Report::summary`] refer to the same time, unless [`Report::timed`]
    /// has set another time.
    pub elapsed: Nanos,
    /// The elapsed time on the host's clock, including reading and writing; `None` if time is
    /// modelled.
    pub wall: Option<Nanos>,
    /// The least time that copies and kernels need. `None` without a calibration. Also `None` if
    /// the kernels were not measured alone and were busy for longer than the copies need, including
    /// the cost of each copy.
    pub bound: Option<Nanos>,
    /// The bound, the bound with the cost of each copy, and the bound with the cost of each copy
    /// and with fill and drain. `None` without a calibration, and for a run in place, which copies
    /// nothing.
    pub limits: Option<Limits>,
    /// The engines of the device and of the host; empty if the run was not traced.
    pub engines: Vec<EngineReport>,
    /// The numbers of waits, event records and over-waits of the run.
    pub ordering: OrderingCounts,
    /// The time before the first chunk.
    pub cold: Cold,
    /// The entries of the trace.
    pub ops: Vec<Op>,
    /// The limit of the run: the part that needs the most time alone, if the critical path agrees.
    /// `None` if the run was not traced. `docs/metrics.md` explains how the limit is chosen if only
    /// busy times are known.
    pub limit: Option<Limit>,
    without_trace: bool,
    pub(super) window: Option<Range<u64>>,
    pub(super) summary: Option<Summary>,
    memory_bytes_per_s: Option<u64>,
    memory_use: Option<MemoryUse>,
    pub(super) found: Option<Verdict>,
    alone: Alone,
    pub(super) audience: Audience,
    host: Vec<HostWorked>,
}

/// The times and sites that operations had before [`settle`](Report::settle) replaced them.
struct OwnFields {
    times: Vec<Option<Times>>,
    sites: Vec<Option<Site>>,
}

impl OwnFields {
    fn restore(self, ops: &mut [Op]) {
        ops.iter_mut().zip(self.times).for_each(|(op, times)| op.times = times);
        ops.iter_mut().zip(self.sites).for_each(|(op, site)| op.site = site);
    }
}

/// The report on one engine of the device.
fn part(metrics: &Metrics, role: Engine, name: &'static str) -> EngineReport {
    let found = metrics.engines.iter().find(|engine| engine.engine.1 == role);
    EngineReport {
        name,
        busy: found.map_or(Nanos(0), |engine| engine.busy),
        isolated: found.filter(|engine| engine.isolated).map(|engine| engine.work),
        contention: found.and_then(|engine| engine.contention),
    }
}

/// The number of findings that are errors.
fn hazards(found: &Verdict) -> usize {
    let errors = found.findings.iter().filter(|f| f.class.severity() == Severity::Error);
    errors.count() + usize::try_from(found.more).unwrap_or(usize::MAX)
}

impl Report {
    /// The header of a file with the run's trace, for [`crate::trace::file::Writer`].
    #[must_use]
    pub fn about(&self, program: &str) -> About {
        About { program: program.to_owned(), ..self.about.clone() }
    }

    pub(super) fn new(
        info: &DeviceInfo,
        plan: Plan,
        measured: Measured,
        calibration: Option<&Calibration>,
    ) -> Self {
        let (before, after) = measured.ordering;
        let mut report = Self {
            device: info.name.clone(),
            about: measured.trace.about(""),
            clock: info.clock,
            hardware_queues: measured.trace.hardware_queues,
            times: measured.trace.times,
            instead: measured.trace.instead,
            untimed: measured.trace.untimed,
            plan,
            rows: measured.rows,
            bytes_in: measured.bytes_in,
            bytes_out: measured.bytes_out,
            in_place: measured.in_place,
            without_trace: measured.without_trace,
            elapsed: measured.elapsed,
            wall: measured.wall,
            bound: None,
            limits: None,
            engines: Vec::new(),
            ordering: OrderingCounts {
                waits: after.waits - before.waits,
                records: after.records - before.records,
                over_waits: after.over_waits - before.over_waits,
            },
            cold: measured.cold,
            ops: measured.trace.ops,
            limit: None,
            window: measured.window,
            summary: None,
            memory_bytes_per_s: info.memory_bytes_per_s,
            memory_use: None,
            found: measured.found,
            alone: Alone { link: calibration.cloned(), kernels: None },
            audience: measured.audience,
            host: measured.host,
        };
        for one in &report.host {
            let (name, busy) = (one.engine.name(), one.busy.length());
            report.engines.push(EngineReport { name, busy, isolated: None, contention: None });
        }
        report.judge();
        report
    }

    /// The graph of the dependencies between the operations.
    pub(super) fn dag(&self) -> Dag {
        // A modelled kernel uses the whole device. On a GPU several kernels may run at once.
        let one = self.clock == Clock::Model;
        let kernels = if one { Kernels::OneAtATime } else { Kernels::Several };
        Dag::with_times(&self.ops, kernels, self.times)
    }

    /// A copy of the operations with the times at which the engines worked, as far as these times
    /// are known. The sites of the enqueue calls are left out for the user of a command, who cannot
    /// change the program.
    pub(super) fn settled(&self, dag: &Dag) -> Vec<Op> {
        let mut ops = self.ops.clone();
        self.settle(&mut ops, dag);
        ops
    }

    /// Replaces the times and sites of operations as [`settled`](Self::settled) does. Returns the
    /// old times and sites.
    fn settle(&self, ops: &mut [Op], dag: &Dag) -> OwnFields {
        let times = dag.settle_in_place(ops);
        let sites = if self.audience == Audience::User {
            ops.iter_mut().map(|op| op.site.take()).collect()
        } else {
            Vec::new()
        };
        OwnFields { times, sites }
    }

    /// Computes the figures that follow from the trace and from the isolated work of engines.
    fn judge(&mut self) {
        let link = self.alone.link.as_ref().filter(|_| !self.in_place);
        let copies =
            link.map(|link| CopyTimes::new(link, &self.plan, self.bytes_in, self.bytes_out));
        let Some(window) = self.window.clone() else {
            self.limits = copies.as_ref().map(CopyTimes::limits);
            self.bound = self.limits.map(|limits| limits.bound);
            return;
        };
        let dag = self.dag();
        // The operations are changed in place, because a copy of the operations would double the
        // memory of a long trace.
        let mut ops = mem::take(&mut self.ops);
        let own = self.settle(&mut ops, &dag);
        self.judge_settled(&ops, &dag, window, copies.as_ref());
        own.restore(&mut ops);
        self.ops = ops;
    }

    /// The part of [`judge`](Self::judge) that uses the settled operations of a trace. `dag` is the
    /// graph of these operations.
    fn judge_settled(
        &mut self,
        ops: &[Op],
        dag: &Dag,
        window: Range<u64>,
        copies: Option<&CopyTimes>,
    ) {
        let computed = ops.iter().filter(|op| op.engine == Engine::Compute).map(length).sum();
        let serial = self.plan.schedule == Schedule::OneStream;
        let times_alone = self.alone.clone();
        let alone = |op: &Op| times_alone.time(op, computed, serial);
        let copy_engines = match self.clock {
            Clock::Processor => CopyEngines::Processors,
            Clock::Device | Clock::Model => CopyEngines::default(),
        };
        let given = Parameters { isolated: &alone, copy_engines, ..Parameters::default() };
        let metrics = measure(ops, dag, Some(window.clone()), &given);
        let host = self.engines.iter().filter(|engine| engine.of_the_host()).cloned();
        let engines = ENGINES.iter().map(|(role, name)| part(&metrics, *role, name));
        self.engines = engines.chain(host).collect();
        self.limits = copies.map(|copies| self.limits_of(copies));
        let complete = self.limits.filter(|limits| !limits.of_copies_only);
        self.bound = complete.map(|limits| limits.bound);
        let need = needs(&metrics, copies, |engine| self.busy(engine.name()));
        let settings = Settings {
            window: Some(window.clone()),
            time_kind: if self.clock == Clock::Model {
                TimeKind::Modelled
            } else {
                TimeKind::Measured
            },
            parameters: Parameters {
                bound: self.bound,
                finite: complete.map(|limits| limits.with_ends),
                ..given
            },
            clock_error: Nanos(self.about.clock_error_ns),
            audience: self.audience,
            need,
            host: self.host.clone(),
            link: copies.map(CopyTimes::both),
            times: self.times,
            hazards: self.found.as_ref().map(hazards),
            ..Settings::default()
        };
        let waited: u64 = self.host.iter().map(|one| one.waited_for.length().0).sum();
        let lints = lints_beside_host(ops, dag, self.hardware_queues, Nanos(waited));
        let summary = summarize(ops, dag, &settings, lints);
        self.limit = summary.limit;
        self.memory_use = self
            .memory_bytes_per_s
            .and_then(|limit| MemoryUse::of(ops, dag, &window, self.clock, limit));
        self.summary = Some(summary);
    }

    /// The time in which an engine was busy.
    fn busy(&self, name: &str) -> Nanos {
        self.engine(name).map_or(Nanos(0), |engine| engine.busy)
    }

    /// The limits of a run with these copies and with the kernels of the report.
    fn limits_of(&self, copies: &CopyTimes) -> Limits {
        let alone = self.engine("compute").and_then(|kernels| kernels.isolated);
        copies.limits_with(alone, self.busy("compute"))
    }

    /// Sets the time that the kernels take alone, as measured in a run of one stream. Computes the
    /// bound and all figures again.
    #[must_use]
    pub fn with_kernels_alone(mut self, kernels: Nanos) -> Self {
        self.alone.kernels = Some(kernels);
        self.judge();
        self
    }

    /// Checks the trace for hazards between the accesses of the run's operations. Use this only for
    /// runs between page-locked buffers. The trace of a pipeline has no accesses of host threads.
    /// So the trace does not show that the run waits for a source or a sink.
    #[must_use]
    pub fn checked(mut self) -> Self {
        let options = CheckOptions::new().names(self.names());
        self.found = Some(check_with(&self.ops, options));
        self.judge();
        self
    }

    /// The result of the checker; `None` if no checker ran.
    #[must_use]
    pub fn found(&self) -> Option<&Verdict> {
        self.found.as_ref()
    }

    /// Sets the elapsed time of the same run without a trace, because tracing itself takes time.
    /// Elapsed time, efficiency and overlap then refer to `elapsed`. The summary still refers to
    /// the traced run.
    #[must_use]
    pub fn timed(mut self, elapsed: Nanos) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// The figures of the traced run; `None` if the run was not traced.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// The device memory that the kernels of the traced run use. `None` if the run was not traced,
    /// if the rate of the device memory is unknown, or if no kernel declares device memory.
    ///
    /// ```
    /// use trijet::pipeline::Schedule;
    /// use trijet::sim::{Executor, HostConfig, Order};
    /// use trijet::testing::WORK;
    /// use trijet::{Bytes, Device, Pipeline};
    /// let executor = Executor::Virtual(Order::Greedy);
    /// let device = &Device::host(HostConfig::new().executor(executor))?[0];
    /// let x = device.pinned::<u32>(1 << 20)?;
    /// let mut y = device.pinned::<u32>(1 << 20)?;
    /// let report = Pipeline::on(device)
    ///     .pinned_source(&x, 1)
    ///     .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (1, x, y)))
    ///     .pinned_sink(&mut y)
    ///     .schedule(Schedule::RoleStreams)
    ///     .run()?;
    /// let used = report.memory_use().expect("the model has a rate");
    /// // The kernel reads 4 MiB and writes 4 MiB.
    /// assert_eq!(used.bytes, Bytes(8 << 20));
    /// assert!(used.share() < 1.0);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn memory_use(&self) -> Option<MemoryUse> {
        self.memory_use
    }

    /// The number of chunks, the size of a full chunk, and the origin of the size, in words.
    pub(super) fn chunks(&self) -> String {
        let plan = &self.plan;
        let row = self.bytes_in.0 / plan.rows_in().max(1);
        let size = Bytes(plan.chunk_rows.min(plan.rows_max()).saturating_mul(row));
        format!("{} of {size} ({})", plan.chunks.len(), plan.chunk_choice.words())
    }

    /// The report on the engine with this name.
    #[must_use]
    pub fn engine(&self, name: &str) -> Option<&EngineReport> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    /// The bound divided by the elapsed time: 1 is perfect.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        let bound = self.bound?;
        (self.elapsed.0 > 0).then(|| bound.0 as f64 / self.elapsed.0 as f64)
    }

    /// The achieved overlap: 0 for a serial run, 1 for a perfect run. `None` if nothing can
    /// overlap, for example with one chunk or with a single working engine.
    #[must_use]
    pub fn overlap(&self) -> Option<f64> {
        let work = ENGINES.iter().map(|(_, name)| self.engine(name).map(|e| e.work().0));
        let work = Nanos(work.sum::<Option<u64>>()?);
        let metrics = &self.summary.as_ref()?.metrics;
        metrics.overlap?;
        achieved_overlap(work, self.elapsed, metrics.bound)
    }

    /// A phrase that names the source of the times of operations.
    #[must_use]
    pub fn clock_words(&self) -> &'static str {
        match (self.clock, self.times) {
            (Clock::Device, TimeSource::Activity) => {
                "times from CUPTI: each operation from its start to its end on the engine"
            }
            (Clock::Device, _) => {
                "times from event pairs: from when an operation is ready to its end"
            }
            (Clock::Processor, _) => "times from this machine's processor",
            (Clock::Model, _) => "times from a model of an H200; the bytes are real",
        }
    }

    /// Warnings about the times of operations, each as a sentence. There is a warning in each of
    /// these cases: the times of an engine include queueing of operations of several streams; pairs
    /// of events are on more streams than there are hardware queues; operations have no time; the
    /// times do not come from the requested source; the trace was left out because of its size.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut words: Vec<_> = self
            .instead
            .iter()
            .map(|why| format!("these times do not come from CUPTI: {why}"))
            .collect();
        if self.times == TimeSource::EventPairs {
            words.extend(queued(&self.ops).iter().map(ToString::to_string));
        }
        if let (Some(queues), true) = (self.hardware_queues, self.times.is_of_events()) {
            words.extend(held_by_events(&self.ops, queues).iter().map(ToString::to_string));
        }
        if self.without_trace {
            words.push(
                "the trace of this many chunks exceeds the memory that the run may use".into(),
            );
        }
        if self.untimed > 0 {
            words.push(format!("{} operations have no time", self.untimed));
        }
        words
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(f, "{}: {}", self.device, self.clock_words())?;
        writeln!(
            f,
            "{} in, {} out; {}{}; chunks: {}; slots: {}",
            self.bytes_in,
            self.bytes_out,
            plan.schedule_name(),
            if self.in_place && plan.schedule != Schedule::InPlace { ", in place" } else { "" },
            self.chunks(),
            plan.slots()
        )?;
        write!(f, "elapsed {} ({} in)", self.elapsed, rate(self.bytes_in, self.elapsed))?;
        if let Some(limits) = self.limits {
            write!(f, "\n{}", limits.compared(self.elapsed))?;
        }
        writeln!(f)?;
        self.summary.iter().try_for_each(|summary| write!(f, "{summary}"))?;
        if let Some(used) = self.memory_use {
            writeln!(f, "{used}")?;
        }
        for one in self.advice() {
            writeln!(f, "to do: {one}")?;
        }
        write!(f, "cold: {} before the first chunk", self.cold.setup)?;
        if let Some(wall) = self.wall {
            write!(f, "; {wall} by the host's clock in all")?;
        }
        let o = self.ordering;
        write!(
            f,
            "\nordering: {}, {}, {}",
            count(o.waits, "wait"),
            count(o.records, "record"),
            count(o.over_waits, "over-wait")
        )?;
        self.warnings().iter().try_for_each(|warning| write!(f, "\ntimes: {warning}"))
    }
}
