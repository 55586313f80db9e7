//! Profiles as text.
#![forbid(unsafe_code)]

use super::chosen::environment::DeviceEnvironment;
use super::chosen::graphs::{GraphTime, NodeTime};
use super::device::{DeviceProfile, KernelStream, LISTED_MAX};
use super::findings::Habit;
use super::laws::Contradiction;
use super::model::Gains;
use super::process::ProcessProfile;
use super::program::Profile;
use super::ranges::RangeTime;
use super::ranks::{Rank, RankJob};
use super::steps::{FiguresOf, ProgramSteps};
use super::stream_pairs::StreamPair;
use crate::base::units::Nanos;
use crate::trace::{count, percent_of, rate};
use std::fmt::{self, Display, Formatter};

/// Maximum number of names of kernels that are listed for the ranks of a job, and of nodes that are
/// listed for a graph.
const NAMES_MAX: usize = 5;

/// The profile of a program. The text ends with a line break.
#[must_use]
pub fn text(profile: &Profile) -> String {
    let Profile { processes, jobs } = profile;
    let mut text: String = shown(processes).map(ToString::to_string).collect();
    text.extend(jobs.iter().map(ToString::to_string));
    if let Some(line) = without_work(processes) {
        text += &line;
        text.push('\n');
    }
    text
}

/// Whether a process did nothing on a GPU and has nothing else to report. The section of such a
/// process can be left out if another process used a GPU.
fn is_launcher(process: &ProcessProfile) -> bool {
    process.devices.is_empty()
        && process.troubles.is_empty()
        && process.contradictions.is_empty()
        && process.untimed == 0
}

/// The processes that have a section.
pub(super) fn shown(processes: &[ProcessProfile]) -> impl Iterator<Item = &ProcessProfile> {
    let works = processes.iter().any(|process| !process.devices.is_empty());
    processes.iter().filter(move |process| !works || !is_launcher(process))
}

/// The sentence about the processes that have no section.
pub(super) fn without_work(processes: &[ProcessProfile]) -> Option<String> {
    let shown = shown(processes).count();
    let idle: Vec<String> = processes
        .iter()
        .filter(|process| is_launcher(process))
        .map(|process| process.process.to_string())
        .collect();
    (shown < processes.len()).then(|| match idle.as_slice() {
        [one] => format!("process {one} executed no operation on a GPU"),
        all => format!("processes {} executed no operation on a GPU", all.join(", ")),
    })
}

/// The sentence about records that violate a law.
pub(super) fn contradiction(found: &Contradiction) -> String {
    let Contradiction { law, count, examples, .. } = found;
    let more = if examples.len() < *count { ", and others" } else { "" };
    let examples = examples.join("; ");
    format!(
        "left out of all figures because they are wrong: {count} x records that {law}: \
         {examples}{more}"
    )
}

/// The command line, cut to fit on a line.
fn cut(command: &str) -> String {
    const LENGTH: usize = 72;
    if command.chars().count() <= LENGTH {
        return command.to_owned();
    }
    command.chars().take(LENGTH - 2).chain("..".chars()).collect()
}

/// `part` in percent of `whole`.
pub(super) fn percent(part: Nanos, whole: Nanos) -> f64 {
    100.0 * part.0 as f64 / whole.0.max(1) as f64
}

impl ProcessProfile {
    /// The lines about the recorder of `trijet trace`.
    fn end_of_recorder(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  all times are on the clock of CUPTI {}", self.interface)?;
        let Some(end) = &self.end else { return Ok(()) };
        writeln!(
            f,
            "  tracing took {} in CUPTI ({:.2} % of {}) and {} in the recorder of trijet",
            self.overhead,
            percent(self.overhead, self.span),
            self.span,
            end.own_time
        )?;
        writeln!(
            f,
            "  {} activities, {} dropped, {} of unknown kinds, {} without times",
            end.activities, end.dropped, end.unknown, self.untimed
        )
    }
}

