//! The summary of a run: all figures that a report or a page shows, and a text of about 20 lines.
#![forbid(unsafe_code)]

pub use crate::base::audience::Audience;

use crate::base::dag::{Dag, by_engine};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op};
use crate::base::lint::{FEWER_LAUNCHES, Lint, Rule};
use crate::base::span::Union;
use crate::base::times::TimeSource;
use crate::base::units::{Nanos, count};
use crate::trace::concurrency::{Concurrency, TracedRun};
use crate::trace::critical::{Category, CriticalPath, critical_path, engine_name, slack};
use crate::trace::exposed::DeviceMetrics;
use crate::trace::gaps::{Cause, Dependency, Gap, by_cause, gaps};
use crate::trace::host_engines::{HostSummary, HostWorked, summaries};
use crate::trace::limit::{Limit, Need, agreed};
use crate::trace::metrics::{DeviceEngine, EngineMetrics, Metrics, Parameters, measure};
use crate::trace::queued::{Queued, queued};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Maximum number of losses that a summary lists.
const LOSSES_MAX: usize = 3;
/// Maximum number of categories of the critical path that the text lists.
const PATH_MAX: usize = 4;
/// Maximum number of operations that a loss names.
const OPS_MAX: usize = 5;
/// Contention up to this value is noise of the measurement.
const CONTENTION_MIN: f64 = 1.05;

/// Whether a clock measured the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeKind {
    /// A clock measured the times.
    #[default]
    Measured,
    /// A model computed the times.
    Modelled,
}

/// The settings of a summary.
#[derive(Debug, Clone, Default)]
pub struct Settings<'a> {
    /// The window in nanoseconds, on the clock of the device. The default is from the first
    /// operation of a device to the last.
    pub window: Option<Range<u64>>,
    /// Whether the times were measured.
    pub time_kind: TimeKind,
    /// The source of the times.
    pub times: TimeSource,
    /// The measured latency of a launch on an idle stream.
    pub latency: Nanos,
    /// The values besides the trace on which the figures depend.
    pub parameters: Parameters<'a>,
    /// The part of the run that needs the most time, if the caller knows it. This part limits the
    /// run if the critical path agrees. If `need` is `None`, the link limits if the bound exceeds
    /// the work of every engine. Otherwise the engine with the most work limits.
    pub need: Option<Need>,
    /// The busy times of the engines of the host.
    pub host: Vec<HostWorked>,
    /// The time that the copies of both directions together need; `None` if it is not known. The
    /// time includes the cost of each copy beyond the time of its bytes.
    pub link: Option<Nanos>,
    /// The number of hazards that the checker found; `None` if the checker did not run.
    pub hazards: Option<usize>,
    /// The known error between the clocks of the host and of the devices. An edge that the times
    /// contradict by at most this error is not counted as a contradiction.
    pub clock_error: Nanos,
    /// The reader of the summary.
    pub audience: Audience,
}

/// The summary of an engine.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EngineSummary {
    /// The figures of the engine.
    pub metrics: EngineMetrics,
    /// The share of the window in which the engine worked.
    pub share: f64,
    /// The time in which the engine worked and no other engine did.
    pub exposed: Nanos,
    /// The idle time by cause. Idle and busy time sum to the window.
    pub idle: BTreeMap<Cause, Nanos>,
}

/// Two engines of a device, and whether they worked at the same time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pair {
    /// The two engines.
    pub engines: [DeviceEngine; 2],
    /// The time in which both engines worked.
    pub together: Nanos,
    /// `together` as a share of the busy time of the less busy engine.
    pub share: f64,
    /// The answer for one operation of each engine: the pair that overlaps for the longest time, or
    /// else is the shortest time apart. If the engines never worked at the same time, the answer
    /// names the reason.
    pub concurrency: Concurrency,
}

/// Idle time of the limiting engine, by cause.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The cause of the idle time.
    pub cause: Cause,
    /// The idle time with this cause.
    pub time: Nanos,
    /// The remedy; `None` if the reader of the summary can do nothing.
    pub fix: Option<&'static str>,
    /// The operations after the longest gaps with this cause, the longest gap first.
    pub ops: Vec<usize>,
    /// The longest gap with this cause.
    pub longest: Range<u64>,
}

