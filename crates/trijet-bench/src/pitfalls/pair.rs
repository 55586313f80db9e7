//! The rows that `bench pitfalls` adds for a lesson of two forms: the bad and the good program.
#![forbid(unsafe_code)]

use crate::results::Results;
use trijet_lessons::{BAD, Expect, Flag, Form, GOOD, Outcome};
use trijet_tools::stats::Samples;

/// The name of one program in the results.
fn what(name: &str, form: Form) -> String {
    if form == BAD { format!("{name}, bad") } else { format!("{name}, good") }
}

/// The notes about both programs. Each note is the name of its program in the results, and a text.
pub(super) fn notes(outcome: &Outcome, name: &str) -> Vec<(String, String)> {
    let expected = outcome.lesson.flag;
    let flag = expected.name();
    let [bad, good] = [BAD, GOOD].map(|form| &outcome.forms[form]);
    let [bad_name, good_name] = [BAD, GOOD].map(|form| what(name, form));
    let mut notes = Vec::new();
    let first = match (&bad.said.flag, expected) {
        (Some(text), _) => text.clone(),
        (None, Flag::None(why)) => why.to_owned(),
        (None, _) => format!("NOT FLAGGED as {flag}"),
    };
    notes.push((bad_name.clone(), first));
    if !bad.said.names.is_empty() && bad.said.names != [(flag, 1)] {
        notes.push((bad_name.clone(), format!("in total {}", bad.said.list())));
    }
    if outcome.lesson.expect == Expect::Race {
        let text = format!("the result was wrong in {} of {} runs", bad.wrong, bad.runs);
        notes.push((bad_name, text));
    }
    let last = match (&good.said.flag, good.said.names.is_empty()) {
        (Some(text), _) => format!("FLAGGED: {text}"),
        (None, true) => "nothing".to_owned(),
        (None, false) => format!("no {flag}, but {}", good.said.list()),
    };
    notes.push((good_name, last));
    notes
}

/// Adds the notes, the times, the factor, and the saving that the remark estimated.
pub(super) fn add(outcome: &Outcome, name: &str, results: &mut Results) {
    notes(outcome, name).into_iter().for_each(|(what, note)| results.note(what, note));
    let [bad, good] = [BAD, GOOD].map(|form| &outcome.forms[form].ms);
    for (form, ms) in [(BAD, bad), (GOOD, good)] {
        results.push(what(name, form), "ms", Samples::of(ms.clone()), None);
    }
    let is_race = outcome.lesson.expect == Expect::Race;
    let factor = if is_race { "price of the cure, good over bad" } else { "bad over good" };
    let quotients = bad.iter().zip(good);
    let quotients = quotients.map(|(bad, good)| if is_race { good / bad } else { bad / good });
    results.push(format!("{name}, {factor}"), "ratio", Samples::of(quotients.collect()), None);
    if let Some(estimate) = outcome.forms[BAD].said.estimate_ms {
        let what = format!("{name}, saved at most says {}", outcome.lesson.flag.name());
        results.push(what, "ms", Samples::one(estimate), None);
    }
}
