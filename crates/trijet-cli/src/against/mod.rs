//! Conditions under which the comparison of a run with an earlier one fails.
#![forbid(unsafe_code)]

mod condition;
mod metric;

pub(crate) use condition::{Condition, Figure, Metric, MetricUnit, time};
pub(crate) use metric::{LedgerMetric, PlanMetric, TraceMetric};

use serde_json::{Value, json};

/// A condition with its answer.
#[derive(Debug)]
pub(crate) struct Answer {
    condition: String,
    /// Whether the condition holds. `None` if the runs do not tell.
    holds: Option<bool>,
    /// The figures that decide.
    figures: String,
}

/// The answers of all conditions.
#[derive(Debug, Default)]
pub(crate) struct Answers(Vec<Answer>);

impl Answers {
    /// Answers a condition about one or more figures with their names: it holds if it does for any
    /// of them, and is open if it holds for none and one of them is unknown.
    pub(crate) fn add<M: Metric>(&mut self, condition: &Condition<M>, of: &[(String, Figure)]) {
        let answers: Vec<_> = of.iter().map(|(_, figure)| condition.holds(*figure)).collect();
        let deciding = answers.iter().position(|one| *one == Some(true));
        let deciding = deciding.or_else(|| answers.iter().position(Option::is_none));
        let (holds, figures) = match deciding.or((!of.is_empty()).then_some(0)) {
            Some(place) => {
                let (name, figure) = &of[place];
                let name = if of.len() > 1 { format!("{name}: ") } else { String::new() };
                (answers[place], format!("{name}{}", figure.words(condition.metric().unit())))
            }
            None => (None, "there is nothing to compare".to_owned()),
        };
        self.0.push(Answer { condition: condition.text().to_owned(), holds, figures });
    }

    /// Whether a condition holds or could not be answered.
    pub(crate) fn is_failed(&self) -> bool {
        self.0.iter().any(|one| one.holds != Some(false))
    }

    /// A line for each condition.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |one: &Answer| {
            let verdict = match one.holds {
                Some(true) => "FAILED",
                Some(false) => "passed",
                None => "FAILED, because it cannot be answered",
            };
            format!("  {}: {verdict} ({})", one.condition, one.figures)
        };
        self.0.iter().map(line).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let answer = |one: &Answer| {
            json!({
                "condition": one.condition,
                "holds": one.holds,
                "text": one.figures,
            })
        };
        self.0.iter().map(answer).collect()
    }
}
