//! The environment of a device during a run: its clocks, its temperature, its power and its fan,
//! from the samples that CUPTI takes every few milliseconds to seconds.
//!
//! The figures cover the whole run. A clock that falls makes the times of equal kernels differ, so
//! a fall by more than a tenth is stated. Samples of an idle device do not count for it, because
//! its clocks are low on purpose.
#![forbid(unsafe_code)]

use super::super::activities::is_timed;
use crate::base::units::Nanos;
use crate::trace::activity::{EnvironmentSample, ProcessTrace, SampleOf};
use std::ops::Range;

/// The least, the median and the largest of several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueSpread {
    /// The least value.
    pub least: u32,
    /// The median.
    pub median: u32,
    /// The largest value.
    pub most: u32,
}

/// A reason why clocks are low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReason {
    /// The name for filters.
    pub key: &'static str,
    /// The reason in words.
    pub text: &'static str,
    /// The number of samples with this reason.
    pub samples: usize,
}

/// A fall of the clock of the multiprocessors by more than a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockFall {
    /// The highest clock before, in MHz.
    pub from: u32,
    /// The lowest clock after it, in MHz.
    pub to: u32,
    /// The time of the sample with the lowest clock, since the start of the trace.
    pub at: Nanos,
}

/// The environment of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEnvironment {
    /// The number of samples of clocks.
    pub samples: usize,
    /// The clock of the multiprocessors in MHz.
    pub sm: Option<ValueSpread>,
    /// The clock of the memory in MHz.
    pub memory: Option<ValueSpread>,
    /// The temperature in degrees Celsius.
    pub temperature: Option<ValueSpread>,
    /// The power in milliwatts.
    pub power: Option<ValueSpread>,
    /// The last limit of the power in milliwatts.
    pub power_limit: Option<u32>,
    /// The speed of the fan in percent.
    pub fan: Option<ValueSpread>,
    /// The reasons for low clocks, each in at least one sample.
    pub reasons: Vec<ClockReason>,
    /// The largest fall of the clock of the multiprocessors while the device had work.
    pub fall: Option<ClockFall>,
}

/// The bit of `CUpti_EnvironmentClocksThrottleReason` for an idle device.
const IDLE: u32 = 1;

/// The other bits, with a name and words for each. The remaining bits are an unknown reason.
const REASONS: [(u32, &str, &str); 4] = [
    (IDLE, "gpu_idle", "idle GPU"),
    (2, "application_clocks", "clocks that a user set"),
    (4, "power_limit", "limit of the power"),
    (8, "hardware", "hardware, by heat or power"),
];

/// The bit for a device that reports no reasons.
const UNSUPPORTED: u32 = 1 << 30;

impl ValueSpread {
    /// `None` without values.
    fn of(values: impl Iterator<Item = u32>) -> Option<Self> {
        let mut values: Vec<u32> = values.collect();
        values.sort_unstable();
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { least, median: values[values.len() / 2], most })
    }

    /// The values in words, divided by `unit`.
    fn words(self, name: &str, sign: &str, unit: u32) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(|one| one / unit);
        format!("{name} {median} {sign} (least {least}, most {most})")
    }
}