/// The summary of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The figures of the window.
    pub metrics: Metrics,
    /// Whether the times were measured.
    pub time_kind: TimeKind,
    /// The limit of the run; `None` if nothing was measured.
    pub limit: Option<Limit>,
    /// The time that the copies of both directions together need; `None` if it is not known. The
    /// time includes the cost of each copy beyond the time of its bytes.
    pub link: Option<Nanos>,
    /// The engines that worked.
    pub engines: Vec<EngineSummary>,
    /// The engines of the host that worked.
    pub host: Vec<HostSummary>,
    /// All pairs of engines of one device that both worked.
    pub pairs: Vec<Pair>,
    /// The idle time of the limiting engine, the most time first. If the link limits, this is the
    /// idle time of the copy engine with the most work. If no engine limits, this is the idle time
    /// of the engine with the most work.
    pub losses: Vec<Loss>,
    /// The critical path of the window.
    pub critical: CriticalPath,
    /// The time by which each operation could end later without delaying the end of the run.
    pub slack: Vec<Option<Nanos>>,
    /// The gaps of all engines, for a timeline.
    pub gaps: Vec<Gap>,
    /// Remarks about performance, the most time to save first.
    pub lints: Vec<Lint>,
    /// The number of hazards that the checker found; `None` if the checker did not run.
    pub hazards: Option<usize>,
    /// The engines for which operations of several streams queued. Empty unless the times come from
    /// pairs of events, which count queueing as work.
    pub queued: Vec<Queued>,
    /// The number of edges that the clocks contradict by more than their known error. Above 0, the
    /// times of several devices or threads disagree.
    pub contradictions: usize,
    /// The reader of the summary.
    pub audience: Audience,
}

/// The remedy for a cause; `None` if the reader can do nothing.
#[must_use]
pub fn fix(cause: Cause, audience: Audience) -> Option<&'static str> {
    match (cause, audience) {
        (Cause::Resource | Cause::Unknown, _) | (_, Audience::User) => None,
        (Cause::Fill | Cause::Drain, Audience::Author) => {
            Some("use smaller chunks, at least for the first and the last chunk")
        }
        (Cause::HostLate(category), Audience::Author) => Some(match category {
            Category::Sync => Rule::OverSync.fix(),
            Category::Alloc => Rule::SyncAlloc.fix(),
            Category::Copy => Rule::SyncCopy.fix(),
            Category::Load => Rule::FirstUseLoad.fix(),
            Category::Enqueue => FEWER_LAUNCHES,
            _ => Rule::HostLate.fix(),
        }),
        (Cause::Dependency(dependency), Audience::Author) => Some(match dependency {
            Dependency::Legacy => Rule::LegacyBarrier.fix(),
            Dependency::Alloc => Rule::SyncAlloc.fix(),
            Dependency::Host(_) => "make the source or the sink faster",
            _ => "use more slots, or a stream per engine",
        }),
        (Cause::Launch, Audience::Author) => Some(FEWER_LAUNCHES),
    }
}

/// The smallest loss that is worth advice, as a divisor of the window: one hundredth.
const ADVICE_MIN: u64 = 100;

fn losses(
    gaps: &[Gap],
    engine: DeviceEngine,
    audience: Audience,
    window: &Range<u64>,
) -> Vec<Loss> {
    let mut by: BTreeMap<Cause, Vec<(u64, &Gap)>> = BTreeMap::new();
    for gap in gaps.iter().filter(|gap| gap.engine == engine) {
        for (cause, part) in &gap.parts {
            by.entry(*cause).or_default().push((part.0, gap));
        }
    }
    let mut losses: Vec<Loss> = by
        .into_iter()
        .map(|(cause, mut parts)| {
            parts.sort_by_key(|(part, gap)| (std::cmp::Reverse(*part), gap.span.start));
            let time = parts.iter().map(|(part, _)| part).sum::<u64>();
            let is_worth_it = time >= (window.end - window.start) / ADVICE_MIN;
            Loss {
                cause,
                time: Nanos(time),
                fix: fix(cause, audience).filter(|_| is_worth_it),
                ops: parts.iter().filter_map(|(_, gap)| gap.op).take(OPS_MAX).collect(),
                longest: parts.first().map_or(0..0, |(_, gap)| gap.span.clone()),
            }
        })
        .collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.time));
    losses.truncate(LOSSES_MAX);
    losses
}

