//! Cuts down a failing program to a local minimum: after any further cut, it does not fail.
//!
//! A cut may leave invalid steps, for example uses of a buffer that is no longer made. These are
//! removed too, so that only valid programs are tried.

use crate::program::{Phase, Program, Step};
use crate::valid::{Gates, serialised};

/// The size of a program. A cut must lower it.
fn size(program: &Program) -> usize {
    let scripts: usize = program.phases.iter().map(|phase| phase.scripts.len()).sum();
    let words: usize = program.steps().map(words_of).sum();
    let parts = program.devices + program.streams.len() + program.events.len();
    let parts = parts + program.refusals.len();
    // The lengths of buffers count least.
    (program.steps().count() + program.phases.len() + scripts + parts) * 1_000_000 + words
}

fn words_of(step: &Step) -> usize {
    match step {
        Step::Alloc { len, .. } | Step::AllocHost { len, .. } => *len,
        _ => 0,
    }
}

/// The smallest program so far, and the test that it must still fail.
struct Shrink<'a> {
    best: Program,
    fails: &'a mut dyn FnMut(&Program) -> bool,
}

impl Shrink<'_> {
    /// Keeps a candidate that is smaller and still fails.
    fn try_out(&mut self, mut candidate: Program) -> bool {
        candidate.keep_valid();
        drop_empty(&mut candidate);
        let is_better = size(&candidate) < size(&self.best) && (self.fails)(&candidate);
        if is_better {
            self.best = candidate;
        }
        is_better
    }

    fn edited(&self, edit: impl FnOnce(&mut Program)) -> Program {
        let mut candidate = self.best.clone();
        edit(&mut candidate);
        candidate
    }

    fn scripts(&self) -> Vec<(usize, usize)> {
        let phases = self.best.phases.iter().enumerate();
        phases.flat_map(|(p, phase)| (0..phase.scripts.len()).map(move |s| (p, s))).collect()
    }

    fn whole_scripts(&mut self) {
        for (phase, script) in self.scripts().into_iter().rev() {
            let without = self.edited(|program| {
                program.phases[phase].scripts.remove(script);
            });
            self.try_out(without);
        }
    }

    /// Removes runs of steps, long ones first.
    fn runs(&mut self) {
        for (phase, script) in self.scripts().into_iter().rev() {
            let count = |shrink: &Self| {
                let scripts = shrink.best.phases.get(phase).map(|phase| &phase.scripts);
                scripts.and_then(|scripts| scripts.get(script)).map_or(0, Vec::len)
            };
            let mut run = count(self);
            while run > 0 {
                let mut end = count(self);
                while end > 0 {
                    let start = end.saturating_sub(run);
                    let without = self.edited(|program| {
                        program.phases[phase].scripts[script].drain(start..end);
                    });
                    self.try_out(without);
                    end = start.min(count(self));
                }
                run /= 2;
            }
        }
    }

    /// Serialises the scripts of a phase, and joins two phases.
    fn phases(&mut self) {
        for number in (0..self.best.phases.len()).rev() {
            let flat = self.edited(|program| {
                let phase = &mut program.phases[number];
                let order = serialised(phase, &mut Gates::all_set());
                let steps = order.into_iter().map(|(script, at)| phase.scripts[script][at].clone());
                // A single script passes no buffer on.
                let steps = steps.filter(|step| step.passes().is_none());
                phase.scripts = vec![steps.collect()];
            });
            self.try_out(flat);
        }
        for number in (1..self.best.phases.len()).rev() {
            let joined = self.edited(|program| {
                let Phase { scripts } = program.phases.remove(number);
                let before = &mut program.phases[number - 1].scripts;
                if before.len() == 1 && scripts.len() == 1 {
                    before[0].extend(scripts.into_iter().flatten());
                }
            });
            self.try_out(joined);
        }
    }

    fn streams(&mut self) {
        for stream in (0..self.best.streams.len()).rev() {
            for heir in 0..self.best.streams.len() {
                let merged = self.edited(|program| merge_streams(program, stream, heir));
                if self.try_out(merged) {
                    break;
                }
            }
        }
    }

    fn events(&mut self) {
        for event in (0..self.best.events.len()).rev() {
            for heir in 0..self.best.events.len() {
                let merged = self.edited(|program| merge_events(program, event, heir));
                if self.try_out(merged) {
                    break;
                }
            }
        }
    }

    fn refusals(&mut self) {
        for number in (0..self.best.refusals.len()).rev() {
            let without = self.edited(|program| {
                program.refusals.remove(number);
            });
            self.try_out(without);
        }
    }

    fn devices(&mut self) {
        let on_one = self.edited(|program| {
            program.devices = 1;
            program.streams.iter_mut().for_each(|spec| spec.device = 0);
            program.events.iter_mut().for_each(|device| *device = 0);
            for step in program.phases.iter_mut().flat_map(|p| p.scripts.iter_mut().flatten()) {
                if let Step::CopyNow { device, .. }
                | Step::FillNow { device, .. }
                | Step::Churn { device, .. }
                | Step::SyncDevice { device } = step
                {
                    *device = 0;
                }
            }
        });
        self.try_out(on_one);
    }

    /// Removes the copies of a batch one by one.
    fn batches(&mut self) {
        for (phase, script) in self.scripts() {
            let mut step = 0;
            while step < self.best.phases[phase].scripts[script].len() {
                let steps = &self.best.phases[phase].scripts[script];
                let Step::Batch { copies, .. } = &steps[step] else {
                    step += 1;
                    continue;
                };
                if copies.len() < 2 {
                    step += 1;
                    continue;
                }
                for number in (0..copies.len()).rev() {
                    self.one_copy_less(phase, script, step, number);
                }
                step += 1;
            }
        }
    }

    /// Removes one copy, which does not change the size of the program.
    fn one_copy_less(&mut self, phase: usize, script: usize, step: usize, number: usize) {
        let mut candidate = self.edited(|program| {
            if let Step::Batch { copies, .. } = &mut program.phases[phase].scripts[script][step]
                && copies.len() > 1
            {
                copies.remove(number);
            }
        });
        let is_valid = !candidate.keep_valid();
        if is_valid && candidate != self.best && (self.fails)(&candidate) {
            self.best = candidate;
        }
    }

    /// Halves all buffers.
    fn words(&mut self) {
        let half = self.edited(|program| {
            for step in program.phases.iter_mut().flat_map(|p| p.scripts.iter_mut().flatten()) {
                halve(step);
            }
        });
        let steps = half.steps().count();
        let mut valid = half.clone();
        valid.keep_valid();
        if valid.steps().count() == steps {
            self.try_out(half);
        }
    }
}