impl DeviceEnvironment {
    /// The environment of a device. `None` without samples of it.
    pub(in crate::profile) fn of(trace: &ProcessTrace, device: u32) -> Option<Self> {
        let mut samples: Vec<&EnvironmentSample> =
            trace.samples.iter().filter(|one| one.device == device).collect();
        if samples.is_empty() {
            return None;
        }
        samples.sort_by_key(|one| one.at);
        let values = |value: fn(SampleOf) -> Option<u32>| {
            ValueSpread::of(samples.iter().filter_map(|one| value(one.of)))
        };
        let clocks = || {
            samples.iter().filter_map(|one| match one.of {
                SampleOf::Clocks { sm, reasons, .. } => Some((one.at, sm, reasons)),
                _ => None,
            })
        };
        let power_limit = samples.iter().rev().find_map(|one| match one.of {
            SampleOf::Power { limit, .. } => Some(limit),
            _ => None,
        });
        let work = work(trace, device);
        let busy = clocks()
            .filter(|(at, sm, reasons)| work.contains(&at.0) && *sm > 0 && reasons & IDLE == 0);
        Some(Self {
            samples: clocks().count(),
            sm: values(|of| match of {
                SampleOf::Clocks { sm, .. } => Some(sm),
                _ => None,
            }),
            memory: values(|of| match of {
                SampleOf::Clocks { memory, .. } => Some(memory),
                _ => None,
            }),
            temperature: values(|of| match of {
                SampleOf::Temperature(degrees) => Some(degrees),
                _ => None,
            }),
            power: values(|of| match of {
                SampleOf::Power { power, .. } => Some(power),
                _ => None,
            }),
            power_limit,
            fan: values(|of| match of {
                SampleOf::Fan(percent) => Some(percent),
                _ => None,
            }),
            reasons: reasons(clocks().map(|(_, _, reasons)| reasons)),
            fall: fall(busy.map(|(at, sm, _)| (at, sm)), trace.began),
        })
    }

    /// The sentences about the environment.
    pub(in crate::profile) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let parts = [
            self.sm.map(|sm| sm.words("clock of the multiprocessors", "MHz", 1)),
            self.memory.map(|memory| memory.words("of the memory", "MHz", 1)),
            self.temperature.map(|degrees| degrees.words("temperature", "C", 1)),
            self.power.map(|power| power.words("power", "W", 1000)),
            self.power_limit.map(|limit| format!("limit {} W", limit / 1000)),
            self.fan.map(|fan| fan.words("fan", "%", 1)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            sentences.push(format!("environment, medians of the whole run: {}", parts.join(", ")));
        }
        if !self.reasons.is_empty() {
            let reasons: Vec<String> =
                self.reasons.iter().map(|one| format!("{} {}", one.text, one.samples)).collect();
            sentences.push(format!(
                "reasons for low clocks, in how many of {} samples: {}",
                self.samples,
                reasons.join(", ")
            ));
        }
        sentences.extend(self.fall.map(|ClockFall { from, to, at }| {
            format!(
                "note: the clock of the multiprocessors fell from {from} to {to} MHz, lowest at \
                 {at} of the trace; the same kernels take longer at a lower clock"
            )
        }));
        sentences
    }
}

/// The time from the first operation of a device to its last, in nanoseconds.
fn work(trace: &ProcessTrace, device: u32) -> Range<u64> {
    let operations = trace
        .activities
        .iter()
        .filter(|one| one.device == device && one.engine().is_some() && is_timed(one));
    operations
        .map(|one| one.begin.0..one.end.0)
        .reduce(|hull, one| hull.start.min(one.start)..hull.end.max(one.end))
        .unwrap_or(0..0)
}

/// The reasons of these samples, each with the number of samples that have it.
fn reasons(samples: impl Iterator<Item = u32> + Clone) -> Vec<ClockReason> {
    let known = REASONS.iter().fold(UNSUPPORTED, |bits, (bit, ..)| bits | bit);
    let others = (!known, "unknown", "others");
    let reason = |(bits, key, text): (u32, &'static str, &'static str)| ClockReason {
        key,
        text,
        samples: samples.clone().filter(|reasons| reasons & bits != 0).count(),
    };
    let all = REASONS.into_iter().chain([others]).map(reason);
    all.filter(|one| one.samples > 0).collect()
}

/// The largest fall from a clock to a later one, if it is more than a tenth. The samples are sorted
/// by time.
fn fall(samples: impl Iterator<Item = (Nanos, u32)>, began: Nanos) -> Option<ClockFall> {
    let mut highest = 0;
    let mut found: Option<ClockFall> = None;
    for (at, clock) in samples {
        highest = highest.max(clock);
        let is_low = u64::from(clock) * 10 < u64::from(highest) * 9;
        let is_larger = found.is_none_or(|before| highest - clock > before.from - before.to);
        if is_low && is_larger {
            let at = Nanos(at.0.saturating_sub(began.0));
            found = Some(ClockFall { from: highest, to: clock, at });
        }
    }
    found
}