/// All pairs of engines of one device, without the engine of host functions.
fn pairs(run: TracedRun<'_>, busy: &BTreeMap<DeviceEngine, Union>) -> Vec<Pair> {
    let engines = busy.iter().filter(|(engine, _)| engine.1 != Engine::Host);
    let engines: Vec<(&DeviceEngine, &Union)> = engines.collect();
    let mut pairs = Vec::new();
    for (number, (a, first)) in engines.iter().enumerate() {
        for (b, second) in engines[number + 1..].iter().filter(|(b, _)| a.0 == b.0) {
            let together = first.and(second).length();
            let least = first.length().min(second.length()).0.max(1);
            let share = together.0 as f64 / least as f64;
            let concurrency = run.concurrency_of_engines(**a, **b);
            let engines = [**a, **b];
            pairs.extend(concurrency.map(|concurrency| Pair {
                engines,
                together,
                share,
                concurrency,
            }));
        }
    }
    pairs
}

/// The limit of a run with these figures. A measured bound may come from the link, which uploads
/// and downloads share. Then no engine alone needs the time of the bound.
fn limit(metrics: &Metrics) -> Option<Limit> {
    let limiting = metrics.limiting?;
    let engine = metrics.engines.iter().find(|engine| engine.engine == limiting);
    let work = engine.map_or(Nanos(0), |engine| engine.work);
    let is_link = metrics.bound.0 > work.0.saturating_add(work.0 / 50);
    Some(if is_link { Limit::Link } else { Limit::Engine(limiting) })
}

/// The engine whose idle time is listed as the losses of a run.
fn losing(metrics: &Metrics, limit: Option<Limit>) -> Option<DeviceEngine> {
    match limit {
        Some(Limit::Engine(engine)) => Some(engine),
        Some(Limit::Link) => {
            let is_copy = |e: &&EngineMetrics| is_copy(e.engine.1);
            metrics.engines.iter().filter(is_copy).max_by_key(|e| e.work).map(|e| e.engine)
        }
        Some(
            Limit::Host(_) | Limit::Output | Limit::Calls | Limit::NoSingle(_) | Limit::Unclear,
        )
        | None => metrics.limiting,
    }
}

/// Whether an engine copies between host and device.
fn is_copy(engine: Engine) -> bool {
    match engine {
        Engine::Upload | Engine::Download => true,
        Engine::Compute | Engine::Peer | Engine::Host | Engine::None | Engine::Communication => {
            false
        }
    }
}

