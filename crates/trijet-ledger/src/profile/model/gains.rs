//! The times that fixes save: each alone, and the best ones together.
#![forbid(unsafe_code)]

use super::super::findings::Habit;
use super::fixes::{RunFix, RunFixes};
use super::run::{RunModel, length};
use crate::base::lint::{FEWER_LAUNCHES, Rule};
use crate::base::units::Nanos;
use std::ops::Range;

/// Maximum number of fixes that are combined.
const TOGETHER_MAX: usize = 3;
/// A fix is added to a combination if it saves more than one part in this many of the time.
const SHARE_MIN: u64 = 100;

/// The gain of several fixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TogetherGain {
    /// The rules whose fixes are combined, in the order of their gains.
    pub rules: Vec<Rule>,
    /// The time that all of these fixes save together.
    pub gain: Nanos,
}

/// The replayed times of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gains {
    /// The measured time from the first operation to the end of the last one.
    pub measured: Nanos,
    /// The same time in the replay of the unchanged run. The difference is the error of the model.
    pub replayed: Nanos,
    /// The gains of combined fixes: of the best one, of it and the next one, and so on.
    pub together: Vec<TogetherGain>,
}

impl Gains {
    /// The error of the model, as a fraction of the measured time. It is negative if the replay
    /// takes less than the measured time.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.replayed.0 as f64 - self.measured.0 as f64) / self.measured.0.max(1) as f64
    }
}

/// The fix of a finding, if the model has it.
fn fix_of(finding: &Habit) -> Option<RunFix> {
    if finding.rule != Rule::GpuIdle {
        return RunFix::of(finding.rule);
    }
    match finding.fix {
        FEWER_LAUNCHES => Some(RunFix::Graph),
        words if words == Rule::HostLate.fix() => Some(RunFix::EarlyHost),
        // Another finding has the cause of the idle time.
        _ => None,
    }
}

/// Sets the gains of findings about a device, and returns the gains of their fixes together. `None`
/// if no operation of the device is inside the window.
pub(in crate::profile) fn of(
    model: &RunModel,
    device: u32,
    window: &Range<u64>,
    findings: &mut [Habit],
) -> Option<Gains> {
    let operations = model.inside(device, window);
    if operations.is_empty() {
        return None;
    }
    let measured = length(operations.iter().map(|one| [one.time.start, one.time.end]));
    let replayed = model.replay(&operations, RunFixes::default());
    let gain = |set| replayed.saturating_sub(model.replay(&operations, set));
    let mut fixes = Vec::new();
    for finding in findings.iter_mut() {
        if let Some(fix) = fix_of(finding) {
            let alone = gain(RunFixes::default().with(fix));
            finding.gain = Some(Nanos(alone));
            fixes.push((finding.rule, fix, alone));
        }
    }
    let mut together: Vec<TogetherGain> = Vec::new();
    let (mut set, mut rules, mut last) = (RunFixes::default(), Vec::new(), 0);
    while rules.len() < TOGETHER_MAX {
        let with = |(rule, fix, alone): &(Rule, RunFix, u64)| {
            let sum = if rules.is_empty() { *alone } else { gain(set.with(*fix)) };
            (sum, *rule, *fix)
        };
        let best =
            fixes.iter().map(with).max_by_key(|(sum, rule, _)| (*sum, std::cmp::Reverse(*rule)));
        let Some((sum, rule, fix)) = best else { break };
        if sum.saturating_sub(last) <= measured / SHARE_MIN {
            break;
        }
        fixes.retain(|(_, other, _)| *other != fix);
        (set, last) = (set.with(fix), sum);
        rules.push(rule);
        together.push(TogetherGain { rules: rules.clone(), gain: Nanos(sum) });
    }
    Some(Gains { measured: Nanos(measured), replayed: Nanos(replayed), together })
}