impl ProcessProfile {
    /// The table of graphs.
    fn graphs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.graphs.is_empty() {
            writeln!(f, "  CUDA graphs of the whole run, by time on a GPU:")?;
            writeln!(
                f,
                "    {:>12}{:>12}{:>10}{:>7}{:>7}",
                "GPU busy", "one launch", "launches", "nodes", "edges"
            )?;
        }
        for GraphTime { graph, launches, nodes, edges, launch, busy, names } in &self.graphs {
            writeln!(
                f,
                "    {busy:>12}{launch:>12}{launches:>10}{nodes:>7}{edges:>7}  graph {graph}"
            )?;
            for NodeTime { name, nodes, total } in names.iter().take(NAMES_MAX) {
                writeln!(f, "    {total:>12}{nodes:>29}{:>7}    {name}", "")?;
            }
        }
        Ok(())
    }
}

impl Display for ProcessProfile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", format!("process {} {}", self.process, cut(&self.command)).trim_end())?;
        for trouble in &self.troubles {
            writeln!(f, "  not traced: {trouble}")?;
        }
        if self.interface == 0 && self.tool.is_none() {
            return Ok(());
        }
        if self.end.is_none() {
            writeln!(
                f,
                "  INCOMPLETE: the end of the trace is missing, because the process still runs, was \
                 killed, aborted, called _exit or exec, or because the disk was full; at most the \
                 last second of the trace is missing"
            )?;
        }
        if self.left_out > 0 {
            writeln!(f, "  activities beyond the limit that were left out: {}", self.left_out)?;
        }
        for found in &self.contradictions {
            line(f, 2, &contradiction(found))?;
        }
        for note in &self.notes {
            line(f, 2, &format!("note: {note}"))?;
        }
        if self.devices.is_empty() {
            writeln!(
                f,
                "  the program executed no operation on a GPU and made {} of CUDA",
                count(self.calls as u64, "call")
            )?;
        }
        for device in &self.devices {
            write!(f, "{device}")?;
        }
        if !self.ranges.is_empty() {
            writeln!(f, "  named ranges (NVTX) of the whole run, by time on the host:")?;
            writeln!(f, "    {:>12}{:>12}{:>10}", "open", "GPU busy", "ranges")?;
        }
        for range in &self.ranges {
            let RangeTime { name, ranges, open, ran, .. } = range;
            writeln!(f, "    {open:>12}{ran:>12}{ranges:>10}  {name}")?;
        }
        self.graphs(f)?;
        match self.tool {
            Some(tool) => writeln!(
                f,
                "  all times were recorded by {tool}; {} activities, {} without times",
                self.activities, self.untimed
            )?,
            None => self.end_of_recorder(f)?,
        }
        writeln!(
            f,
            "  races are not checked, because a trace does not contain the accesses of kernels"
        )
    }
}

impl Display for DeviceProfile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { device, elapsed, .. } = self;
        let streams = count(self.streams as u64, "stream");
        match (&self.steps, self.extent) {
            (Some(steps), FiguresOf::Steps) => {
                let steps = count(steps.count as u64, "step");
                writeln!(f, "  device {device}: {steps} in {elapsed}, {streams}")?;
            }
            _ => writeln!(
                f,
                "  device {device}: {elapsed} from the first operation to the end of the last, \
                 {streams}"
            )?,
        }
        step_sentences(self).iter().try_for_each(|sentence| line(f, 4, sentence))?;
        writeln!(f, "    {:<14}{:>12}{:>9}{:>12}", "engine", "busy", "share", "operations")?;
        for engine in &self.engines {
            write!(
                f,
                "    {:<14}{:>12}{:>9}{:>12}",
                engine.name,
                engine.busy,
                percent_of(engine.busy, self.elapsed),
                engine.operations
            )?;
            if engine.bytes.0 > 0 {
                write!(f, "   {} at {}", engine.bytes, rate(engine.bytes, engine.busy))?;
            }
            writeln!(f)?;
        }
        let idle = &self.idle;
        let part = percent_of(idle.total, self.elapsed);
        let gaps = match idle.gaps {
            1 => "1 gap".to_owned(),
            count => format!("{count} gaps"),
        };
        writeln!(f, "    {:<14}{:>12}{part:>9}{gaps:>12}", "idle", idle.total)?;
        let parts: Vec<String> =
            idle.parts().iter().map(|part| format!("{} {}", part.time, part.host)).collect();
        if !parts.is_empty() {
            line(f, 6, &format!("meanwhile the host was: {}", parts.join(", ")))?;
        }
        if let Some(limit) = self.limit_sentence() {
            line(f, 4, &limit)?;
        }
        if let Some(stream) = self.kernel_stream {
            line(f, 4, &stream.sentence())?;
        }
        if !self.stream_pairs.is_empty() {
            writeln!(f, "    pairs of streams, by time in which both had work enqueued:")?;
        }
        self.stream_pairs.iter().try_for_each(|pair| line(f, 6, &pair.sentence()))?;
        if !self.findings.is_empty() {
            writeln!(
                f,
                "    remarks by gain, or by cost without a gain (costs may overlap, so they do not add up):"
            )?;
        }
        self.findings.iter().try_for_each(|finding| write!(f, "{finding}"))?;
        let environment = self.environment.iter().flat_map(DeviceEnvironment::sentences);
        for sentence in self.gains.iter().flat_map(Gains::sentences).chain(environment) {
            line(f, 4, &sentence)?;
        }
        if !self.kernels.is_empty() {
            writeln!(f, "    kernels by total time:")?;
        }
        for kernel in self.kernels.iter().take(LISTED_MAX) {
            writeln!(f, "    {:>12}{:>9} x  {}", kernel.total, kernel.launches, kernel.name)?;
        }
        Ok(())
    }
}

