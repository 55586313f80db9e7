//! The verdict on a claim. It follows from the measured times and results alone.
#![forbid(unsafe_code)]

use crate::lesson::{BAD, Expect, Lesson};
use crate::outcome::Outcome;

/// Two times are equal if the larger time is less than 1 + `EQUAL` times the smaller time.
const EQUAL: f64 = 0.05;

/// Whether the claim is true of this run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The times or results are as the claim states.
    Holds,
    /// The times or results are the opposite of the claim.
    Fails,
    /// The times show no difference, although the claim states a difference.
    NoDifference,
    /// The device cannot show the claim: its times come from a model that lacks the effect of the
    /// claim.
    NotShown,
}

/// The verdict on a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Whether the claim is true of this run.
    pub judgement: Judgement,
    /// The verdict in one sentence.
    pub sentence: String,
}

/// The times and results from which a verdict follows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    /// The median time of each form, in milliseconds.
    pub(crate) ms: Vec<f64>,
    /// The least time that any form can take, in milliseconds.
    pub(crate) bound_ms: Option<f64>,
    /// The number of runs of the first form with a wrong result, and the number of all runs of the
    /// first form.
    pub(crate) wrong: (usize, usize),
    /// Whether the first form got the expected remark or finding, and the last form did not get it.
    pub(crate) is_found: bool,
    pub(crate) is_modelled: bool,
    /// For each form, the figures that are not times, as a clause.
    pub(crate) seen: Vec<Option<String>>,
}

impl Outcome {
    fn figures(&self) -> Figures {
        let first = &self.forms[BAD];
        Figures {
            ms: self.forms.iter().map(crate::outcome::FormOutcome::median_ms).collect(),
            bound_ms: self.bound().map(|(_, busy)| busy.0 as f64 * 1e-6),
            wrong: (first.wrong, first.runs),
            is_found: self.is_as_expected(),
            is_modelled: self.is_modelled,
            seen: self.forms.iter().map(|form| form.seen.clone()).collect(),
        }
    }

    /// The verdict on the claim of the lesson.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.lesson.judge(&self.figures())
    }
}

/// A time as text, with its unit.
pub(crate) fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.1} us", ms * 1e3),
        ms if ms < 1e3 => format!("{ms:.2} ms"),
        ms => format!("{:.2} s", ms * 1e-3),
    }
}

impl Lesson {
    pub(crate) fn judge(&self, figures: &Figures) -> Verdict {
        if let (Some(lacks), true) = (self.unmodelled, figures.is_modelled) {
            let sentence = format!(
                "The results of all forms are right. {lacks}, so only a GPU can show the difference."
            );
            return Verdict { judgement: Judgement::NotShown, sentence };
        }
        let (judgement, sentence) = match self.expect {
            Expect::Faster => self.faster(figures),
            Expect::Equal => self.equal(figures),
            Expect::Between => self.between(figures),
            Expect::Race => self.race(figures),
        };
        Verdict { judgement, sentence: format!("{sentence}{}", self.seen(figures)) }
    }

    /// A sentence with the figures of the first form and of the last form that are not times.
    /// Without such figures, the sentence is empty.
    fn seen(&self, figures: &Figures) -> String {
        let forms = self.forms.iter().zip(&figures.seen);
        let clauses =
            forms.filter_map(|(name, seen)| Some(format!("\"{name}\": {}", seen.as_ref()?)));
        let clauses: Vec<String> = clauses.collect();
        match &clauses[..] {
            [first, .., last] => format!(" Seen with {first}; with {last}."),
            _ => String::new(),
        }
    }

