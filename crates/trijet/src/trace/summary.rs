//! Everything that a report, or a page, shows of a run: plain fields, and a text of about 20 lines.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, by_engine};
use crate::base::ledger::Op;
use crate::base::lint::Lint;
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::bubble::{Cause, Dependency, Gap, by_cause, gaps};
use crate::trace::critical::{Category, Critical, critical, engine_name, slack};
use crate::trace::file::TimeSource;
use crate::trace::metrics::{EngineMetrics, EngineOf, Given, Metrics, measure};
use crate::trace::queued::{Queued, queued};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Losses that are listed.
const LOSSES_MAX: usize = 3;
/// Operations that a loss names: those after its longest gaps.
const OPS_MAX: usize = 5;
/// Contention below this is noise of the measurement.
const CONTENTION_MIN: f64 = 1.05;

/// What a summary is made with.
#[derive(Debug, Clone, Default)]
pub struct Settings<'a> {
    /// What to look at; by default from the first operation of a device to the last.
    pub window: Option<Range<u64>>,
    /// The least time that the machine allows, measured; by default T_lb of the records.
    pub bound: Option<Nanos>,
    /// Where the times come from; by default nobody said.
    pub times: TimeSource,
    /// The latency of a launch on an idle stream.
    pub latency: Nanos,
    /// Copy engines, chunks, isolated durations.
    pub given: Given<'a>,
    /// Hazards that the checker found; `None` when it did not run.
    pub hazards: Option<usize>,
}

/// One engine.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSummary {
    /// Its figures.
    pub metrics: EngineMetrics,
    /// The share of the window in which it worked.
    pub share: f64,
    /// While it worked and no other engine did.
    pub exposed: Nanos,
    /// Its idle time by cause; with the busy time, the whole window.
    pub idle: BTreeMap<Cause, Nanos>,
}

/// Time that the limiting engine lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: Cause,
    /// How much.
    pub time: Nanos,
    /// What to do about it.
    pub fix: &'static str,
    /// The records that came late, longest gap first.
    pub ops: Vec<usize>,
}

/// What a run was like.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The figures of the window; its bound is that of the records.
    pub metrics: Metrics,
    /// The bound that the run is judged by: the one given, else that of the records.
    pub bound: Nanos,
    /// Whether it was given.
    pub bound_given: bool,
    /// The bound over the elapsed time; `None` for an empty window.
    pub efficiency: Option<f64>,
    /// Each engine that worked.
    pub engines: Vec<EngineSummary>,
    /// What the limiting engine lost, most first.
    pub losses: Vec<Loss>,
    /// The critical path.
    pub critical: Critical,
    /// By how much each operation could have ended later.
    pub slack: Vec<Option<Nanos>>,
    /// Every gap of every engine, for a timeline.
    pub gaps: Vec<Gap>,
    /// Remarks about performance, most to save first.
    pub lints: Vec<Lint>,
    /// Hazards that the checker found; `None` when it did not run.
    pub hazards: Option<usize>,
    /// Engines for which operations of several streams queued, when the times are from pairs of
    /// events, which count the queueing as work.
    pub queued: Vec<Queued>,
    /// Edges that the clocks contradict: above 0, times of several devices or threads disagree.
    pub contradictions: usize,
}

/// What to do about a cause.
#[must_use]
pub fn fix(cause: Cause) -> &'static str {
    match cause {
        Cause::Fill | Cause::Drain => "use smaller chunks, at least first and last",
        Cause::HostLate(Category::Sync) => "wait for less, or later: one event per slot",
        Cause::HostLate(Category::Alloc) => "allocate before, or from a pool",
        Cause::HostLate(Category::Copy) => "copy asynchronously from page-locked memory",
        Cause::HostLate(Category::Load) => "load kernels before",
        Cause::HostLate(_) => "enqueue earlier, or less: a batch, a graph, another thread",
        Cause::Dependency(Dependency::Legacy) => "use non-blocking streams",
        Cause::Dependency(Dependency::Alloc) => "allocate before the loop",
        Cause::Dependency(_) => "use more slots, or a stream per engine",
        Cause::Launch => "launch less often: a graph, or larger chunks",
        Cause::Resource => "nothing: the hardware was busy",
        Cause::Unknown => "record the calls that are missing",
    }
}