/// The sentences about the steps of a device, and about the part of the run that its figures cover.
pub(super) fn step_sentences(device: &DeviceProfile) -> Vec<String> {
    let Some(steps) = &device.steps else {
        return vec![
            "no steps: no named range and no sequence of kernels repeats over most of the run, so \
             the figures cover the whole run"
                .to_owned(),
        ];
    };
    let mut sentences = vec![time_per_step(steps), what_a_step_is(steps)];
    let ProgramSteps { before, busy_before, after, .. } = steps;
    sentences.push(format!(
        "start: {before} before the first step, and the GPU worked for {busy_before} of it; end: \
         {after} after the last step"
    ));
    sentences.push(match device.extent {
        FiguresOf::Steps => {
            "all other figures cover the steps; `--whole` takes the whole run".to_owned()
        }
        FiguresOf::Whole => "all other figures cover the whole run".to_owned(),
    });
    sentences
}

fn time_per_step(steps: &ProgramSteps) -> String {
    let times = &steps.times;
    format!(
        "time per step: median {}, eight in ten from {} to {}, least {}, most {}, spread {:.1} %",
        times.median,
        times.tenth,
        times.ninetieth,
        times.least,
        times.most,
        times.spread()
    )
}

fn what_a_step_is(steps: &ProgramSteps) -> String {
    let kernels = match steps.kernels {
        1 => "one kernel".to_owned(),
        count => format!("{count} kernels"),
    };
    let stream = steps.stream.map_or(String::new(), |stream| format!(" on stream {stream}"));
    let different = match steps.different {
        0 => String::new(),
        count => {
            let time = steps.different_time;
            format!("; {count} of the steps have other kernels and took {time} in total")
        }
    };
    let first = &steps.first_kernel;
    match &steps.range {
        Some(range) => {
            format!("a step is the range {range}, with {kernels} from {first}{different}")
        }
        None => format!("a step is {kernels}{stream} from {first}{different}"),
    }
}

impl KernelStream {
    /// The sentence about a program with all kernels in one stream.
    pub(super) fn sentence(self) -> String {
        let Self { stream, kernels, copies } = self;
        let copies = match copies {
            0 => String::new(),
            1 => " and the only copy between host and device".to_owned(),
            count => format!(" and all {count} copies between host and device"),
        };
        format!(
            "all {kernels} kernels{copies} are in stream {stream}, so they run one after another; \
             work without a dependency on them needs another stream to overlap with them"
        )
    }
}

impl StreamPair {
    /// The sentence about a pair of streams.
    pub(super) fn sentence(&self) -> String {
        let Self { streams: [a, b], ran, together, verdict, .. } = self;
        let share = percent(*together, ran[0].min(ran[1]));
        format!(
            "{a} and {b} worked for {} and {}, at once for {together} ({share:.0} % of the shorter): \
             {}",
            ran[0],
            ran[1],
            verdict.words()
        )
    }
}

