//! A pair: a program with a mistake, the same program without the mistake, and the remark or
//! finding that only the first program must get.
#![forbid(unsafe_code)]

use super::ground::{Ground, one, wrong};
use crate::results::Results;
use trijet::check::lint::Rule;
use trijet::check::{FindingClass, Names, check, lint};
use trijet::trace::TimeSource;
use trijet::trace::dag::{Dag, Kernels};
use trijet::{Result, Trace};
use trijet_tools::stats::Samples;

/// One program of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Bad,
    Good,
}

/// The remark or finding that the bad program must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    /// A remark about performance. The program computes the right result.
    Remark(Rule),
    /// A finding of the checker. The program may compute any result.
    Finding(FindingClass),
    /// No remark or finding is expected, for this reason.
    None(&'static str),
}

impl Flag {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Remark(rule) => rule.name(),
            Self::Finding(class) => class.code(),
            Self::None(_) => "nothing",
        }
    }
}

/// Both programs of a pair, which use the same memory.
pub(super) trait Program {
    /// Sets the input of the programs, and overwrites their result.
    fn prepare(&mut self) -> Result<()>;
    /// Runs one of the programs. The call need not wait for the last operations of the program.
    fn run(&mut self, side: Side) -> Result<()>;
    /// Describes the first error in the result of the last run, if there is one.
    fn wrong(&mut self, side: Side) -> Result<Option<String>>;
}

/// One pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) flag: Flag,
    pub(super) make: fn(&Ground) -> Result<Box<dyn Program>>,
}

/// The remarks or findings about one program.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The text of the expected remark or finding, if the program got it.
    pub(super) flag: Option<String>,
    /// The maximum possible saving that a remark estimates, summed over all its sites.
    pub(super) estimate_ms: Option<f64>,
    /// The name of each remark or finding, with its count.
    pub(super) names: Vec<(&'static str, usize)>,
}

/// The outcome of a pair.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) flag: Flag,
    pub(super) bad: Said,
    pub(super) good: Said,
    bad_ms: Samples,
    good_ms: Samples,
    /// For a mistake that costs time, the time of the bad program divided by the time of the good
    /// program. For a race, the time of the good program divided by the time of the bad program.
    factor: Samples,
    /// The number of runs of the bad program that had a wrong result, and the number of all its
    /// runs.
    damaged: (usize, usize),
}