fn drop_empty(program: &mut Program) {
    for phase in &mut program.phases {
        phase.scripts.retain(|script| !script.is_empty());
    }
    program.phases.retain(|phase| !phase.scripts.is_empty());
}

fn halve(step: &mut Step) {
    let half = |part: &mut crate::program::Part| {
        let start = part.range.start / 2;
        part.range = start..start + (part.range.end - part.range.start).div_ceil(2);
    };
    match step {
        Step::Alloc { len, .. } | Step::AllocHost { len, .. } => *len = len.div_ceil(2),
        Step::Split { at, .. } => *at = at.div_ceil(2),
        Step::Copy { from, to, .. } | Step::CopyNow { from, to, .. } => {
            half(from);
            half(to);
        }
        Step::Mix { x, y, .. } => {
            half(x);
            half(y);
        }
        Step::Fill { to, .. } | Step::FillNow { to, .. } | Step::Churn { to, .. } => half(to),
        Step::Batch { copies, .. } => copies.iter_mut().for_each(|(from, to)| {
            half(from);
            half(to);
        }),
        _ => {}
    }
}

/// Moves the steps of `stream` to `heir`, or removes them if the two are equal.
fn merge_streams(program: &mut Program, stream: usize, heir: usize) {
    for script in program.phases.iter_mut().flat_map(|phase| &mut phase.scripts) {
        script.retain(|step| stream != heir || step.stream() != Some(stream));
        for named in script.iter_mut().filter_map(Step::stream_mut) {
            let target = if *named == stream { heir } else { *named };
            *named = target - usize::from(target > stream);
        }
    }
    program.streams.remove(stream);
}

