//! The comparison of a plan with an earlier one. Both are documents of `trijet map --plan --json`.
#![forbid(unsafe_code)]

use crate::against::{Answers, Condition, Figure, Metric, PlanMetric};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{file_error, shown};

/// A comparison with the answers of its conditions.
#[derive(Debug)]
pub(super) struct PlanComparison {
    base: String,
    figures: Vec<(PlanMetric, Figure)>,
    answers: Answers,
}

/// The document of an earlier plan.
fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|error| file_error::io("map", path, error))?;
    let refused = |why: String| {
        let cause = format!("{} is no plan of `trijet map --plan --json`{why}", shown(path));
        Error::new(ErrorKind::InvalidValue, "map", cause)
    };
    let plan: Value = serde_json::from_str(&text).map_err(|error| refused(format!(": {error}")))?;
    let is_plan = plan["command"] == "map" && plan["copies_ns"].is_u64();
    if is_plan { Ok(plan) } else { Err(refused(String::new())) }
}

impl PlanComparison {
    /// Compares a plan with the one at `path`.
    pub(super) fn of(
        path: &Path,
        conditions: &[Condition<PlanMetric>],
        now: &Value,
    ) -> Result<Self> {
        let base = read(path)?;
        let figure = |metric: PlanMetric| {
            let [base, now] = [&base, now].map(|plan| plan[metric.words()[1]].as_f64());
            Figure { base, now }
        };
        let mut answers = Answers::default();
        for condition in conditions {
            answers.add(condition, &[(String::new(), figure(*condition.metric()))]);
        }
        let figures = PlanMetric::ALL.map(|metric| (metric, figure(metric))).into();
        Ok(Self { base: shown(path).to_string(), figures, answers })
    }

    /// A failure if a condition failed.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.answers.is_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// The figures that differ, and the conditions.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("against {}", self.base)];
        let differing = self.figures.iter().filter(|(_, figure)| figure.base != figure.now);
        lines.extend(differing.map(|(metric, figure)| {
            format!("  {}: {}", metric.words()[0], figure.words(metric.unit()))
        }));
        if lines.len() == 1 {
            lines.push("  all figures are equal".to_owned());
        }
        lines.extend(self.answers.lines());
        lines
    }

    pub(super) fn json(&self) -> Value {
        let figure = |(metric, of): &(PlanMetric, Figure)| {
            (metric.words()[0].to_owned(), json!({ "base": of.base, "now": of.now }))
        };
        let mut all: Map<String, Value> = self.figures.iter().map(figure).collect();
        all.insert("base".to_owned(), self.base.clone().into());
        all.insert("conditions".to_owned(), self.answers.json());
        all.insert("failed".to_owned(), self.answers.is_failed().into());
        all.into()
    }
}
