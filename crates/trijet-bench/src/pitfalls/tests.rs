//! Tests on a modelled device. They check remarks, findings and verdicts, but no times.

use super::concurrent;
use super::edited;
use super::{Definition, PAIRS, modelled, pair, pairs};
use crate::definition::parse;
use crate::results::Results;
use trijet::trace::concurrency::Concurrency;
use trijet::trace::dag::Edge;
use trijet::{ErrorKind, Result};
use trijet_lessons::{BAD, Flag, Form, GOOD, Ground, Lesson, Outcome, Program, Size, named};
use trijet_tools::progress::{Step, Steps};

fn ground() -> Ground {
    let text = include_str!("../../definitions/pitfalls.toml");
    let size = Size { repeats: 1, ..parse::<Definition>(text).expect("it parses").model };
    Ground::new(&[modelled().expect("a host device")], size).expect("kernels are measured")
}

/// The outcomes of the pairs whose flag is wanted.
fn outcomes(wanted: fn(Flag) -> bool) -> Vec<Outcome> {
    let ground = ground();
    let pairs = pairs().filter(|(pair, _)| wanted(pair.flag));
    let outcomes: Vec<Outcome> = pairs
        .map(|(pair, name)| pair.measure(&ground).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect();
    assert!(!outcomes.is_empty());
    outcomes
}

fn notes(outcome: &Outcome) -> Vec<(String, String)> {
    pair::notes(outcome, outcome.lesson.name)
}

#[test]
fn each_slow_program_gets_its_remark_and_its_cure_does_not() {
    for outcome in outcomes(|flag| matches!(flag, Flag::Remark(_))) {
        assert!(outcome.is_as_expected(), "{:#?}", notes(&outcome));
    }
}

#[test]
fn each_race_has_findings_of_its_class_only_and_its_cure_has_none() {
    for outcome in outcomes(|flag| matches!(flag, Flag::Finding(_))) {
        let name = outcome.lesson.flag.name();
        let [bad, good] = [BAD, GOOD].map(|form| &outcome.forms[form].said);
        let only = bad.names.iter().all(|(found, _)| *found == name);
        assert!(only && bad.flag.is_some(), "{:#?}", notes(&outcome));
        assert!(good.names.is_empty(), "{:#?}", notes(&outcome));
    }
}

#[test]
fn a_ledger_without_a_wait_of_the_library_is_flagged() -> Result<()> {
    let edited = edited::measure(&ground())?;
    assert_eq!(edited.len(), 2);
    for edited in edited {
        assert!(edited.is_as_expected(), "{:#?}", edited.notes());
    }
    Ok(())
}

/// The model runs one kernel at a time, even if the kernels are in different streams.
#[test]
fn every_verdict_on_concurrency_is_right() -> Result<()> {
    let found = concurrent::measure(&ground())?;
    assert_eq!(found.len(), 7);
    for found in found {
        assert!(found.is_right() && !found.were(), "{found:#?}");
        match found.case.streams {
            1 => assert!(matches!(found.verdict, Concurrency::Ordered { edge: Edge::Lane, .. })),
            _ => assert!(matches!(found.verdict, Concurrency::OneEngine(_)), "{found:#?}"),
        }
    }
    Ok(())
}

#[test]
fn a_pair_that_a_model_cannot_show_is_not_run() -> Result<()> {
    let text = include_str!("../../definitions/pitfalls.toml");
    let definition = parse::<Definition>(text).expect("it parses");
    let mut show = |_: Step<'_>| {};
    let results = super::run(&modelled()?, &definition, &mut Steps::new(&mut show))?;
    let (csv, row) = (results.to_string(), "not run: The model has no cuMemAlloc");
    assert_eq!(csv.matches(row).count(), 1, "{csv}");
    Ok(())
}

/// A program that does nothing. The result of this form counts as wrong.
struct Broken(Form);

impl Program for Broken {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, _: Form) -> Result<()> {
        Ok(())
    }

    fn wrong(&mut self, form: Form) -> Result<Option<String>> {
        Ok((form == self.0).then(|| "a word".to_owned()))
    }
}

#[test]
fn a_wrong_result_is_an_error_unless_the_program_may_race() {
    let ground = ground();
    let lesson = |name| named(name).expect("a lesson");
    let (slow, race) = (lesson("one-stream"), lesson("stages-without-events"));
    let bad: fn(&Ground) -> Result<Box<dyn Program>> = |_| Ok(Box::new(Broken(BAD)));
    let good: fn(&Ground) -> Result<Box<dyn Program>> = |_| Ok(Box::new(Broken(GOOD)));
    for (lesson, make) in [(slow, bad), (slow, good), (race, good)] {
        let error = Lesson { make, ..lesson }.measure(&ground).expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{}", lesson.name);
    }
    let outcome = Lesson { make: bad, ..race }.measure(&ground);
    let outcome = outcome.expect("a program with a race may compute any result");
    // The program did nothing, so the checker found nothing. The notes must say so.
    assert!(!outcome.is_as_expected());
    let mut results = Results::of_device(&ground.device);
    pair::add(&outcome, "broken", &mut results);
    let text = results.to_string();
    for words in ["NOT FLAGGED as RACE/", "the result was wrong in 3 of 3"] {
        let of_bad = |row: &&str| row.contains("broken, bad");
        assert!(text.lines().filter(of_bad).any(|row| row.contains(words)), "{text}");
    }
}

#[test]
fn every_pair_is_a_lesson() {
    assert_eq!(pairs().count(), PAIRS.len());
}
