//! Verdicts of the checker: as text, as JSON and as an exit status.
#![forbid(unsafe_code)]

use super::print;
use serde_json::{Value, json};
use std::process::ExitCode;
use trijet::check::{Finding, Names, Party, Verdict};
use trijet::{Device, Result};

/// The verdict about everything that a command has done on its device; `None` without `--check`.
#[derive(Debug, Default)]
pub(super) struct Live(Option<Verdict>);

impl Live {
    /// Takes the verdict about all calls so far.
    pub(super) fn of(device: &Device) -> Self {
        Self(device.verdict())
    }

    /// Adds the verdict to the JSON object of a command, as its field `check`.
    pub(super) fn add_to(&self, value: &mut Value) {
        if let Some(verdict) = &self.0 {
            value["check"] = self::json(verdict);
        }
    }

    /// Prints the verdict and its findings.
    pub(super) fn print(&self) -> Result<()> {
        match &self.0 {
            Some(verdict) => print(format_args!("check: {}", verdict.text(&Names::default()))),
            None => Ok(()),
        }
    }

    /// The exit status of a command that is otherwise successful.
    pub(super) fn exit_code(&self) -> ExitCode {
        self.0.as_ref().map_or(ExitCode::SUCCESS, exit_code)
    }
}

/// The exit status for a verdict: failure if there is an error among the findings.
pub(super) fn exit_code(verdict: &Verdict) -> ExitCode {
    if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A verdict with its findings.
pub(super) fn json(verdict: &Verdict) -> Value {
    let names = Names::default();
    let findings = verdict.findings.iter().map(|one| finding(one, &names));
    json!({
        "entries": verdict.ops,
        "accesses": verdict.accesses,
        "undeclared": verdict.undeclared,
        "poisoned": verdict.poisoned,
        "clean": verdict.is_clean(),
        "summary": verdict.summary(),
        "findings": findings.collect::<Vec<_>>(),
        "more_findings": verdict.more,
    })
}

/// A finding.
pub(super) fn finding(finding: &Finding, names: &Names) -> Value {
    json!({
        "class": finding.class.code(),
        "severity": format!("{:?}", finding.class.severity()).to_lowercase(),
        "first": finding.first.as_ref().map(party),
        "second": party(&finding.second),
        "block": finding.block.map(|block| block.0),
        "ranges": finding.ranges.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>(),
        "order_known": finding.known,
        "fix": finding.fix,
        "rules": finding.rules,
        "witness": finding.witness.map(|witness| json!({
            "byte": witness.byte,
            "in_order_of_calls": format!("{:08x}", witness.kept),
            "in_other_order": format!("{:08x}", witness.swapped),
        })),
        "text": finding.text(names),
    })
}

fn party(party: &Party) -> Value {
    json!({
        "op": party.op,
        "label": party.label,
        "site": party.site.as_ref().map(ToString::to_string),
        "device": party.device.0,
        "stream": (!party.is_of_thread()).then_some(party.position.lane.0),
        "position": (!party.is_of_thread()).then_some(party.position.seq),
        "thread": party.thread,
    })
}
