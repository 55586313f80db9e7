//! The report that every run gives: what bound it, how close it came, and where the time went.
#![forbid(unsafe_code)]

use super::calibrate::Calibration;
use super::plan::Plan;
use crate::base::ledger::{Engine, Op};
use crate::base::units::{Bytes, Nanos, rate};
use crate::device::driver::{Clock, DeviceInfo};
use crate::stream::{OrderingCounts, Recording};
use crate::trace::file::TimeSource;
use crate::trace::overlap::{Exposed, Union, achieved, busy, exposed, work};
use crate::trace::queued::queued;
use crate::trace::timeline::extent;
use std::fmt;
use std::ops::Range;

/// The engines of a pipeline, in the order in which a chunk meets them.
pub(super) const ENGINES: [(Engine, &str); 3] =
    [(Engine::Upload, "upload"), (Engine::Compute, "compute"), (Engine::Download, "download")];

/// Shorter times make no ratio: event pairs resolve half a microsecond.
const RATIO_MIN: Nanos = Nanos(10_000);

/// What a run measured.
pub(super) struct Measured {
    pub(super) recording: Recording,
    pub(super) elapsed: Nanos,
    pub(super) wall: Option<Nanos>,
    pub(super) read: Option<Vec<Range<u64>>>,
    pub(super) write: Option<Vec<Range<u64>>>,
    pub(super) ordering: (OrderingCounts, OrderingCounts),
    pub(super) cold: Cold,
    pub(super) bytes_in: Bytes,
    pub(super) bytes_out: Bytes,
    pub(super) rows: u64,
}

/// What happened before the first chunk, on the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cold {
    /// Allocating slots and page-locked memory, and loading kernels.
    pub setup: Nanos,
}

/// One engine's part in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// Its name: `upload`, `compute`, `download`, or `read` and `write` for the host.
    pub name: &'static str,
    /// How long it was busy: the union of its operations.
    pub busy: Nanos,
    /// Its work measured alone; `None` where only the busy time is known.
    pub isolated: Option<Nanos>,
}

impl EngineReport {
    /// W_e: the isolated work where it was measured, else the observed busy time.
    #[must_use]
    pub fn work(&self) -> Nanos {
        self.isolated.unwrap_or(self.busy)
    }

    /// Busy time over isolated work: above 1, sharing the machine slowed the engine down.
    #[must_use]
    pub fn contention(&self) -> Option<f64> {
        let isolated = self.isolated?.0;
        (isolated >= RATIO_MIN.0).then(|| self.busy.0 as f64 / isolated as f64)
    }
}

/// What a run did and how close it came to its bound. Prints as a short table.
#[derive(Debug, Clone)]
pub struct Report {
    /// The device's name.
    pub device: String,
    /// Which clock there is.
    pub clock: Clock,
    /// Where the times of the operations come from.
    pub times: TimeSource,
    /// Why they are from pairs of events, where better ones had been asked for.
    pub instead: Option<String>,
    /// Operations without a time.
    pub untimed: usize,
    /// What was run.
    pub plan: Plan,
    /// Rows produced.
    pub rows: u64,
    /// Bytes uploaded, halos included.
    pub bytes_in: Bytes,
    /// Bytes downloaded.
    pub bytes_out: Bytes,
    /// T: from the first operation to the last, on the device's clock.
    pub elapsed: Nanos,
    /// The same on the host's clock, reading and writing included; `None` with a model's clock.
    pub wall: Option<Nanos>,
    /// The least time that copies and kernels allow; `None` without a calibration.
    pub bound: Option<Nanos>,
    /// Each engine's part; empty when the run was not recorded.
    pub engines: Vec<EngineReport>,
    /// Why the limiting engine was idle.
    pub exposed: Exposed,
    /// Waits, records and over-waits of the run.
    pub ordering: OrderingCounts,
    /// What happened before the first chunk.
    pub cold: Cold,
    /// The records, for a timeline.
    pub ops: Vec<Op>,
}

