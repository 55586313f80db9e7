//! The measurement of a lesson: the runs of its forms, and their times and results.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, wrong};
use crate::lesson::{BAD, Expect, Form, Lesson, Program};
use crate::said::{Said, dag};
use trijet::trace::metrics::{self, Parameters};
use trijet::trace::{DeviceId, Engine, Op};
use trijet::{Nanos, Result, Trace};
use trijet_tools::stats::Samples;

/// The measurement of a form.
#[derive(Debug)]
pub struct FormOutcome {
    /// The time of each timed run, in milliseconds.
    pub ms: Vec<f64>,
    /// The figures of the last timed run that are not times, as a clause. `None` if the model lacks
    /// the effect of the claim, or if the claim is about times alone.
    pub seen: Option<String>,
    /// The trace of one more run.
    pub trace: Trace,
    /// The remarks or findings about the traced run.
    pub said: Said,
    /// The number of runs with a wrong result, among all runs of the form.
    pub wrong: usize,
    /// The number of all runs of the form, including the warm-up and the traced run.
    pub runs: usize,
}

/// The measurement of a lesson.
#[derive(Debug)]
pub struct Outcome {
    /// The lesson.
    pub lesson: Lesson,
    /// The measurements of its forms, in the order of [`Lesson::forms`].
    pub forms: Vec<FormOutcome>,
    /// Whether the times come from the model of a host device.
    pub is_modelled: bool,
}

impl FormOutcome {
    /// The median time in milliseconds.
    #[must_use]
    pub fn median_ms(&self) -> f64 {
        Samples::of(self.ms.clone()).quantile(0.5)
    }

    /// The operations of the traced run, without the time that each operation waited for its
    /// engine.
    pub(crate) fn ops(&self) -> Vec<Op> {
        dag(&self.trace).settle(&self.trace.ops)
    }

    /// The engine that worked longest in the traced run, and its time.
    fn busiest(&self) -> Option<(Engine, Nanos)> {
        let found =
            metrics::measure(&self.trace.ops, &dag(&self.trace), None, &Parameters::default());
        let busiest = found.engines.iter().max_by_key(|engine| engine.busy)?;
        Some((busiest.engine.1, busiest.busy))
    }
}

/// Numbers the operations of each engine, for the drawing. An operation of a pipeline already has
/// the number of its chunk.
fn number(ops: &mut [Op]) {
    let mut counts: Vec<((DeviceId, Engine), u64)> = Vec::new();
    for op in ops.iter_mut().filter(|op| op.chunk.is_none()) {
        let engine = (op.device, op.engine);
        let known = counts.iter().position(|(other, _)| *other == engine);
        let at = known.unwrap_or_else(|| {
            counts.push((engine, 0));
            counts.len() - 1
        });
        op.chunk = Some(counts[at].1);
        counts[at].1 += 1;
    }
}

impl Lesson {
    /// Runs all forms in turn without a trace, several times. Then runs each form once with a
    /// trace. Each result is compared with the values that the host computes.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong result of a form that must be right; every error of the device.
    pub fn measure(self, ground: &Ground) -> Result<Outcome> {
        let mut program = (self.make)(ground)?;
        // A model that lacks the effect of the claim has no figures of the claim.
        let is_unmodelled = self.unmodelled.is_some() && ground.is_modelled();
        let count = self.forms.len();
        let mut ms = vec![Vec::new(); count];
        let mut seen = vec![None; count];
        let mut damaged = vec![0; count];
        // The first round warms up.
        for round in 0..=ground.size.repeats {
            for form in 0..count {
                program.prepare()?;
                ground.synchronize()?;
                let whole = ground.time_ms(|| program.run(form))?;
                let mut time = whole;
                if !is_unmodelled {
                    time = program.own_ms()?.unwrap_or(whole);
                    seen[form] = program.seen(form)?;
                }
                damaged[form] += usize::from(self.is_wrong(&mut *program, form)?);
                if round > 0 {
                    ms[form].push(time);
                }
            }
        }
        let mut forms = Vec::new();
        for (form, (ms, seen)) in ms.into_iter().zip(seen).enumerate() {
            program.prepare()?;
            ground.synchronize()?;
            let mut trace = ground.trace(|| program.run(form))?;
            number(&mut trace.ops);
            damaged[form] += usize::from(self.is_wrong(&mut *program, form)?);
            let said = Said::of(&trace, self.flag);
            let (wrong, runs) = (damaged[form], ground.size.repeats + 2);
            forms.push(FormOutcome { ms, seen, trace, said, wrong, runs });
        }
        Ok(Outcome { lesson: self, forms, is_modelled: ground.is_modelled() })
    }

    /// Whether the last run of a form had a wrong result.
    ///
    /// # Errors
    /// `InvalidValue` if the form must be right.
    fn is_wrong(&self, program: &mut dyn Program, form: Form) -> Result<bool> {
        match program.wrong(form)? {
            None => Ok(false),
            Some(_) if form == BAD && self.expect == Expect::Race => Ok(true),
            Some(found) => Err(wrong(format!("{}, {}: {found}", self.name, self.forms[form]))),
        }
    }
}

impl Outcome {
    /// The engine that bounds the times of all forms, and the bound. Each form has a busiest
    /// engine. The bound is the smallest time for which one of these engines worked.
    #[must_use]
    pub fn bound(&self) -> Option<(Engine, Nanos)> {
        self.forms.iter().filter_map(FormOutcome::busiest).min_by_key(|(_, busy)| *busy)
    }

    /// Whether the first form got the remark or finding that the lesson expects, if it expects one,
    /// and the last form did not get it.
    #[must_use]
    pub fn is_as_expected(&self) -> bool {
        let flags = |form: &FormOutcome| form.said.flag.is_some();
        let [first, .., last] = &self.forms[..] else { return false };
        let must = !matches!(self.lesson.flag, crate::said::Flag::None(_));
        (flags(first) || !must) && !flags(last)
    }
}
