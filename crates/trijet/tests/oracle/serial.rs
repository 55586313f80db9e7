//! The serial meaning of a program: its steps one after the other, on plain bytes.
//!
//! Scripts of one phase share only buffers that they read, and wait for buffers that they pass on,
//! so every serialisation gives the same bytes. After a refused call, its step may have been done
//! or not: its targets, and all results from them, are unknown until they are written again.

use crate::program::{At, Part, Program, Step, StreamKind};
use crate::reference::{mix, words};
use crate::valid::{Gates, serialised};
use std::collections::{BTreeMap, BTreeSet};

/// The host functions of one stream, from the creation of the stream to its drop. They have an
/// order among each other. For a per-thread stream, only the functions that one thread enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) stream: usize,
    /// The number of earlier replacements of the stream.
    pub(crate) life: usize,
    /// For per-thread streams: the phase, the script and the number of the thread.
    pub(crate) thread: Option<(usize, usize, usize)>,
}

/// The observable outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Outcome {
    /// The words of each read by the host.
    pub(crate) reads: BTreeMap<At, Vec<u64>>,
    /// The buffers that remain at the end.
    pub(crate) left: BTreeMap<usize, Vec<u64>>,
    /// The host functions that ran, in their order.
    pub(crate) notes: BTreeMap<Line, Vec<At>>,
    /// The steps that returned an error, or that use a buffer that is missing because of an error.
    pub(crate) failed: BTreeSet<At>,
}

impl Outcome {
    /// Scripts of one phase may enqueue in one stream in any order. This sorts them by script.
    pub(crate) fn normalised(mut self) -> Self {
        for notes in self.notes.values_mut() {
            for phase in notes.chunk_by_mut(|a, b| a.phase == b.phase) {
                phase.sort_by_key(|at| at.script);
            }
        }
        self
    }
}

/// Words. Some may be unknown.
pub(crate) type Words = Vec<Option<u64>>;

/// The outcome that a run must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expected {
    pub(crate) reads: BTreeMap<At, Words>,
    pub(crate) left: BTreeMap<usize, Words>,
    pub(crate) notes: BTreeMap<Line, Vec<At>>,
    failed: BTreeSet<At>,
    /// Whether calls are refused: the remaining buffers may not be readable then.
    pub(crate) refuses: bool,
}

fn words_differ(mine: &[Option<u64>], theirs: Option<&Vec<u64>>) -> Option<String> {
    let Some(theirs) = theirs else { return Some("is missing".to_owned()) };
    if theirs.len() != mine.len() {
        return Some("has another length".to_owned());
    }
    let differs = |word: &usize| mine[*word].is_some_and(|mine| mine != theirs[*word]);
    let differing: Vec<usize> = (0..mine.len()).filter(differs).collect();
    let first = differing.first()?;
    Some(format!("differs in {} words from word {first}", differing.len()))
}

impl Expected {
    /// The same as for an outcome.
    fn normalised(mut self) -> Self {
        let notes = Outcome { notes: self.notes, ..Outcome::default() }.normalised().notes;
        self.notes = notes;
        self
    }

    /// The first difference of an outcome, for messages.
    pub(crate) fn difference(&self, found: &Outcome) -> Option<String> {
        for (at, mine) in self.reads.iter().filter(|(at, _)| !self.failed.contains(at)) {
            if let Some(how) = words_differ(mine, found.reads.get(at)) {
                return Some(format!("the read at {at:?} {how}"));
            }
        }
        let is_left = |buffer: &usize| !self.refuses || found.left.contains_key(buffer);
        for (buffer, mine) in self.left.iter().filter(|(buffer, _)| is_left(buffer)) {
            if let Some(how) = words_differ(mine, found.left.get(buffer)) {
                return Some(format!("buffer b{buffer} {how}"));
            }
        }
        // A refused host function may run or not.
        let sure = |notes: &BTreeMap<Line, Vec<At>>| -> Vec<(Line, Vec<At>)> {
            let known = |all: &Vec<At>| -> Vec<At> {
                all.iter().copied().filter(|at| !self.failed.contains(at)).collect()
            };
            let lines = notes.iter().map(|(line, all)| (*line, known(all)));
            lines.filter(|(_, all)| !all.is_empty()).collect()
        };
        let same = sure(&self.notes) == sure(&found.notes);
        (!same).then(|| "host functions ran in another order".to_owned())
    }
}