impl Report {
    pub(super) fn new(
        info: &DeviceInfo,
        plan: Plan,
        measured: Measured,
        calibration: Option<&Calibration>,
    ) -> Self {
        let (before, after) = measured.ordering;
        let mut report = Self {
            device: info.name.clone(),
            clock: info.clock,
            times: measured.recording.times,
            instead: measured.recording.instead,
            untimed: measured.recording.untimed,
            plan,
            rows: measured.rows,
            bytes_in: measured.bytes_in,
            bytes_out: measured.bytes_out,
            elapsed: measured.elapsed,
            wall: measured.wall,
            bound: None,
            engines: Vec::new(),
            exposed: Exposed::default(),
            ordering: OrderingCounts {
                waits: after.waits - before.waits,
                records: after.records - before.records,
                over_waits: after.over_waits - before.over_waits,
            },
            cold: measured.cold,
            ops: measured.recording.ops,
        };
        if !report.ops.is_empty() {
            report.fill_engines(calibration);
        }
        for (name, spans) in [("read", measured.read), ("write", measured.write)] {
            let busy = Union::of(spans.into_iter().flatten()).length();
            if busy.0 > 0 {
                report.engines.push(EngineReport { name, busy, isolated: None });
            }
        }
        let copies = calibration.map(|c| c.bound(report.bytes_in, report.bytes_out));
        let kernels = report.engine("compute").map(EngineReport::work);
        report.bound = copies.map(|copies| copies.max(kernels.unwrap_or(Nanos(0))));
        report
    }

    fn fill_engines(&mut self, calibration: Option<&Calibration>) {
        let alone = |bytes: Bytes, time: Nanos, all: Bytes| {
            Nanos::from_seconds(bytes.0 as f64 * time.seconds() / all.0 as f64)
        };
        // In one stream nothing overlaps, so every operation was measured alone.
        let serial = self.plan.schedule == super::plan::Schedule::OneStream;
        for (engine, name) in ENGINES {
            let isolated = match (serial, engine, calibration) {
                (true, ..) => Some(work(&self.ops, engine)),
                (_, Engine::Upload, Some(c)) => Some(alone(self.bytes_in, c.upload, c.bytes)),
                (_, Engine::Download, Some(c)) => Some(alone(self.bytes_out, c.download, c.bytes)),
                _ => None,
            };
            let busy = busy(&self.ops, engine).length();
            self.engines.push(EngineReport { name, busy, isolated });
        }
        let Some((limiting, _)) = self.limiting_engine() else { return };
        let Some(window) = extent(&self.ops) else { return };
        let mine = busy(&self.ops, limiting);
        let others = ENGINES.into_iter().filter(|(engine, _)| *engine != limiting);
        let others = others.flat_map(|(engine, _)| {
            let times = self.ops.iter().filter(move |op| op.engine == engine);
            times.filter_map(|op| op.times).map(|t| t.begin.0..t.end.0)
        });
        self.exposed = exposed(window, &mine, &Union::of(others));
    }

    /// States the isolated work of the kernels, measured in a run of one stream, and the bound
    /// with it.
    #[must_use]
    pub fn with_kernels_alone(mut self, kernels: Nanos, calibration: &Calibration) -> Self {
        for engine in &mut self.engines {
            if engine.name == "compute" {
                engine.isolated = Some(kernels);
            }
        }
        let copies = calibration.bound(self.bytes_in, self.bytes_out);
        self.bound = Some(copies.max(kernels));
        self
    }

    /// The part of an engine, by its name.
    #[must_use]
    pub fn engine(&self, name: &str) -> Option<&EngineReport> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    fn limiting_engine(&self) -> Option<(Engine, &'static str)> {
        ENGINES.into_iter().max_by_key(|(_, name)| self.engine(name).map(|e| e.busy))
    }