fn losses(gaps: &[Gap], engine: EngineOf) -> Vec<Loss> {
    let mut by: BTreeMap<Cause, (u64, Vec<(u64, usize)>)> = BTreeMap::new();
    for gap in gaps.iter().filter(|gap| gap.engine == engine) {
        for (cause, part) in &gap.parts {
            let entry = by.entry(*cause).or_insert((0, Vec::new()));
            entry.0 += part.0;
            entry.1.extend(gap.op.map(|op| (part.0, op)));
        }
    }
    let mut losses: Vec<Loss> = by
        .into_iter()
        .map(|(cause, (time, mut ops))| {
            ops.sort_by_key(|(part, op)| (std::cmp::Reverse(*part), *op));
            let ops = ops.into_iter().take(OPS_MAX).map(|(_, op)| op).collect();
            Loss { cause, time: Nanos(time), fix: fix(cause), ops }
        })
        .collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.time));
    losses.truncate(LOSSES_MAX);
    losses
}

/// The summary of a run.
///
/// ```
/// use trijet::base::dag::{Dag, Kernels};
/// use trijet::trace::summary::{Settings, summarize};
/// let dag = Dag::new(&[], Kernels::Several);
/// let summary = summarize(&[], &dag, &Settings { hazards: Some(0), ..Settings::default() }, vec![]);
/// assert!(summary.to_string().starts_with("nothing measured; 0 hazards, 0 warnings"));
/// ```
#[must_use]
pub fn summarize(ops: &[Op], dag: &Dag, settings: &Settings<'_>, mut lints: Vec<Lint>) -> Summary {
    let metrics = measure(ops, dag, settings.window.clone(), &settings.given);
    let window = metrics.window.clone();
    let copy_engines = settings.given.copy_engines;
    let gaps = gaps(ops, dag, window.clone(), settings.latency, copy_engines);
    let busy: BTreeMap<EngineOf, Union> = by_engine(ops, dag)
        .into_iter()
        .map(|(engine, list)| {
            let spans = Union::of(list.iter().filter_map(|op| dag.work(*op)));
            (engine, spans.and(&Union::of([window.clone()])))
        })
        .collect();
    let engines = metrics.engines.iter().map(|engine| {
        let others = busy.iter().filter(|(name, _)| **name != engine.engine);
        let others = Union::all(others.map(|(_, union)| union));
        EngineSummary {
            share: metrics.busy_share(engine.engine),
            exposed: busy.get(&engine.engine).map_or(Nanos(0), |u| u.minus(&others).length()),
            idle: by_cause(&gaps, engine.engine),
            metrics: engine.clone(),
        }
    });
    let engines = engines.collect();
    let bound = settings.bound.unwrap_or(metrics.bound);
    let elapsed = metrics.elapsed();
    lints.sort_by_key(|lint| std::cmp::Reverse(lint.saved));
    Summary {
        bound,
        bound_given: settings.bound.is_some(),
        efficiency: (elapsed.0 > 0).then(|| bound.0 as f64 / elapsed.0 as f64),
        engines,
        losses: metrics.limiting.map_or_else(Vec::new, |engine| losses(&gaps, engine)),
        critical: critical(ops, dag, window, settings.latency),
        slack: slack(ops, dag),
        gaps,
        lints,
        hazards: settings.hazards,
        queued: if settings.times == TimeSource::EventPairs { queued(ops) } else { Vec::new() },
        contradictions: dag.contradictions(),
        metrics,
    }
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

impl Summary {
    /// The first line: what was measured against what bound, and what was found.
    #[must_use]
    pub fn verdict(&self) -> String {
        let mut text = match (self.efficiency, self.metrics.limiting) {
            (Some(efficiency), Some((_, engine))) => format!(
                "{} measured, bound {} ({}), efficiency {:.0} %",
                self.metrics.elapsed(),
                self.bound,
                engine_name(engine),
                efficiency * 100.0
            ),
            _ => "nothing measured".to_owned(),
        };
        let warnings = count(self.lints.len(), "warning");
        text += &match self.hazards {
            Some(hazards) => format!("; {}, {warnings}", count(hazards, "hazard")),
            None => format!("; not checked for hazards, {warnings}"),
        };
        text
    }

    fn engine_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.engines.iter().any(|e| e.metrics.engine.0.0 > 0);
        for engine in &self.engines {
            let EngineMetrics { engine: (device, role), busy, work, isolated, contention, .. } =
                &engine.metrics;
            let name = engine_name(*role);
            let name = if several { format!("{name} {}", device.0) } else { name.to_owned() };
            let share = engine.share * 100.0;
            write!(f, "{name:>15} busy {busy:>9} ({share:>5.1} %)")?;
            let alone = if *isolated { "alone" } else { "observed" };
            write!(f, "  work {work:>9} {alone:<8}  exposed {:>9}", engine.exposed)?;
            if let Some(contention) = contention.filter(|c| *c > CONTENTION_MIN) {
                write!(f, "  contention {contention:.2}")?;
            }
            let limits = self.metrics.limiting == Some(engine.metrics.engine);
            writeln!(f, "{}", if limits { "  <- limits" } else { "" })?;
        }
        Ok(())
    }

    fn figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.metrics;
        write!(f, "{} {}: ", m.chunks, if m.chunks == 1 { "chunk" } else { "chunks" })?;
        write!(f, "{} at best with fill and drain", m.finite)?;
        if let Some(efficiency) = m.finite_efficiency {
            write!(f, " ({:.0} %)", efficiency * 100.0)?;
        }
        if let Some(overlap) = m.overlap {
            write!(f, "; overlap {overlap:.2}")?;
        }
        writeln!(f, "; {:.2} engines at once", m.concurrency)?;
        if let Some(hidden) = m.hidden {
            let hidden = hidden * 100.0;
            writeln!(f, "copies exposed for {}, {hidden:.0} % hidden", m.exposed_copy)?;
        }
        Ok(())
    }
}

