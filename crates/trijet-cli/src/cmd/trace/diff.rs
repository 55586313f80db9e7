//! The difference between the reports of two runs, device by device.
#![forbid(unsafe_code)]

use crate::against::{Figure, MetricUnit, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trijet_ledger::profile::readable_name;

/// Maximum number of kernels and remarks that the text lists.
const LISTED_MAX: usize = 10;

/// The engines that copy.
const COPIES: [&str; 5] = ["upload", "download", "peer copies", "copies within", "host copies"];

/// The times of the steps of a device in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Steps {
    count: f64,
    median: f64,
    tenth: f64,
    ninetieth: f64,
}

impl Steps {
    fn of(device: &Value) -> Option<Self> {
        let steps = &device["steps"];
        let time = |name: &str| steps["time_per_step"][name].as_f64();
        Some(Self {
            count: steps["count"].as_f64().filter(|count| *count > 0.0)?,
            median: time("median_ns")?,
            tenth: time("p10_ns")?,
            ninetieth: time("p90_ns")?,
        })
    }

    /// Eight in ten of the times.
    fn spread(&self) -> String {
        format!("{} to {}", time(self.tenth), time(self.ninetieth))
    }

    fn has_in_spread(&self, time: f64) -> bool {
        (self.tenth..=self.ninetieth).contains(&time)
    }
}

/// A kernel of both runs: its total time, and its launches.
#[derive(Debug)]
struct KernelDiff {
    name: String,
    time: Figure,
    launches: Figure,
    /// Whether the new run does not have it.
    is_gone: bool,
}

/// A remark of both runs. A run without it has no cost.
#[derive(Debug)]
struct FindingDiff {
    key: String,
    title: String,
    cost: Figure,
}

/// The difference of a device.
#[derive(Debug)]
pub(super) struct DeviceDiff {
    pub(super) name: String,
    steps: [Option<Steps>; 2],
    /// Whether the figures are of one step.
    per_step: bool,
    /// The reason why figures are not compared.
    incomparable: Option<&'static str>,
    pub(super) step: Figure,
    pub(super) kernels: Figure,
    pub(super) idle: Figure,
    pub(super) copies: Figure,
    by_kernel: Vec<KernelDiff>,
    by_finding: Vec<FindingDiff>,
    has_findings: [bool; 2],
}

/// A device of a report.
struct ReportDevice<'a> {
    name: String,
    /// The rank of its process, and its place among the devices of that rank.
    of_rank: Option<(u64, usize)>,
    figures: &'a Value,
    records: Records,
}

/// The records of a process that a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Records {
    All,
    /// The trace has no end: what the process did last may be missing.
    WithoutEnd,
    /// Records are missing anywhere.
    Lost,
}

impl Records {
    fn of(process: &Value) -> Self {
        let count = |name: &str| process[name].as_u64().unwrap_or(0);
        if count("activities_left_out") + count("dropped_activities") > 0 {
            Self::Lost
        } else if process["complete"] == false {
            Self::WithoutEnd
        } else {
            Self::All
        }
    }
}

/// The devices of a report.
fn devices(report: &Value) -> Vec<ReportDevice<'_>> {
    let mut found = Vec::new();
    for process in report["processes"].as_array().into_iter().flatten() {
        let rank = process["rank"].as_u64();
        let of = rank.map_or_else(
            || format!("process {}", process["process"]),
            |rank| format!("rank {rank}"),
        );
        for (place, figures) in process["devices"].as_array().into_iter().flatten().enumerate() {
            let name = format!("{of} device {}", figures["device"]);
            let (of_rank, records) = (rank.map(|rank| (rank, place)), Records::of(process));
            found.push(ReportDevice { name, of_rank, figures, records });
        }
    }
    found
}

/// The differences of the devices of two reports, and the devices of one alone. Devices are paired
/// by their ranks if all of them have one, and otherwise in their order.
pub(super) fn diffs(base: &Value, now: &Value) -> (Vec<DeviceDiff>, Vec<String>) {
    let (mut base, mut now) = (devices(base), devices(now));
    let are_ranked = base.iter().chain(&now).all(|one| one.of_rank.is_some());
    let (mut pairs, mut unpaired) = (Vec::new(), Vec::new());
    if are_ranked {
        now.sort_by_key(|one| one.of_rank);
    }
    for device in now {
        let same = |one: &ReportDevice<'_>| !are_ranked || one.of_rank == device.of_rank;
        match base.iter().position(same) {
            Some(place) => {
                let earlier = base.remove(place);
                let records = earlier.records.max(device.records);
                let figures = [earlier.figures, device.figures];
                pairs.push(DeviceDiff::of(&device.name, figures, records));
            }
            None => unpaired.push(device.name),
        }
    }
    unpaired.extend(base.into_iter().map(|one| format!("{} of the base", one.name)));
    (pairs, unpaired)
}