    fn faster(&self, figures: &Figures) -> (Judgement, String) {
        let last = figures.ms.len() - 1;
        let [bad, good] = [figures.ms[BAD], figures.ms[last]];
        let [bad_name, good_name] = [self.forms[BAD], self.forms[last]];
        let ratio = bad / good;
        let of = self.timed.map_or_else(String::new, |timed| format!("{timed}: "));
        let times = format!("({of}{} and {})", time(bad), time(good));
        if ratio >= 1.0 + EQUAL {
            let text = format!(
                "The claim holds here: \"{bad_name}\" takes {ratio:.2} times as long as \
                 \"{good_name}\" {times}."
            );
            return (Judgement::Holds, text);
        }
        if ratio <= 1.0 / (1.0 + EQUAL) {
            let text = format!(
                "The claim does not hold here: \"{good_name}\" takes {:.2} times as long as \
                 \"{bad_name}\" ({} and {}).",
                1.0 / ratio,
                time(good),
                time(bad)
            );
            return (Judgement::Fails, text);
        }
        let why = match figures.bound_ms {
            Some(bound) if bound >= 0.9 * bad => {
                "; both are at the bound of the busiest engine, so there is nothing to gain"
            }
            _ => "",
        };
        let text = format!(
            "No difference shows here: \"{bad_name}\" and \"{good_name}\" take equal time \
             {times}{why}."
        );
        (Judgement::NoDifference, text)
    }

    /// The indices of the form with the least time and of the form with the greatest time.
    fn extremes(ms: &[f64]) -> (usize, usize) {
        let by = |a: &usize, b: &usize| ms[*a].total_cmp(&ms[*b]);
        let least = (0..ms.len()).min_by(by).unwrap_or(0);
        (least, (0..ms.len()).max_by(by).unwrap_or(0))
    }

    fn equal(&self, figures: &Figures) -> (Judgement, String) {
        let (least, most) = Self::extremes(&figures.ms);
        let ratio = figures.ms[most] / figures.ms[least];
        if ratio < 1.0 + EQUAL {
            let text = format!(
                "The claim holds here: all forms take {} within {:.0} %.",
                time(figures.ms[least]),
                ((ratio - 1.0) * 100.0).ceil()
            );
            return (Judgement::Holds, text);
        }
        let text = format!(
            "The claim does not hold here: \"{}\" takes {ratio:.2} times as long as \"{}\" ({} and \
             {}).",
            self.forms[most],
            self.forms[least],
            time(figures.ms[most]),
            time(figures.ms[least])
        );
        (Judgement::Fails, text)
    }

    fn between(&self, figures: &Figures) -> (Judgement, String) {
        let (least, _) = Self::extremes(&figures.ms);
        let last = figures.ms.len() - 1;
        let slower = |form: usize| figures.ms[form] / figures.ms[least];
        let rest = format!(
            "\"{}\" takes {:.2} times and \"{}\" {:.2} times its {}",
            self.forms[BAD],
            slower(BAD),
            self.forms[last],
            slower(last),
            time(figures.ms[least])
        );
        let best = self.forms[least];
        match slower(BAD).min(slower(last)) {
            by if by >= 1.0 + EQUAL => {
                (Judgement::Holds, format!("The claim holds here: \"{best}\" is fastest; {rest}."))
            }
            _ if slower(BAD).max(slower(last)) < 1.0 + EQUAL => {
                (Judgement::NoDifference, format!("No difference shows here: {rest}."))
            }
            _ => {
                let text = format!(
                    "The claim does not hold here: an end is as good as \"{best}\"; {rest}."
                );
                (Judgement::Fails, text)
            }
        }
    }

    fn race(&self, figures: &Figures) -> (Judgement, String) {
        let (wrong, runs) = figures.wrong;
        let found = match figures.is_found {
            true => "the checker finds the race in the first form, and none in the last",
            false => "the checker does not find the race",
        };
        let last = figures.ms.len() - 1;
        let price = (figures.ms[last] / figures.ms[BAD] - 1.0) * 100.0;
        let price = match price {
            price if price >= 1.0 => format!("the order costs {price:.0} %"),
            _ => "the order costs nothing".to_owned(),
        };
        match (wrong, figures.is_found) {
            (0, true) => (
                Judgement::Holds,
                format!(
                    "The claim holds, though the result of \"{}\" was right in all {runs} runs by \
                     chance: {found}; {price}.",
                    self.forms[BAD]
                ),
            ),
            (0, false) => (
                Judgement::Fails,
                format!("The claim is not shown: all {runs} runs were right, and {found}."),
            ),
            (wrong, _) => (
                Judgement::Holds,
                format!(
                    "The claim holds here: the result of \"{}\" was wrong in {wrong} of {runs} \
                     runs; {found}; {price}.",
                    self.forms[BAD]
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