/// Makes the summary of a run.
///
/// ```
/// use trijet::trace::dag::{Dag, Kernels};
/// use trijet::trace::summary::{Settings, summarize};
/// let dag = Dag::new(&[], Kernels::Several);
/// let settings = Settings { hazards: Some(0), ..Settings::default() };
/// let summary = summarize(&[], &dag, &settings, vec![]);
/// assert!(summary.to_string().starts_with("nothing measured; 0 hazards, 0 remarks"));
/// ```
#[must_use]
pub fn summarize(ops: &[Op], dag: &Dag, settings: &Settings<'_>, mut lints: Vec<Lint>) -> Summary {
    let mut metrics = measure(ops, dag, settings.window.clone(), &settings.parameters);
    // Reader, writer and sync lengthen the window, but are no work of the engines.
    metrics.overlap = metrics.overlap.filter(|_| settings.host.is_empty());
    let window = metrics.window.clone();
    let copy_engines = settings.parameters.copy_engines;
    let gaps = gaps(ops, dag, window.clone(), settings.latency, copy_engines, &settings.host);
    let busy: BTreeMap<DeviceEngine, Union> = by_engine(ops, dag)
        .into_iter()
        .map(|(engine, list)| {
            let spans = Union::of(list.iter().filter_map(|op| dag.work(*op)));
            (engine, spans.and(&Union::of([window.clone()])))
        })
        .collect();
    let on_host = settings.host.iter().map(|one| &one.busy);
    let engines = metrics.engines.iter().map(|engine| {
        let others = busy.iter().filter(|(name, _)| **name != engine.engine);
        let others = Union::all(others.map(|(_, union)| union).chain(on_host.clone()));
        EngineSummary {
            share: metrics.busy_share(engine.engine),
            exposed: busy.get(&engine.engine).map_or(Nanos(0), |u| u.minus(&others).length()),
            idle: by_cause(&gaps, engine.engine),
            metrics: engine.clone(),
        }
    });
    let engines = engines.collect();
    let host = summaries(&settings.host, &busy, &window);
    lints.sort_by_key(|lint| std::cmp::Reverse(lint.saved));
    let mut critical = critical_path(ops, dag, window.clone(), settings.latency);
    critical.give_to(&settings.host);
    let limit = match settings.need {
        Some(need) => Some(agreed(need, &critical, metrics.elapsed())),
        None => limit(&metrics),
    };
    Summary {
        time_kind: settings.time_kind,
        limit,
        link: settings.link,
        engines,
        host,
        pairs: pairs(TracedRun { ops, dag, times: settings.times }, &busy),
        losses: losing(&metrics, limit)
            .map_or_else(Vec::new, |engine| losses(&gaps, engine, settings.audience, &window)),
        critical,
        slack: slack(ops, dag),
        gaps,
        lints,
        hazards: settings.hazards,
        queued: if settings.times == TimeSource::EventPairs { queued(ops) } else { Vec::new() },
        contradictions: dag.contradictions_beyond(settings.clock_error),
        audience: settings.audience,
        metrics,
    }
}

impl Summary {
    /// The engine whose idle time is listed in `losses`.
    pub(crate) fn losing_engine(&self) -> Option<DeviceEngine> {
        losing(&self.metrics, self.limit)
    }

    /// The first line of the text: the elapsed time, the bound and the efficiency if the bound was
    /// measured, the limit of the run, and the number of hazards and remarks.
    #[must_use]
    pub fn verdict(&self) -> String {
        let kind = match self.time_kind {
            TimeKind::Measured => "measured",
            TimeKind::Modelled => "modelled",
        };
        let elapsed = self.metrics.elapsed();
        let mut text = match (self.metrics.efficiency, self.limit) {
            (Some(efficiency), Some(limit)) => format!(
                "{elapsed} {kind}, bound {} ({}), efficiency {:.0} %",
                self.metrics.bound,
                self.bound_name(limit),
                efficiency * 100.0
            ),
            (None, Some(Limit::Unclear)) => {
                format!("{elapsed} {kind}, the busy times do not show what limits the run")
            }
            (None, Some(Limit::NoSingle([first, second]))) => {
                format!("{elapsed} {kind}, no single limit: {first} and {second} are nearest")
            }
            (None, Some(limit)) if elapsed.0 > 0 => {
                let how = if self.is_known(limit) { "" } else { ", as observed" };
                format!("{elapsed} {kind}, limited by {}{how}", self.limit_name(limit))
            }
            _ => "nothing measured".to_owned(),
        };
        let remarks = count(self.lints.len() as u64, "remark");
        text += &match self.hazards {
            Some(hazards) => format!("; {}, {remarks}", count(hazards as u64, "hazard")),
            None => format!("; not checked for hazards, {remarks}"),
        };
        text
    }

    /// The name of the limit, with the number of its device if there are several devices.
    fn limit_name(&self, limit: Limit) -> String {
        match limit {
            Limit::Engine(engine) => self.engine_name(engine),
            Limit::NoSingle([first, second]) => {
                format!("no single limit: {first} and {second} are nearest")
            }
            Limit::Link | Limit::Host(_) | Limit::Output | Limit::Calls | Limit::Unclear => {
                limit.name().to_owned()
            }
        }
    }