impl DeviceDiff {
    fn of(name: &str, devices: [&Value; 2], records: Records) -> Self {
        let in_steps = devices.map(|device| device["figures_of"] == "steps");
        let steps = devices.map(Steps::of);
        let per_step = in_steps == [true; 2] && steps.iter().all(Option::is_some);
        let incomparable = match records {
            Records::Lost => Some("records of a run were lost"),
            Records::WithoutEnd if !per_step => Some("a run without steps has no end in its trace"),
            _ if per_step || in_steps == [false; 2] => None,
            _ => Some("only one of the runs has steps"),
        };
        let (comparable, is_told) = (incomparable.is_none(), records < Records::Lost);
        let share = |value: f64, place: usize| match (per_step, steps[place]) {
            (true, Some(steps)) => value / steps.count,
            _ => value,
        };
        let figure = |of: &dyn Fn(&Value) -> Option<f64>| {
            let value = |place: usize| {
                of(devices[place]).filter(|_| comparable).map(|value| share(value, place))
            };
            Figure { base: value(0), now: value(1) }
        };
        // A report without an engine has no time of it; one without the list tells nothing.
        let busy = |device: &Value, names: &[&str]| -> Option<f64> {
            let engines = device["engines"].as_array()?;
            let is_one =
                |one: &&Value| one["name"].as_str().is_some_and(|name| names.contains(&name));
            engines.iter().filter(is_one).map(|one| one["busy_ns"].as_f64()).sum()
        };
        let medians = steps.map(|steps| steps.filter(|_| is_told).map(|steps| steps.median));
        let kernels = parts(devices, "kernels", "name", ["total_ns", "launches"]);
        let by_kernel = kernels.into_iter().map(|(name, values)| KernelDiff {
            time: figure_of(&values, 0, comparable, share),
            launches: figure_of(&values, 1, comparable, share),
            is_gone: values[1].is_none(),
            name,
        });
        let findings = parts(devices, "findings", "key", ["cost_ns", "count"]);
        let by_finding = findings.into_iter().map(|(key, values)| FindingDiff {
            title: title(devices, &key),
            cost: Figure {
                base: values[0].map(|value| share(value[0], 0)),
                now: values[1].map(|value| share(value[0], 1)),
            },
            key,
        });
        Self {
            name: name.to_owned(),
            steps,
            per_step,
            incomparable,
            step: Figure { base: medians[0], now: medians[1] },
            kernels: figure(&|device| busy(device, &["kernels"])),
            idle: figure(&|device| device["idle"]["total_ns"].as_f64()),
            copies: figure(&|device| busy(device, &COPIES)),
            by_kernel: by_kernel.collect(),
            by_finding: by_finding.collect(),
            has_findings: devices.map(|device| is_told && device["findings"].is_array()),
        }
    }

    /// The numbers of remarks. Unknown if the report has no list of them.
    pub(super) fn findings(&self) -> Figure {
        let count = |place: usize| {
            let has = |one: &&FindingDiff| [one.cost.base, one.cost.now][place].is_some();
            self.has_findings[place].then(|| self.by_finding.iter().filter(has).count() as f64)
        };
        Figure { base: count(0), now: count(1) }
    }

    /// The time of the kernels with a name. The new run does not tell the time of a kernel that it
    /// does not have: the kernel may have another name.
    pub(super) fn kernel(&self, name: &str) -> Figure {
        let found = self.by_kernel.iter().find(|one| one.name == name);
        let Some(KernelDiff { time, is_gone, .. }) = found else {
            return Figure { base: None, now: None };
        };
        Figure { now: time.now.filter(|_| !is_gone), ..*time }
    }

    /// Whether the median of one run lies in the spread of the other. `None` without steps.
    fn is_within_spread(&self) -> Option<bool> {
        let [base, now] = self.steps;
        let (base, now) = (base?, now?);
        Some(base.has_in_spread(now.median) || now.has_in_spread(base.median))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let unit = if self.per_step { "for each step" } else { "for the whole run" };
        let mut lines = vec![match self.incomparable {
            None => format!("  {}, {unit}:", self.name),
            Some(cause) => format!("  {}: {cause}, so only remarks are listed", self.name),
        }];
        let metric = |name: &str, figure: Figure| {
            format!("    {name:<10}{}", figure.words(MetricUnit::Time))
        };
        if let ([Some(base), Some(now)], Some(within)) = (self.steps, self.is_within_spread()) {
            let words = if within { "within" } else { "beyond" };
            lines.push(format!(
                "{}; {words} the spread: eight in ten steps took {} before, and {} now",
                metric("step", self.step),
                base.spread(),
                now.spread()
            ));
        }
        if self.incomparable.is_none() {
            let metrics = [("kernels", self.kernels), ("idle", self.idle), ("copies", self.copies)];
            lines.extend(metrics.map(|(name, figure)| metric(name, figure)));
            lines.extend(self.kernel_lines());
        }
        lines.extend(self.finding_lines());
        lines
    }