fn merge_events(program: &mut Program, event: usize, heir: usize) {
    for script in program.phases.iter_mut().flat_map(|phase| &mut phase.scripts) {
        script.retain_mut(|step| event != heir || step.event_mut() != Some(&mut { event }));
        for named in script.iter_mut().filter_map(Step::event_mut) {
            let target = if *named == event { heir } else { *named };
            *named = target - usize::from(target > event);
        }
    }
    program.events.remove(event);
}

/// The smallest program that cuts reach from `program`, which fails. Each cut keeps it failing.
pub(crate) fn shrink(mut program: Program, fails: &mut dyn FnMut(&Program) -> bool) -> Program {
    drop_empty(&mut program);
    let mut shrink = Shrink { best: program, fails };
    loop {
        let before = shrink.best.clone();
        shrink.whole_scripts();
        shrink.runs();
        shrink.phases();
        shrink.streams();
        shrink.events();
        shrink.refusals();
        shrink.devices();
        shrink.batches();
        shrink.words();
        if shrink.best == before {
            return shrink.best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use crate::draw::draw;
    use crate::program::{Program, Step};

    /// A planted fault: some kernel's result is copied by another stream.
    fn is_copied_elsewhere(program: &Program) -> bool {
        let steps: Vec<&Step> = program.steps().collect();
        steps.iter().enumerate().any(|(number, step)| {
            let Step::Mix { stream, y, .. } = step else { return false };
            steps[number..].iter().any(|later| match later {
                Step::Copy { stream: other, from, .. } => {
                    other != stream && from.buffer == y.buffer
                }
                _ => false,
            })
        })
    }

    #[test]
    fn a_planted_failure_is_cut_down_to_what_it_needs() {
        let mut tried = 0;
        for seed in (0..200).filter(|seed| is_copied_elsewhere(&draw(*seed))).take(40) {
            tried += 1;
            let mut small = shrink(draw(seed), &mut is_copied_elsewhere);
            assert!(!small.keep_valid(), "seed {seed}: {small}");
            assert!(is_copied_elsewhere(&small), "seed {seed}: {small}");
            // At most three buffers are made, one of them split, then mixed and copied.
            assert!(small.steps().count() <= 6, "seed {seed}: {small}");
            assert_eq!((small.phases.len(), small.phases[0].scripts.len()), (1, 1), "{small}");
            assert_eq!((small.streams.len(), small.events.len()), (2, 0), "{small}");
        }
        assert_eq!(tried, 40, "40 programs have the fault");
    }

    #[test]
    fn buffers_are_cut_down_as_long_as_it_fails() {
        let text = "devices 1\nstream s0 blocking on d0\nphase\nthread\n\
                    alloc b0 100 on s0 filled 1\nfill b0[60..100] with 2 on s0";
        let program = crate::text::parse(text).expect("the text is a program");
        let fills = |words: usize| {
            move |program: &Program| {
                let long = |step: &Step| matches!(step, Step::Fill { to, .. } if to.len() >= words);
                program.steps().any(long)
            }
        };
        let shortest = shrink(program.clone(), &mut fills(1));
        assert_eq!(shortest.steps().map(super::words_of).sum::<usize>(), 1, "{shortest}");
        let long = shrink(program, &mut fills(15));
        assert_eq!(long.steps().map(super::words_of).sum::<usize>(), 50, "{long}");
    }

    #[test]
    fn a_batch_is_cut_down_to_one_copy() {
        let has_batch = |p: &Program| p.steps().any(|step| matches!(step, Step::Batch { .. }));
        let seed = (0..).find(|seed| has_batch(&draw(*seed))).expect("batches are drawn");
        let small = shrink(draw(seed), &mut { has_batch });
        let copies = small.steps().find_map(|step| match step {
            Step::Batch { copies, .. } => Some(copies.len()),
            _ => None,
        });
        assert_eq!(copies, Some(1), "{small}");
    }

    /// If a program fails only sometimes, a cut that did not fail must not replace it.
    #[test]
    fn the_shrunk_program_failed_when_it_was_tried() {
        let mut calls = 0_u64;
        let mut failed = Vec::new();
        let small = shrink(draw(1), &mut |program| {
            calls += 1;
            let fails = calls.is_multiple_of(3);
            if fails {
                failed.push(program.clone());
            }
            fails
        });
        assert_eq!(failed.last(), Some(&small));
    }
}
