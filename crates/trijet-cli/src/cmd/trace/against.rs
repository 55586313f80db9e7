//! The comparison of a trace with an earlier one, or with the JSON of an earlier report.
//!
//! Both are compared as the JSON of `trijet trace --json`, so a base may be any trace or such a
//! document. The figures of a device are for each step if both runs have steps. Figures of a run
//! with steps and of one without are not comparable.
#![forbid(unsafe_code)]

use super::diff::{DeviceDiff, diffs};
use crate::against::{Answers, Figure, TraceMetric};
use crate::args::TraceOptions;
use serde_json::{Value, json};
use std::process::ExitCode;
use trijet_io::shown;

/// The figure of a device that a condition is about.
fn figure(metric: &TraceMetric, of: &DeviceDiff) -> Figure {
    match metric {
        TraceMetric::Step => of.step,
        TraceMetric::Kernels => of.kernels,
        TraceMetric::Idle => of.idle,
        TraceMetric::Copies => of.copies,
        TraceMetric::Findings => of.findings(),
        TraceMetric::Kernel(name) => of.kernel(name),
    }
}

/// A comparison with the answers of its conditions.
#[derive(Debug)]
pub(crate) struct Comparison {
    base: String,
    devices: Vec<DeviceDiff>,
    /// Devices of one run alone.
    unpaired: Vec<String>,
    answers: Answers,
}

impl Comparison {
    /// Compares a report with the base of the options. `None` without a base.
    pub(super) fn of(options: &TraceOptions, base: Option<&Value>, now: &Value) -> Option<Self> {
        let (base, path) = (base?, options.against.as_ref()?);
        let (devices, unpaired) = diffs(base, now);
        let mut answers = Answers::default();
        for condition in &options.fail_if {
            let of = |one: &DeviceDiff| (one.name.clone(), figure(condition.metric(), one));
            let mut figures: Vec<_> = devices.iter().map(of).collect();
            let unknown = Figure { base: None, now: None };
            figures.extend(unpaired.iter().map(|name| (name.clone(), unknown)));
            answers.add(condition, &figures);
        }
        Some(Self { base: shown(path).to_string(), devices, unpaired, answers })
    }

    /// A failure if a condition failed.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.answers.is_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// The lines of the comparison.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("against {}", self.base)];
        lines.extend(self.devices.iter().flat_map(DeviceDiff::lines));
        let unpaired = self.unpaired.iter();
        lines.extend(unpaired.map(|name| format!("  {name}: nothing to compare it with")));
        lines.extend(self.answers.lines());
        lines
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "base": self.base,
            "devices": self.devices.iter().map(DeviceDiff::json).collect::<Vec<_>>(),
            "unpaired": self.unpaired,
            "conditions": self.answers.json(),
            "failed": self.answers.is_failed(),
        })
    }
}