#[derive(Default)]
struct Machine {
    buffers: BTreeMap<usize, Words>,
    lives: BTreeMap<usize, usize>,
    expected: Expected,
}

fn known(words: Vec<u64>) -> Words {
    words.into_iter().map(Some).collect()
}

impl Machine {
    /// The words of a part. They are unknown if the buffer is missing after a refused call.
    fn words(&self, part: &Part) -> Words {
        let words = self.buffers.get(&part.buffer).and_then(|words| words.get(part.range.clone()));
        words.map_or_else(|| vec![None; part.len()], <[_]>::to_vec)
    }

    fn words_mut(&mut self, part: &Part) -> &mut [Option<u64>] {
        let words = self.buffers.get_mut(&part.buffer);
        words.and_then(|words| words.get_mut(part.range.clone())).unwrap_or_default()
    }

    fn copy(&mut self, from: &Part, to: &Part) {
        let words = self.words(from);
        let target = self.words_mut(to);
        if target.len() == words.len() {
            target.copy_from_slice(&words);
        }
    }

    fn mix(&mut self, salt: u64, x: &Part, y: &Part) {
        let x = self.words(x);
        for (word, x) in self.words_mut(y).iter_mut().zip(x) {
            *word = match (*word, x) {
                (Some(known), Some(x)) => {
                    let mut mixed = [known];
                    mix(salt, &[x], &mut mixed);
                    Some(mixed[0])
                }
                _ => None,
            };
        }
    }

