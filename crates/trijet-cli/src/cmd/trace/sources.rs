//! The lines of the program at the longest times of remarks, where the profiler recorded stacks.
//!
//! A time of an operation has the stack of the call that enqueued it. A time in which nothing ran
//! has the stack of the call of that time, or else of the thread with the most calls.
#![forbid(unsafe_code)]

use super::foreign::read_error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::Result;
use trijet::trace::activity::{Activity, ActivityKind, ProcessTrace};
use trijet_io::file_error;
use trijet_ledger::profile::{Profile, readable_name};
use trijet_traces::kineto::{StackMoment, stacks};

/// Maximum number of functions of a stack that are shown.
const SHOWN_MAX: usize = 6;

/// The place of a remark in a report.
#[derive(Debug, Clone, Copy)]
struct RemarkPlace {
    process: usize,
    device: usize,
    remark: usize,
}

/// The sources of remarks.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<(RemarkPlace, String)>);

impl Sources {
    /// Reads the files again whose traces have stacks. `files` has the file of each trace.
    pub(super) fn of(
        files: &[PathBuf],
        traces: &[ProcessTrace],
        profile: &Profile,
    ) -> Result<Self> {
        let mut found = Vec::new();
        let mut by_file: BTreeMap<&Path, Vec<(RemarkPlace, StackMoment)>> = BTreeMap::new();
        for (process, (file, trace)) in files.iter().zip(traces).enumerate() {
            if trace.has_stacks {
                by_file.entry(file).or_default().extend(moments(process, trace, profile));
            }
        }
        for (path, places) in by_file {
            let open = File::open(path).map_err(|error| file_error::io("trace", path, error))?;
            let moments: Vec<StackMoment> = places.iter().map(|(_, moment)| *moment).collect();
            let names = stacks(open, &moments).map_err(|error| read_error(path, error))?;
            let shown = places.iter().zip(names).filter(|(_, names)| !names.is_empty());
            found.extend(shown.map(|((place, _), names)| (*place, words(&names))));
        }
        Ok(Self(found))
    }

    /// The lines below a report.
    pub(super) fn lines(&self, profile: &Profile) -> Vec<String> {
        let line = |(place, words): &(RemarkPlace, String)| {
            let process = &profile.processes[place.process];
            let device = &process.devices[place.device];
            let key = device.findings[place.remark].rule.name();
            format!("  {key} (process {}, device {}): {words}", process.process, device.device)
        };
        let head = "the longest times of remarks, by the stacks in the trace, innermost first:";
        let head = (!self.0.is_empty()).then(|| head.to_owned());
        head.into_iter().chain(self.0.iter().map(line)).collect()
    }

    /// Adds the sources to the remarks of a report.
    pub(super) fn add_to(&self, report: &mut Value) {
        for (place, words) in &self.0 {
            let device = &mut report["processes"][place.process]["devices"][place.device];
            let sources = &mut device["findings"][place.remark]["sources"];
            match sources {
                Value::Array(all) => all.push(words.as_str().into()),
                other => *other = vec![words.as_str()].into(),
            }
        }
    }
}

/// The innermost functions.
fn words(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN_MAX).map(|name| readable_name(name)).collect();
    shown.join(" < ")
}

/// The moments of the longest times of all remarks of a process.
fn moments(
    process: usize,
    trace: &ProcessTrace,
    profile: &Profile,
) -> Vec<(RemarkPlace, StackMoment)> {
    let devices = profile.processes[process].devices.iter().enumerate();
    devices
        .flat_map(|(device, of)| {
            of.findings.iter().enumerate().flat_map(move |(remark, finding)| {
                let place = RemarkPlace { process, device, remark };
                let times = finding.places.iter();
                times.filter_map(move |time| Some((place, moment(trace, of.device, time)?)))
            })
        })
        .collect()
}

/// The moment of the host that a time of a device belongs to.
fn moment(trace: &ProcessTrace, device: u32, time: &Range<u64>) -> Option<StackMoment> {
    let calls = || trace.activities.iter().filter(|one| matches!(one.kind, ActivityKind::Call(_)));
    let runs = |one: &&Activity, at: u64| one.begin.0 <= at && at < one.end.0;
    let operation = trace
        .activities
        .iter()
        .find(|one| one.engine().is_some() && one.device == device && runs(one, time.start));
    let enqueued = operation.filter(|one| one.correlation > 0);
    let by_number =
        enqueued.and_then(|operation| calls().find(|one| one.correlation == operation.correlation));
    let middle = time.start + (time.end - time.start) / 2;
    let call = by_number.or_else(|| calls().find(|one| runs(one, middle)));
    let (thread, at) = match call {
        Some(call) => (call.thread, call.begin.0),
        None => {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            calls().for_each(|one| *counts.entry(one.thread).or_default() += 1);
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            (most?.0, middle)
        }
    };
    Some(StackMoment { thread, at: at.cast_signed().saturating_sub(trace.moved) })
}