    /// The kernels whose times differ most.
    fn kernel_lines(&self) -> Vec<String> {
        let change = |one: &KernelDiff| one.time.now.unwrap_or(0.0) - one.time.base.unwrap_or(0.0);
        let mut changed: Vec<_> = self.by_kernel.iter().filter(|one| change(one) != 0.0).collect();
        changed.sort_by(|a, b| change(b).abs().total_cmp(&change(a).abs()));
        let line = |one: &&KernelDiff| {
            let sign = if change(one) < 0.0 { "-" } else { "+" };
            let launches = |value: Option<f64>| value.unwrap_or(0.0);
            format!(
                "      {:>12}  {:.1} -> {:.1} x  {}",
                format!("{sign}{}", time(change(one).abs())),
                launches(one.launches.base),
                launches(one.launches.now),
                one.name
            )
        };
        let lines = changed.iter().take(LISTED_MAX).map(line);
        let head = (!changed.is_empty()).then(|| "    kernels by change:".to_owned());
        head.into_iter().chain(lines).collect()
    }

    fn finding_lines(&self) -> Vec<String> {
        let line = |one: &FindingDiff| {
            let FindingDiff { key, title, cost } = one;
            match (cost.base, cost.now) {
                (None, Some(now)) => Some(format!("    new:  {key} {} ({title})", time(now))),
                (Some(base), None) => Some(format!("    gone: {key} {} ({title})", time(base))),
                _ => None,
            }
        };
        self.by_finding.iter().filter_map(line).take(LISTED_MAX).collect()
    }

    pub(super) fn json(&self) -> Value {
        let figure = |one: Figure| json!({ "base_ns": one.base, "now_ns": one.now, "change_percent": one.percent() });
        let spread = |steps: Option<Steps>| {
            steps.map(|steps| json!({ "p10_ns": steps.tenth, "p90_ns": steps.ninetieth }))
        };
        let kernel = |one: &KernelDiff| {
            json!({
                "name": one.name,
                "time": figure(one.time),
                "base_launches": one.launches.base,
                "now_launches": one.launches.now,
            })
        };
        let finding = |one: &FindingDiff| {
            json!({
                "key": one.key,
                "title": one.title,
                "base_ns": one.cost.base,
                "now_ns": one.cost.now,
            })
        };
        json!({
            "name": self.name,
            "figures_of": if self.per_step { "step" } else { "run" },
            "comparable": self.incomparable.is_none(),
            "step": figure(self.step),
            "base_spread": spread(self.steps[0]),
            "now_spread": spread(self.steps[1]),
            "within_spread": self.is_within_spread(),
            "kernels": figure(self.kernels),
            "idle": figure(self.idle),
            "copies": figure(self.copies),
            "by_kernel": self.by_kernel.iter().map(kernel).collect::<Vec<_>>(),
            "by_finding": self.by_finding.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

/// Two numbers of a part in both runs. `None` for a run without it.
type InBothRuns = [Option<[f64; 2]>; 2];

/// The parts of both devices by name, with two numbers each. Parts of one name are added up.
fn parts(
    devices: [&Value; 2],
    list: &str,
    name: &str,
    numbers: [&str; 2],
) -> BTreeMap<String, InBothRuns> {
    let mut found: BTreeMap<String, InBothRuns> = BTreeMap::new();
    for (place, device) in devices.into_iter().enumerate() {
        for part in device[list].as_array().into_iter().flatten() {
            let Some(name) = part[name].as_str() else { continue };
            // A base may be any document.
            let sums = found.entry(readable_name(name)).or_default()[place].get_or_insert([0.0; 2]);
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += part[number].as_f64().unwrap_or(0.0);
            }
        }
    }
    found
}

/// A figure of a part. A run without the part has 0 of it.
fn figure_of(
    values: &InBothRuns,
    number: usize,
    comparable: bool,
    share: impl Fn(f64, usize) -> f64,
) -> Figure {
    let value = |place: usize| {
        let value = values[place].map_or(0.0, |values| values[number]);
        comparable.then(|| share(value, place))
    };
    Figure { base: value(0), now: value(1) }
}

/// The title of a remark.
fn title(devices: [&Value; 2], key: &str) -> String {
    let lists = devices.iter().filter_map(|device| device["findings"].as_array());
    let mut all = lists.flatten().filter(|one| one["key"] == key);
    let title = all.next().and_then(|one| one["title"].as_str());
    readable_name(title.unwrap_or_default())
}