    /// The step was refused, or uses a missing buffer.
    fn fail(&mut self, step: &Step) {
        let (_, written) = step.parts();
        written.into_iter().for_each(|to| self.words_mut(to).fill(None));
        match step {
            Step::Alloc { buffer, .. } | Step::AllocHost { buffer, .. } | Step::Drop { buffer } => {
                self.buffers.remove(buffer);
            }
            Step::Write { buffer, .. } => {
                if let Some(words) = self.buffers.get_mut(buffer) {
                    words.fill(None);
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, at: At, thread: Option<(usize, usize, usize)>, step: &Step) {
        let repeated = |value: u8| Some(u64::from_ne_bytes([value; 8]));
        if let Step::HostFn { stream } = step {
            let life = self.lives.get(stream).copied().unwrap_or(0);
            let line = Line { stream: *stream, life, thread };
            self.expected.notes.entry(line).or_default().push(at);
        }
        if self.expected.failed.contains(&at) {
            return self.fail(step);
        }
        match step {
            Step::Copy { from, to, .. } | Step::CopyNow { from, to, .. } => self.copy(from, to),
            Step::Batch { copies, .. } => copies.iter().for_each(|(from, to)| self.copy(from, to)),
            Step::Mix { salt, x, y, .. } => self.mix(*salt, x, y),
            Step::Fill { to, value, .. }
            | Step::FillNow { to, value, .. }
            | Step::Churn { to, value, .. } => self.words_mut(to).fill(repeated(*value)),
            Step::Alloc { buffer, len, value, .. } => {
                self.buffers.insert(*buffer, vec![repeated(*value); *len]);
            }
            Step::AllocHost { buffer, len, seed, .. } => {
                self.buffers.insert(*buffer, known(words(*seed, *len)));
            }
            Step::Drop { buffer } => {
                self.buffers.remove(buffer);
            }
            Step::Split { buffer, at, into } => {
                let whole = self.buffers.get_mut(buffer).expect("it is there");
                let right = whole.split_off(*at);
                self.buffers.insert(*into, right);
            }
            Step::Write { buffer, seed } => {
                let len = self.buffers[buffer].len();
                self.buffers.insert(*buffer, known(words(*seed, len)));
            }
            Step::Read { buffer } => {
                self.expected.reads.insert(at, self.buffers[buffer].clone());
            }
            Step::Replace { stream } => *self.lives.entry(*stream).or_default() += 1,
            _ => {}
        }
    }
}

/// The thread of a step on a per-thread stream. With turns, each phase has its own threads, so host
/// functions of two phases have no order.
pub(crate) fn thread_of(program: &Program, at: At, step: &Step) -> Option<(usize, usize, usize)> {
    let spec = program.streams.get(step.stream()?)?;
    let scripts = &program.phases[at.phase].scripts;
    let before = scripts[at.script].iter().take(at.step);
    let ended = before.filter(|step| matches!(step, Step::Renew { .. })).count();
    (spec.kind == StreamKind::PerThread).then_some((at.phase, at.script, ended))
}

/// The results of a valid program.
pub(crate) fn interpret(program: &Program) -> Expected {
    interpret_without(program, &BTreeSet::new())
}

/// The results of the program if the steps `failed` have failed.
pub(crate) fn interpret_without(program: &Program, failed: &BTreeSet<At>) -> Expected {
    let expected = Expected { failed: failed.clone(), ..Expected::default() };
    let mut machine = Machine { expected, ..Machine::default() };
    let mut gates = Gates::default();
    for (number, phase) in program.phases.iter().enumerate() {
        for (script, at) in serialised(phase, &mut gates) {
            let step = &phase.scripts[script][at];
            let at = At { phase: number, script, step: at };
            machine.step(at, thread_of(program, at, step), step);
        }
    }
    machine.expected.left = machine.buffers;
    machine.expected.normalised()
}

#[cfg(test)]
mod tests {
    use super::{Outcome, interpret, interpret_without};
    use crate::program::At;
    use crate::reference::{mix, words};
    use crate::text;

    #[test]
    fn every_verb_that_computes_does_what_it_says() {
        let program = text::parse(
            "devices 1
             stream s0 non-blocking on d0
             phase
             thread
             host b0 4 pinned seed 9
             alloc b1 4 on s0 filled 1
             copy b0[0..2] to b1[2..4] on s0
             mix 7 of b0[0..1] into b1[0..1] on s0
             read b0
             split b1 at 1 into b2
             fill b2[0..1] with 255 on s0
             host-fn on s0
             replace s0
             host-fn on s0",
        )
        .expect("the text is a program");
        let outcome = interpret(&program);
        let host = words(9, 4);
        let mut mixed = [0x0101_0101_0101_0101];
        mix(7, &host[..1], &mut mixed);
        assert_eq!(outcome.left[&1], mixed.map(Some));
        assert_eq!(outcome.left[&2], [u64::MAX, host[0], host[1]].map(Some));
        assert_eq!(outcome.reads[&At { phase: 0, script: 0, step: 4 }], super::known(host));
        let lives: Vec<usize> = outcome.notes.keys().map(|line| line.life).collect();
        assert_eq!(lives, [0, 1], "a stream that was replaced has another order");
    }

    #[test]
    fn a_difference_is_named() {
        let text = "devices 1\nphase\nthread\nhost b0 3 pageable seed 1\nread b0";
        let program = text::parse(text).expect("the text is a program");
        let expected = interpret(&program);
        let plain = words(1, 3);
        let read = At { phase: 0, script: 0, step: 1 };
        let mut found = Outcome::default();
        found.reads.insert(read, plain.clone());
        found.left.insert(0, plain);
        assert_eq!(expected.difference(&found), None);
        found.left.get_mut(&0).expect("it is left")[1] ^= 1;
        let difference = expected.difference(&found).expect("a word differs");
        assert_eq!(difference, "buffer b0 differs in 1 words from word 1");
    }

    #[test]
    fn what_a_refused_step_writes_is_unknown_until_it_is_written_again() {
        let text = "devices 1\nstream s0 blocking on d0\nphase\nthread\n\
                    host b0 4 pinned seed 1\nhost b1 4 pinned seed 2\n\
                    fill b0[0..2] with 1 on s0\ncopy b0[1..3] to b1[0..2] on s0\n\
                    fill b0[0..1] with 2 on s0";
        let program = text::parse(text).expect("the text is a program");
        let failed = [At { phase: 0, script: 0, step: 2 }].into();
        let left = interpret_without(&program, &failed).left;
        assert_eq!(left[&0][..2], [Some(0x0202_0202_0202_0202), None]);
        assert_eq!(left[&0][2..], super::known(words(1, 4))[2..]);
        assert_eq!(left[&1][0], None);
        assert_eq!(left[&1][1], Some(words(1, 4)[2]));
    }
}