    /// The engine that was busy for the longest: more of anything else would not help.
    #[must_use]
    pub fn limiting(&self) -> Option<&EngineReport> {
        self.engines.iter().max_by_key(|engine| engine.busy)
    }

    /// The bound over the elapsed time: 1 is perfect.
    #[must_use]
    pub fn efficiency(&self) -> Option<f64> {
        let bound = self.bound?;
        (self.elapsed.0 > 0).then(|| bound.0 as f64 / self.elapsed.0 as f64)
    }

    /// Achieved overlap: 0 for a serial run, 1 for a perfect one.
    #[must_use]
    pub fn overlap(&self) -> Option<f64> {
        let work = ENGINES.iter().map(|(_, name)| self.engine(name).map(|e| e.work().0));
        achieved(Nanos(work.sum::<Option<u64>>()?), self.elapsed, self.bound?)
    }

    /// Where the times come from, in words.
    #[must_use]
    pub fn clock_words(&self) -> &'static str {
        match (self.clock, self.times) {
            (Clock::Device, TimeSource::Activity) => {
                "times from CUPTI: engine's begin to end of each operation"
            }
            (Clock::Device, _) => "times from event pairs: ready to end of each operation",
            (Clock::Processor, _) => "times from this machine's processor",
            (Clock::Model, _) => "times from a model of an H200; the bytes are real",
        }
    }

    /// What to know before the times are believed: engines for which operations of several streams
    /// queued, where times count the queueing; operations without a time; and why there are no
    /// better times, where those had been asked for.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut words: Vec<_> =
            self.instead.iter().map(|why| format!("not CUPTI: {why}")).collect();
        if self.times == TimeSource::EventPairs {
            words.extend(queued(&self.ops).iter().map(ToString::to_string));
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
            "{} in, {} out; {}, chunks: {}, slots: {}",
            self.bytes_in,
            self.bytes_out,
            plan.schedule.name(),
            plan.chunks.len(),
            plan.depth
        )?;
        write!(f, "elapsed {} ({} in)", self.elapsed, rate(self.bytes_in, self.elapsed))?;
        if let (Some(bound), Some(efficiency)) = (self.bound, self.efficiency()) {
            write!(f, ", bound {bound}, efficiency {efficiency:.3}")?;
        } else {
            write!(f, ", bound not measured")?;
        }
        // Where reading or writing limits, the engines had little to overlap with.
        let device_bound = self.limiting().is_some_and(|e| e.name != "read" && e.name != "write");
        if let Some(overlap) = self.overlap().filter(|_| device_bound) {
            write!(f, ", overlap {overlap:.3}")?;
        }
        writeln!(f)?;
        for engine in &self.engines {
            let share = engine.busy.0 as f64 / self.elapsed.0.max(1) as f64;
            write!(f, "{:>9} busy {:>10} ({:>5.1} %)", engine.name, engine.busy, share * 100.0)?;
            match engine.isolated {
                Some(alone) => write!(f, "  alone {alone:>10}")?,
                None => write!(f, "  alone: not measured")?,
            }
            if let Some(contention) = engine.contention().filter(|c| *c > 1.05) {
                write!(f, "  contention {contention:.2}")?;
            }
            writeln!(f)?;
        }
        if let Some(limiting) = self.limiting() {
            let e = &self.exposed;
            writeln!(
                f,
                "limited by {}; idle: fill {}, drain {}, waiting {}, host {}",
                limiting.name, e.fill, e.drain, e.dependency, e.host
            )?;
        }
        write!(f, "cold: {} before the first chunk", self.cold.setup)?;
        if let Some(wall) = self.wall {
            write!(f, "; {wall} on the host's clock")?;
        }
        let o = self.ordering;
        write!(
            f,
            "\nordering: {} waits, {} records, {} over-waits",
            o.waits, o.records, o.over_waits
        )?;
        self.warnings().iter().try_for_each(|warning| write!(f, "\ntimes: {warning}"))
    }
}
