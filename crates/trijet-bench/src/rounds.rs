//! Rounds. The programs that a benchmark compares take turns. So a machine that becomes slower
//! slows all programs.
//!
//! Every program runs once as a warm-up, which is not counted. Each round starts with a different
//! program than the round before, so no program always runs first. A program verifies the result of
//! every run, including the warm-up. The first wrong result ends the benchmark.
#![forbid(unsafe_code)]

use trijet::{Cancel, Error, ErrorKind, Result};
use trijet_tools::stats::Samples;

/// A figure of one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value {
    /// The name of the figure; empty if the program has only one.
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) value: f64,
}

impl Value {
    pub(crate) fn new(what: &str, unit: &str, value: f64) -> Self {
        Self { what: what.to_owned(), unit: unit.to_owned(), value }
    }

    pub(crate) fn seconds(what: &str, value: f64) -> Self {
        Self { what: what.to_owned(), unit: "s".to_owned(), value }
    }
}

/// The samples of one figure of a program.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) samples: Samples,
}

/// A program that is compared with others.
pub(crate) struct Side<'a> {
    pub(crate) name: String,
    /// The program runs in one of every `every` rounds.
    every: usize,
    run: Box<dyn FnMut() -> Result<Vec<Value>> + 'a>,
    /// The figures of all rounds, in the order in which the program first returned them.
    pub(crate) figures: Vec<Figure>,
    /// The figures of the warm-up.
    pub(crate) warm: Vec<Value>,
}

impl std::fmt::Debug for Side<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Side<'a> {
    /// Makes a program. `run` runs it once, verifies its result and returns its figures.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl FnMut() -> Result<Vec<Value>> + 'a,
    ) -> Self {
        let (figures, warm) = (Vec::new(), Vec::new());
        Self { name: name.into(), every: 1, run: Box::new(run), figures, warm }
    }

    /// Makes the program run only in the first of every `rounds` rounds.
    pub(crate) fn every(mut self, rounds: usize) -> Self {
        self.every = rounds.max(1);
        self
    }

    /// The median of a figure; NaN without samples.
    pub(crate) fn median(&self, what: &str) -> f64 {
        let figure = self.figures.iter().find(|figure| figure.what == what);
        figure.map_or(f64::NAN, |figure| figure.samples.quantile(0.5))
    }

    fn once(&mut self, cancel: &Cancel) -> Result<Vec<Value>> {
        if cancel.is_cancelled() {
            return Err(stopped());
        }
        (self.run)().map_err(|error| match cancel.is_cancelled() {
            // A signal from a terminal also ends the running commands, so an error is a consequence
            // of the signal.
            true => stopped(),
            false => error.context(self.name.clone()),
        })
    }

    fn keep(&mut self, values: Vec<Value>) {
        for Value { what, unit, value } in values {
            let at = self.figures.iter().position(|figure| figure.what == what);
            let at = at.unwrap_or_else(|| {
                self.figures.push(Figure { what, unit, samples: Samples::default() });
                self.figures.len() - 1
            });
            self.figures[at].samples.push(value);
        }
    }
}

/// The error of a benchmark that a signal has stopped.
pub(crate) fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "bench", "a signal stopped the benchmark")
}

/// Runs every program once.
///
/// # Errors
/// The first error of a program, with its name; `Cancelled`.
pub(crate) fn warm_up(sides: &mut [Side<'_>], cancel: &Cancel) -> Result<()> {
    for side in sides {
        side.warm = side.once(cancel)?;
    }
    Ok(())
}

/// Runs the programs that take part in a round, counted from 0, and keeps their figures.
///
/// # Errors
/// The first error of a program, with its name; `Cancelled`.
pub(crate) fn round(sides: &mut [Side<'_>], number: usize, cancel: &Cancel) -> Result<()> {
    let count = sides.len();
    for place in 0..count {
        let side = &mut sides[(number + place) % count];
        if number.is_multiple_of(side.every) {
            let values = side.once(cancel)?;
            side.keep(values);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn named<'a>(name: &'static str, ran: &'a RefCell<Vec<&'static str>>) -> Side<'a> {
        Side::new(name, move || {
            ran.borrow_mut().push(name);
            Ok(vec![Value::seconds("", ran.borrow().len() as f64)])
        })
    }

    #[test]
    fn programs_run_in_turn_and_each_round_begins_with_the_next_one() -> Result<()> {
        let ran = RefCell::default();
        let mut sides = [named("a", &ran), named("b", &ran), named("c", &ran).every(2)];
        warm_up(&mut sides, &Cancel::new())?;
        for number in 0..4 {
            round(&mut sides, number, &Cancel::new())?;
        }
        let order = sides.map(|side| (side.name.clone(), side.figures[0].samples.count()));
        assert_eq!(order.map(|(_, count)| count), [4, 4, 2], "the warm-up is not counted");
        let rounds = ["abc", "abc", "ba", "cab", "ab"].concat();
        assert_eq!(ran.into_inner().concat(), rounds);
        Ok(())
    }

    #[test]
    fn figures_have_the_median_and_the_spread_of_the_rounds() -> Result<()> {
        let mut values = [100.0, 4.0, 1.0, 2.0].into_iter();
        let mut sides = [Side::new("one", || {
            let value = values.next().expect("four runs");
            Ok(vec![Value::seconds("own", value), Value::seconds("whole", value + 1.0)])
        })];
        warm_up(&mut sides, &Cancel::new())?;
        for number in 0..3 {
            round(&mut sides, number, &Cancel::new())?;
        }
        let [side] = sides;
        assert_eq!((side.median("own"), side.median("whole")), (2.0, 3.0));
        assert_eq!(side.figures[0].samples.spread(), 1.5);
        assert_eq!(side.warm[0].value, 100.0);
        assert!(side.median("other").is_nan());
        Ok(())
    }

    #[test]
    fn an_error_names_the_program_and_ends_the_round() {
        let ran = RefCell::default();
        let wrong = || Err(Error::new(ErrorKind::InvalidValue, "verify", "byte 7 is wrong"));
        let mut sides = [named("first", &ran), Side::new("bad peer", wrong), named("last", &ran)];
        let error = round(&mut sides, 0, &Cancel::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        let text = error.to_string();
        assert!(text.contains("bad peer") && text.contains("byte 7 is wrong"), "{text}");
        assert_eq!(*ran.borrow(), ["first"]);
    }

    #[test]
    fn a_signal_stops_before_the_next_run() {
        let ran = RefCell::default();
        let stop = |cancel: &Cancel, fails: bool| {
            cancel.cancel();
            let failure = Error::new(ErrorKind::Io, "run", "ended by the signal, too");
            if fails { Err(failure) } else { Ok(Vec::new()) }
        };
        for fails in [false, true] {
            let cancel = Cancel::new();
            let mut sides = [Side::new("stop", || stop(&cancel, fails)), named("next", &ran)];
            let error = warm_up(&mut sides, &cancel).unwrap_err();
            assert_eq!((error.kind(), ran.borrow().len()), (ErrorKind::Cancelled, 0));
        }
    }
}