    /// The source of the bound, and the limit of the run if the limit is another one.
    fn bound_name(&self, limit: Limit) -> String {
        let bound = self.metrics.bound;
        // The work of operations is rounded, so a difference of one thousandth is no difference.
        let reaches = |e: &&EngineSummary| {
            let EngineMetrics { engine, work, isolated, .. } = e.metrics;
            isolated && !is_copy(engine.1) && work.0 + work.0 / 1000 >= bound.0
        };
        let engine = self.engines.iter().find(reaches).map(|e| self.engine_name(e.metrics.engine));
        let name = self.limit_name(limit);
        match (limit, engine) {
            (Limit::Calls, engine) => {
                let engine = engine.unwrap_or_else(|| "the device".to_owned());
                format!("{engine}; limit: {name}")
            }
            (Limit::Host(_) | Limit::Output, _) => format!("the device; limit: {name}"),
            (Limit::NoSingle(_), _) => format!("the device; {name}"),
            (Limit::Link | Limit::Engine((_, Engine::Upload | Engine::Download)), Some(engine)) => {
                format!("{engine}; with the cost of each copy, limit: {name}")
            }
            (Limit::Link | Limit::Engine(_) | Limit::Unclear, _) => name,
        }
    }

    /// Whether the work of the limit is known, in addition to its busy time.
    fn is_known(&self, limit: Limit) -> bool {
        match limit {
            Limit::Engine(engine) => {
                self.engines.iter().any(|e| e.metrics.engine == engine && e.metrics.isolated)
            }
            Limit::Link => self.link.is_some() || self.metrics.efficiency.is_some(),
            Limit::Host(_) | Limit::Output | Limit::Calls | Limit::NoSingle(_) => true,
            Limit::Unclear => false,
        }
    }