impl Said {
    fn count(&mut self, name: &'static str) {
        match self.names.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1 += 1,
            None => self.names.push((name, 1)),
        }
    }

    /// Checks a trace and collects its remarks or findings.
    pub(super) fn of(trace: &Trace, flag: Flag) -> Self {
        let mut said = Self::default();
        let ops = &trace.ops;
        if let Flag::Finding(class) = flag {
            for finding in check(ops).findings {
                said.count(finding.class.code());
                if finding.class == class && said.flag.is_none() {
                    let text = finding.text(&Names::default());
                    let headline = text.lines().next().unwrap_or(class.code());
                    said.flag = Some(format!("{headline}; fix: {}", finding.fix));
                }
            }
            return said;
        }
        let kernels = match trace.times {
            TimeSource::Model => Kernels::OneAtATime,
            _ => Kernels::Several,
        };
        let dag = Dag::with_times(ops, kernels, trace.times);
        for remark in lint::lints(ops, &dag, trace.hardware_queues) {
            said.count(remark.rule.name());
            if Flag::Remark(remark.rule) == flag {
                *said.estimate_ms.get_or_insert(0.0) += remark.saved.seconds() * 1e3;
                said.flag.get_or_insert_with(|| remark.to_string());
            }
        }
        said
    }

    pub(super) fn list(&self) -> String {
        let names = self.names.iter().map(|(name, count)| match count {
            1 => (*name).to_owned(),
            count => format!("{name} ({count} times)"),
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

impl Pair {
    /// Runs both programs in turn, then checks a trace of each.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong result of the good program, or of a bad program whose mistake
    /// only costs time; every error of the device.
    pub(super) fn measure(self, ground: &Ground) -> Result<Outcome> {
        let mut program = (self.make)(ground)?;
        let mut out = Outcome {
            name: self.name,
            flag: self.flag,
            bad: Said::default(),
            good: Said::default(),
            bad_ms: Samples::default(),
            good_ms: Samples::default(),
            factor: Samples::default(),
            damaged: (0, 0),
        };
        // The first round warms up.
        for round in 0..=ground.size.repeats {
            let bad = out.timed(ground, &mut *program, Side::Bad)?;
            let good = out.timed(ground, &mut *program, Side::Good)?;
            if round > 0 {
                out.bad_ms.push(bad);
                out.good_ms.push(good);
                out.factor.push(match self.flag {
                    Flag::Finding(_) => good / bad,
                    _ => bad / good,
                });
            }
        }
        for side in [Side::Bad, Side::Good] {
            program.prepare()?;
            ground.device.synchronize()?;
            let trace = ground.trace(|| program.run(side))?;
            out.verify(&mut *program, side)?;
            let said = Said::of(&trace, self.flag);
            match side {
                Side::Bad => out.bad = said,
                Side::Good => out.good = said,
            }
        }
        Ok(out)
    }
}

impl Outcome {
    /// Times one run in milliseconds, then compares its result.
    fn timed(&mut self, ground: &Ground, program: &mut dyn Program, side: Side) -> Result<f64> {
        program.prepare()?;
        ground.device.synchronize()?;
        let time = ground.time_ms(|| program.run(side))?;
        self.verify(program, side)?;
        Ok(time)
    }

    fn verify(&mut self, program: &mut dyn Program, side: Side) -> Result<()> {
        let found = program.wrong(side)?;
        if side == Side::Bad {
            self.damaged.0 += usize::from(found.is_some());
            self.damaged.1 += 1;
        }
        match (found, side, self.flag) {
            (Some(_), Side::Bad, Flag::Finding(_)) | (None, ..) => Ok(()),
            (Some(found), ..) => Err(wrong(format!("{}, {side:?}: {found}", self.name))),
        }
    }

    /// Whether the bad program was flagged and the good program was not.
    pub(super) fn is_as_expected(&self) -> bool {
        let flagged = self.bad.flag.is_some() || matches!(self.flag, Flag::None(_));
        flagged && self.good.flag.is_none()
    }

    /// The notes about both programs. Each note is the name of its program in the results, and a
    /// text.
    pub(super) fn notes(&self) -> Vec<(String, String)> {
        let flag = self.flag.name();
        let [bad, good] = [Side::Bad, Side::Good].map(|side| self.what(side));
        let mut notes = Vec::new();
        let first = match (&self.bad.flag, self.flag) {
            (Some(text), _) => text.clone(),
            (None, Flag::None(why)) => why.to_owned(),
            (None, _) => format!("NOT FLAGGED as {flag}"),
        };
        notes.push((bad.clone(), first));
        if !self.bad.names.is_empty() && self.bad.names != [(flag, 1)] {
            notes.push((bad.clone(), format!("in total {}", self.bad.list())));
        }
        if matches!(self.flag, Flag::Finding(_)) {
            let (damaged, all) = self.damaged;
            notes.push((bad, format!("the result was wrong in {damaged} of {all} runs")));
        }
        let last = match (&self.good.flag, self.good.names.is_empty()) {
            (Some(text), _) => format!("FLAGGED: {text}"),
            (None, true) => "nothing".to_owned(),
            (None, false) => format!("no {flag}, but {}", self.good.list()),
        };
        notes.push((good, last));
        notes
    }

    /// The name of one program in the results.
    fn what(&self, side: Side) -> String {
        match side {
            Side::Bad => format!("{}, bad", self.name),
            Side::Good => format!("{}, good", self.name),
        }
    }

    /// Adds the notes, the times, the factor, and the saving that the remark estimated.
    pub(super) fn add_to(self, results: &mut Results) {
        let name = self.name;
        let [bad, good] = [Side::Bad, Side::Good].map(|side| self.what(side));
        self.notes().into_iter().for_each(|(what, note)| results.note(what, note));
        results.push(bad, "ms", self.bad_ms, None);
        results.push(good, "ms", self.good_ms, None);
        let factor = match self.flag {
            Flag::Finding(_) => "price of the cure, good over bad",
            _ => "bad over good",
        };
        results.push(format!("{name}, {factor}"), "ratio", self.factor, None);
        if let Some(estimate) = self.bad.estimate_ms {
            let what = format!("{name}, saved at most says {}", self.flag.name());
            results.push(what, "ms", one(estimate), None);
        }
    }
}