/// Names of records and places where they were enqueued, for texts.
#[must_use]
pub fn named(ops: &[Op], index: usize) -> String {
    let Some(op) = ops.get(index) else { return format!("#{index}") };
    let site = op.site.as_ref().map_or_else(String::new, |site| format!(" at {site}"));
    format!("#{index} `{}`{site}", op.label)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.verdict())?;
        if self.engines.is_empty() {
            return Ok(());
        }
        self.engine_lines(f)?;
        self.figures(f)?;
        for loss in &self.losses {
            let share = loss.time.0 as f64 / self.metrics.elapsed().0.max(1) as f64 * 100.0;
            let cause = loss.cause.to_string();
            write!(f, "lost {:>9} ({share:>4.1} %) {cause}", loss.time)?;
            if let Some(op) = loss.ops.first() {
                write!(f, ", most before #{op}")?;
            }
            writeln!(f, "; {}", loss.fix)?;
        }
        let mut path: Vec<_> = self.critical.by.iter().collect();
        path.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        let path = path.iter().take(4).map(|(category, time)| format!("{category} {time}"));
        writeln!(f, "critical path: {}", path.collect::<Vec<_>>().join(", "))?;
        for lint in self.lints.iter().take(LOSSES_MAX) {
            writeln!(f, "{lint}")?;
        }
        for queued in &self.queued {
            writeln!(f, "times: {queued}")?;
        }
        if self.contradictions > 0 {
            let edges = count(self.contradictions, "edge");
            writeln!(f, "the clocks contradict {edges}: times of devices or threads disagree")?;
        }
        Ok(())
    }
}