    /// The table of the engines, in at most 80 columns. With several devices, one more line per
    /// device has its copies and its communication.
    fn engine_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |contention: Option<f64>| contention.filter(|c| *c > CONTENTION_MIN);
        let is_contended = self.engines.iter().any(|e| shown(e.metrics.contention).is_some());
        let contention = if is_contended { "contention" } else { "" };
        let head = format!(
            "{:>15} {:>10} {:>7} {:>10} {:>10} {contention:>11}",
            "engine", "busy", "share", "alone", "exposed"
        );
        writeln!(f, "{}", head.trim_end())?;
        let end = |limit| if self.limit == Some(limit) { "  <- limits" } else { "" };
        let mut engines = self.engines.iter().peekable();
        while let Some(engine) = engines.next() {
            let EngineMetrics { busy, work, isolated, contention, .. } = &engine.metrics;
            let name = self.engine_name(engine.metrics.engine);
            let share = engine.share * 100.0;
            let alone = if *isolated { work.to_string() } else { "-".to_owned() };
            let exposed = engine.exposed;
            write!(f, "{name:>15} {busy:>10} {share:>5.1} % {alone:>10} {exposed:>10}")?;
            match shown(*contention) {
                Some(contention) => write!(f, " {contention:>11.2}")?,
                None if is_contended => write!(f, " {:>11}", "-")?,
                None => {}
            }
            writeln!(f, "{}", end(Limit::Engine(engine.metrics.engine)))?;
            let device = engine.metrics.engine.0;
            let is_last = engines.peek().is_none_or(|next| next.metrics.engine.0 != device);
            if let (true, Some(device)) = (is_last, self.of_device(device)) {
                writeln!(f, "{device}")?;
            }
        }
        for host in &self.host {
            let limits = self.limit.is_some_and(|limit| limit.includes(host.engine));
            writeln!(f, "{host}{}", if limits { "  <- limits" } else { "" })?;
        }
        if self.limit == Some(Limit::Link) {
            let work = self.link.unwrap_or(self.metrics.bound);
            let alone = if self.is_known(Limit::Link) { work.to_string() } else { "-".to_owned() };
            writeln!(f, "{:>15} {:>10} {:>7} {alone:>10}  <- limits", "link, both ways", "", "")?;
        }
        Ok(())
    }

    /// The figures of all engines together, in several lines.
    #[must_use]
    pub fn figures(&self) -> String {
        let m = &self.metrics;
        let mut text = format!("{}: ", count(m.chunks, "chunk"));
        if let Some(efficiency) = m.finite_efficiency {
            let efficiency = efficiency * 100.0;
            text += &format!("{} at best with fill and drain ({efficiency:.0} %); ", m.finite);
        }
        if let Some(overlap) = m.overlap {
            text += &format!("overlap {overlap:.2}; ");
        }
        text += &format!("{:.2} device engines at once\n", m.concurrency);
        if let Some(hidden) = m.hidden {
            let hidden = hidden * 100.0;
            text += &format!("copies exposed for {}, {hidden:.0} % hidden\n", m.exposed_copy);
        }
        if m.communication.busy.0 > 0 {
            text += &format!("communication between devices {}\n", m.communication);
        }
        let mut together = Vec::new();
        for pair in &self.pairs {
            let (name, share) = (self.pair_name(pair), pair.share * 100.0);
            match pair.together.0 {
                0 => text += &format!("{name}: {}\n", pair.concurrency),
                _ => together.push(format!("{name} {} ({share:.0} %)", pair.together)),
            }
        }
        if !together.is_empty() {
            text += &format!("at once: {}\n", together.join(", "));
        }
        text
    }

    /// The copies and the communication of a device. `None` if there is only one device, or if the
    /// device had neither copies nor communication.
    pub(super) fn of_device(&self, device: DeviceId) -> Option<&DeviceMetrics> {
        let devices = &self.metrics.devices;
        let mine = devices.iter().find(|one| one.device == device && devices.len() > 1);
        mine.filter(|one| !one.sentences().is_empty())
    }

    /// The two engines of a pair, in words.
    #[must_use]
    pub fn pair_name(&self, pair: &Pair) -> String {
        let [a, b] = pair.engines.map(|engine| self.engine_name(engine));
        format!("{a} and {b}")
    }

    /// The name of an engine, with the number of its device if there are several devices.
    #[must_use]
    pub fn engine_name(&self, (device, role): DeviceEngine) -> String {
        let several = self.engines.iter().any(|e| e.metrics.engine.0 != device);
        let name = engine_name(role);
        if several { format!("{name} {}", device.0) } else { name.to_owned() }
    }

    /// The time of the critical path by category, the most time first.
    #[must_use]
    pub fn path(&self) -> Vec<(Category, Nanos)> {
        let mut path: Vec<_> =
            self.critical.by_category.iter().map(|(at, time)| (*at, *time)).collect();
        path.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        path
    }
}

/// The number and the label of an operation, and the line of the program that enqueued it.
#[must_use]
pub fn describe(ops: &[Op], index: usize) -> String {
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
        f.write_str(&self.figures())?;
        for loss in &self.losses {
            let share = loss.time.0 as f64 / self.metrics.elapsed().0.max(1) as f64 * 100.0;
            let cause = loss.cause.to_string();
            write!(f, "lost {:>9} ({share:>4.1} %) {cause}", loss.time)?;
            if let Some(op) = loss.ops.first() {
                write!(f, ", longest before #{op}")?;
            }
            match loss.fix {
                Some(fix) => writeln!(f, "; {fix}")?,
                None => writeln!(f)?,
            }
        }
        let path = self.path();
        let path = path.iter().take(PATH_MAX).map(|(category, time)| format!("{category} {time}"));
        writeln!(f, "critical path: {}", path.collect::<Vec<_>>().join(", "))?;
        for lint in self.lints.iter().take(LOSSES_MAX) {
            match self.audience {
                Audience::Author => writeln!(f, "{lint}")?,
                Audience::User => {
                    writeln!(f, "{}: {} (up to {})", lint.rule.name(), lint.text, lint.saved)?;
                }
            }
        }
        for queued in &self.queued {
            writeln!(f, "times: {queued}")?;
        }
        if self.contradictions > 0 {
            let edges = format!("{} of the order", count(self.contradictions as u64, "edge"));
            writeln!(f, "the clocks contradict {edges}: times of devices or threads disagree")?;
        }
        Ok(())
    }
}
