//! The meaning of a program: its steps one after the other, on plain bytes.
//!
//! Scripts of one phase share only what they read, so any serialisation gives the same bytes; here
//! they run one after the other.

use crate::program::{At, Part, Program, Step};
use crate::reference::{mix, words};
use std::collections::BTreeMap;

/// The streams among which host functions have an order: one stream from its creation to its
/// drop, and of a per-thread stream only what one thread enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) stream: usize,
    /// How often the stream was replaced before.
    pub(crate) life: usize,
    /// Phase and script of the thread, for the per-thread stream of any but the main thread.
    pub(crate) thread: Option<(usize, usize)>,
}

/// What a user sees of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    /// What each read by the host found.
    pub(crate) reads: BTreeMap<At, Vec<u64>>,
    /// The buffers that are left at the end.
    pub(crate) left: BTreeMap<usize, Vec<u64>>,
    /// The host functions that ran, in their order.
    pub(crate) notes: BTreeMap<Line, Vec<At>>,
}

impl Outcome {
    /// Scripts of one phase may enqueue in one stream in any order; this is the first of them.
    pub(crate) fn normalised(mut self) -> Self {
        for notes in self.notes.values_mut() {
            for phase in notes.chunk_by_mut(|a, b| a.phase == b.phase) {
                phase.sort_by_key(|at| at.script);
            }
        }
        self
    }

    /// Where two outcomes first differ, for people.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let words = |mine: &[u64], theirs: Option<&Vec<u64>>| match theirs {
            None => "is missing".to_owned(),
            Some(theirs) if theirs.len() != mine.len() => "has another length".to_owned(),
            Some(theirs) => {
                let differing: Vec<usize> =
                    (0..mine.len()).filter(|word| mine[*word] != theirs[*word]).collect();
                format!("differs in {} words from word {}", differing.len(), differing[0])
            }
        };
        for (at, mine) in &self.reads {
            let theirs = other.reads.get(at);
            if theirs != Some(mine) {
                return Some(format!("the read at {at:?} {}", words(mine, theirs)));
            }
        }
        for (buffer, mine) in &self.left {
            let theirs = other.left.get(buffer);
            if theirs != Some(mine) {
                return Some(format!("buffer b{buffer} {}", words(mine, theirs)));
            }
        }
        (self != other).then(|| "host functions ran in another order".to_owned())
    }
}

#[derive(Default)]
struct Machine {
    buffers: BTreeMap<usize, Vec<u64>>,
    lives: BTreeMap<usize, usize>,
    outcome: Outcome,
}

impl Machine {
    fn words(&self, part: &Part) -> Vec<u64> {
        self.buffers[&part.buffer][part.indices()].to_vec()
    }

    fn words_mut(&mut self, part: &Part) -> &mut [u64] {
        let words = self.buffers.get_mut(&part.buffer).expect("valid programs name what is there");
        &mut words[part.indices()]
    }

    fn copy(&mut self, from: &Part, to: &Part) {
        let words = self.words(from);
        self.words_mut(to).copy_from_slice(&words);
    }

    fn step(&mut self, at: At, thread: Option<(usize, usize)>, step: &Step) {
        let repeated = |value: u8| u64::from_ne_bytes([value; 8]);
        let count = |len: u64| usize::try_from(len).expect("buffers are short");
        match step {
            Step::Copy { from, to, .. } | Step::CopyNow { from, to, .. } => self.copy(from, to),
            Step::Batch { copies, .. } => copies.iter().for_each(|(from, to)| self.copy(from, to)),
            Step::Mix { salt, x, y, .. } => {
                let x = self.words(x);
                mix(*salt, &x, self.words_mut(y));
            }
            Step::Fill { to, value, .. } | Step::FillNow { to, value, .. } => {
                self.words_mut(to).fill(repeated(*value));
            }
            Step::Alloc { buffer, len, value, .. } => {
                self.buffers.insert(*buffer, vec![repeated(*value); count(*len)]);
            }
            Step::AllocHost { buffer, len, seed, .. } => {
                self.buffers.insert(*buffer, words(*seed, *len));
            }
            Step::Drop { buffer } => {
                self.buffers.remove(buffer);
            }
            Step::Split { buffer, at, into } => {
                let whole = self.buffers.get_mut(buffer).expect("it is there");
                let right = whole.split_off(count(*at));
                self.buffers.insert(*into, right);
            }
            Step::Write { buffer, seed } => {
                let len = self.buffers[buffer].len() as u64;
                self.buffers.insert(*buffer, words(*seed, len));
            }
            Step::Read { buffer } => {
                self.outcome.reads.insert(at, self.buffers[buffer].clone());
            }
            Step::HostFn { stream } => {
                let life = self.lives.get(stream).copied().unwrap_or(0);
                let line = Line { stream: *stream, life, thread };
                self.outcome.notes.entry(line).or_default().push(at);
            }
            Step::Replace { stream } => *self.lives.entry(*stream).or_default() += 1,
            Step::Record { .. }
            | Step::Wait { .. }
            | Step::SyncEvent { .. }
            | Step::QueryEvent { .. }
            | Step::Sync { .. }
            | Step::Query { .. }
            | Step::SyncDevice { .. }
            | Step::Ticket { .. }
            | Step::Await { .. } => {}
        }
    }
}

/// The thread of a step, where its stream is one per thread and it is not the main one.
pub(crate) fn thread_of(program: &Program, at: At, step: &Step) -> Option<(usize, usize)> {
    let spec = program.streams.get(step.stream()?)?;
    let is_main = program.phases[at.phase].scripts.len() == 1;
    (spec.kind == crate::program::StreamKind::PerThread && !is_main)
        .then_some((at.phase, at.script))
}

/// What a valid program computes.
pub(crate) fn interpret(program: &Program) -> Outcome {
    let mut machine = Machine::default();
    for (phase, scripts) in program.phases.iter().enumerate() {
        for (script, steps) in scripts.scripts.iter().enumerate() {
            for (number, step) in steps.iter().enumerate() {
                let at = At { phase, script, step: number };
                machine.step(at, thread_of(program, at, step), step);
            }
        }
    }
    machine.outcome.left = machine.buffers;
    machine.outcome
}

#[cfg(test)]
mod tests {
    use super::interpret;
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
        assert_eq!(outcome.left[&1], mixed);
        assert_eq!(outcome.left[&2], [u64::MAX, host[0], host[1]]);
        assert_eq!(outcome.reads[&At { phase: 0, script: 0, step: 4 }], host);
        let lives: Vec<usize> = outcome.notes.keys().map(|line| line.life).collect();
        assert_eq!(lives, [0, 1], "a stream that was replaced has another order");
    }

    #[test]
    fn a_difference_is_named() {
        let text = "devices 1\nphase\nthread\nhost b0 3 pageable seed 1\nread b0";
        let program = text::parse(text).expect("the text is a program");
        let expected = interpret(&program);
        assert_eq!(expected.difference(&expected), None);
        let mut found = expected.clone();
        found.left.get_mut(&0).expect("it is left")[1] ^= 1;
        let difference = expected.difference(&found).expect("a word differs");
        assert_eq!(difference, "buffer b0 differs in 1 words from word 1");
    }
}
