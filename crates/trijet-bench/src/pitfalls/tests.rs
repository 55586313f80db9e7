//! Tests on a modelled device. They check remarks, findings and verdicts, but no times.

use super::concurrent;
use super::edited;
use super::ground::{Ground, Size};
use super::pair::{Flag, Outcome, Pair, Program, Side};
use super::{Definition, PAIRS, modelled};
use crate::definition::parse;
use crate::results::Results;
use trijet::trace::concurrency::Concurrency;
use trijet::trace::dag::Edge;
use trijet::{ErrorKind, Result};

fn ground() -> Ground {
    let text = include_str!("../../definitions/pitfalls.toml");
    let size = Size { repeats: 1, ..parse::<Definition>(text).expect("it parses").model };
    Ground::new(&modelled().expect("a host device"), size).expect("kernels are measured")
}

/// The outcomes of the pairs whose flag is wanted.
fn outcomes(wanted: fn(Flag) -> bool) -> Vec<Outcome> {
    let ground = ground();
    let pairs = PAIRS.into_iter().filter(|pair| wanted(pair.flag));
    let outcomes: Vec<Outcome> = pairs
        .map(|pair| pair.measure(&ground).unwrap_or_else(|error| panic!("{}: {error}", pair.name)))
        .collect();
    assert!(!outcomes.is_empty());
    outcomes
}

#[test]
fn each_slow_program_gets_its_remark_and_its_cure_does_not() {
    for outcome in outcomes(|flag| matches!(flag, Flag::Remark(_))) {
        assert!(outcome.is_as_expected(), "{:#?}", outcome.notes());
    }
}

#[test]
fn each_race_has_findings_of_its_class_only_and_its_cure_has_none() {
    for outcome in outcomes(|flag| matches!(flag, Flag::Finding(_))) {
        let name = outcome.flag.name();
        let only = outcome.bad.names.iter().all(|(found, _)| *found == name);
        assert!(only && outcome.bad.flag.is_some(), "{:#?}", outcome.notes());
        assert!(outcome.good.names.is_empty(), "{:#?}", outcome.notes());
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
fn a_pair_that_the_device_cannot_run_is_unsupported() {
    let ground = ground();
    let unseen = PAIRS.into_iter().filter(|pair| matches!(pair.flag, Flag::None(_)));
    let errors: Vec<_> = unseen.map(|pair| pair.measure(&ground).map(|_| ())).collect();
    assert_eq!(errors.len(), 1);
    let error = errors[0].as_ref().expect_err("there is no CUDA driver");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// A program that does nothing. The result of this side counts as wrong.
struct Broken(Side);

impl Program for Broken {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn run(&mut self, _: Side) -> Result<()> {
        Ok(())
    }

    fn wrong(&mut self, side: Side) -> Result<Option<String>> {
        Ok((side == self.0).then(|| "a word".to_owned()))
    }
}

#[test]
fn a_wrong_result_is_an_error_unless_the_program_may_race() {
    let ground = ground();
    let flags = |wanted: fn(Flag) -> bool| {
        PAIRS.into_iter().map(|pair| pair.flag).find(|flag| wanted(*flag)).expect("there is one")
    };
    let slow = flags(|flag| matches!(flag, Flag::Remark(_)));
    let races = flags(|flag| matches!(flag, Flag::Finding(_)));
    let bad: fn(&Ground) -> Result<Box<dyn Program>> = |_| Ok(Box::new(Broken(Side::Bad)));
    let good: fn(&Ground) -> Result<Box<dyn Program>> = |_| Ok(Box::new(Broken(Side::Good)));
    for (flag, make) in [(slow, bad), (slow, good), (races, good)] {
        let error = Pair { name: "broken", flag, make }.measure(&ground).expect_err("it is wrong");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{flag:?}");
    }
    let outcome = Pair { name: "broken", flag: races, make: bad }.measure(&ground);
    let outcome = outcome.expect("a program with a race may compute any result");
    // The program did nothing, so the checker found nothing. The notes must say so.
    assert!(!outcome.is_as_expected());
    let mut results = Results::of_device(&ground.device);
    outcome.add_to(&mut results);
    let text = results.to_string();
    for words in ["NOT FLAGGED as RACE/", "the result was wrong in 3 of 3"] {
        let of_bad = |row: &&str| row.contains("broken, bad");
        assert!(text.lines().filter(of_bad).any(|row| row.contains(words)), "{text}");
    }
}