impl Gains {
    /// The sentences about the replays: the error of the model, and a sentence for each fix that is
    /// added to the fixes before it. Empty if no fix saves time.
    pub(super) fn sentences(&self) -> Vec<String> {
        if self.together.is_empty() {
            return Vec::new();
        }
        let Self { measured, replayed, together } = self;
        let error = self.error() * 100.0;
        let error = format!("{:.1} % {}", error.abs(), if error < 0.0 { "less" } else { "more" });
        let mut sentences = vec![format!(
            "what the fixes save together, in replays of the run; the replay without a change takes \
             {replayed}, {error} than the measured {measured}:"
        )];
        for one in together {
            let rules: Vec<&str> = one.rules.iter().map(|rule| rule.name()).collect();
            let share = percent_of(one.gain, *measured);
            sentences.push(format!("  {} shorter ({share}): {}", one.gain, rules.join(" + ")));
        }
        sentences
    }
}

impl RankJob {
    /// The sentences about all ranks.
    pub(super) fn sentences(&self) -> [String; 3] {
        let sum = |of: fn(&Rank) -> Nanos| {
            Nanos(self.ranks.iter().fold(0, |sum, rank| of(rank).0.saturating_add(sum)))
        };
        [
            format!(
                "{} of {} with a kernel on every rank; ranks waited in {} of these collectives; {} \
                 of {} that communicate belong to none of them",
                count(self.collectives as u64, "collective"),
                match self.communicators {
                    1 => "one communicator".to_owned(),
                    count => format!("{count} communicators"),
                },
                self.late,
                self.unmatched,
                count(self.kernels as u64, "kernel")
            ),
            format!(
                "communication on all ranks while no other kernel ran (exposed): {}; {} of it \
                 waiting for later ranks, {} transfers, {} unknown",
                sum(|rank| rank.exposed),
                sum(|rank| rank.waiting),
                sum(|rank| rank.transfer),
                sum(|rank| rank.unknown)
            ),
            "`last in` counts the collectives in which this rank alone was the last to start; \
             `late by` sums its delays after the rank before it; `awaited` sums the time in which \
             others waited for it alone and ran no other kernel"
                .to_owned(),
        ]
    }
}

impl Display for RankJob {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "ranks")?;
        let [matched, exposed, columns] = self.sentences();
        line(f, 2, &matched)?;
        line(f, 2, &exposed)?;
        write!(f, "    {:<20}", "rank")?;
        ["busy", "exposed", "waiting", "transfer", "unknown"]
            .iter()
            .try_for_each(|name| write!(f, "{name:>11}"))?;
        writeln!(f)?;
        for rank in &self.ranks {
            write!(f, "    {:<20}", rank.name)?;
            [rank.communication, rank.exposed, rank.waiting, rank.transfer, rank.unknown]
                .iter()
                .try_for_each(|time| write!(f, "{time:>11}"))?;
            writeln!(f)?;
        }
        writeln!(f, "    {:<20}{:>11}{:>11}{:>11}", "rank", "last in", "late by", "awaited")?;
        for rank in &self.ranks {
            let Rank { name, last, late, awaited, .. } = rank;
            writeln!(f, "    {name:<20}{last:>11}{late:>11}{awaited:>11}")?;
        }
        line(f, 6, &columns)?;
        writeln!(f, "    kernels that communicate, by exposed time on all ranks:")?;
        for kernel in self.by_name.iter().take(NAMES_MAX) {
            writeln!(f, "    {:>12}{:>9} x  {}", kernel.exposed, kernel.count, kernel.name)?;
        }
        Ok(())
    }
}

impl Display for Habit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, title) = (self.rule.name(), self.rule.title());
        writeln!(f, "    {name:<19}{:>12}{:>9} x  {title}", self.cost, self.count)?;
        line(f, 8, &self.seen)?;
        line(f, 8, &format!("fix: {}", self.fix))?;
        match self.gain {
            Some(gain) => line(f, 8, &format!("gain: {gain} in a replay of the run with the fix")),
            None => Ok(()),
        }
    }
}

/// Writes a sentence as one line, which a terminal breaks at its width.
fn line(f: &mut Formatter<'_>, indent: usize, words: &str) -> fmt::Result {
    writeln!(f, "{:indent$}{words}", "")
}
