//! Lanes and their tenants: every short sequence of steps that two host threads take, run against
//! the library itself on the virtual executor.
//!
//! *The model.* A lane is numbered work in order; a mark is an event recorded on a lane with the
//! clock that it claims; a stamp is what a buffer keeps of its users; a tenancy is the time for which
//! one stream has a lane. The mapping to steps:
//!
//! - lane: one of at most three open streams, two created ones and the per-thread default streams of
//!   the two threads; a stream is opened by the first step that uses it, and dropped by either thread;
//! - tenancy: whatever is opened after a drop takes the lane over, as soon as its work is complete.
//!   `Settle` makes it complete, and neither thread learns of it;
//! - mark: records that the library inserts, and those of one user event, which any stream waits for;
//! - stamp: of one page-locked buffer `h` and one device buffer `x`, both tracked, which operations
//!   fill and copy into each other, and which the host reads and writes (`h`) through guards.
//!
//! Nothing completes by itself: each operation of a sequence is slower than the next one by more than
//! what the seed changes, so an operation that does not wait for an earlier one overtakes it. No step
//! but a wait lets that much time pass.
//!
//! *What holds after each sequence.* A look by either thread, at `h` alone or after a copy back of `x`
//! that teaches the thread what the marks claim, finds the values of the program's order, or an
//! error if a call was refused; no call waits for ever; and the bytes under a guard stay as they are
//! while the device does everything that is left.
//!
//! *What is covered.* Each family is complete to its bound, but for sequences that differ by the
//! names of alike streams or threads, or by the order of steps that have nothing in common:
//!
//! - all sequences of up to 3 steps of every kind, and of 4 operations;
//! - up to 2 steps (fills, records, waits, by either thread on any stream) after a tenancy that has
//!   ended: a stream that filled one buffer, was complete by then or not, and was dropped by either
//!   thread, beside another one or alone;
//! - refused calls: all sequences of up to 2 steps of every kind, of 3 fills, records and waits, all
//!   ended tenancies, and all of up to 4 fills, drops and settlings that hand a lane on; in each of
//!   them every call of the driver in turn: creating and recording an event, waiting in a stream, a
//!   query, an operation, creating a stream. Records are also refused twice and eight times in a row:
//!   a second try must not hide the first refusal.
//!
//! Not covered: blocking and legacy streams, parts of buffers, manual memory, several devices (the
//! random programs draw those), and threads that run at once.

mod steps;
mod world;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use steps::{Alphabet, FULL, LASTS, Last, STREAMS, Step, What, each_sequence};
use trijet::sim::{Order, Verb};
use world::{BATCH, Calls, Crew, Program};

/// A sequence that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Failures that are printed.
const SHOWN_MAX: usize = 6;

/// Ends the process, with the sequence, when one does not end.
fn watch(crew: &Crew) -> Sender<()> {
    let (alive, ended) = channel::<()>();
    let current = Arc::clone(&crew.current);
    std::thread::spawn(move || {
        let mut seen = 0;
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let current = current.lock().unwrap_or_else(PoisonError::into_inner);
            if current.0 == seen {
                eprintln!("one of these sequences does not end:");
                current.1.iter().for_each(|program| eprintln!("{program}"));
                std::process::abort();
            }
            seen = current.0;
        }
    });
    alive
}

/// Runs sequences, and keeps the first ones that go wrong.
struct Trial {
    crew: Crew,
    /// By the number of the run.
    order: fn(u64) -> Order,
    _watched: Sender<()>,
    waiting: Vec<Program>,
    runs: u64,
    wrong: Vec<String>,
}

impl Trial {
    /// With all that the laws leave open drawn.
    fn new() -> Self {
        Self::with(Order::Seeded)
    }

    fn with(order: fn(u64) -> Order) -> Self {
        let crew = Crew::new();
        let (waiting, wrong) = (Vec::new(), Vec::new());
        Self { _watched: watch(&crew), crew, order, waiting, runs: 0, wrong }
    }

    /// Whether more may go wrong.
    fn goes_on(&self) -> bool {
        self.wrong.len() < SHOWN_MAX
    }

    fn run(&mut self, programs: &[Program]) -> Vec<Option<Calls>> {
        let mut found = Vec::new();
        for batch in programs.chunks(BATCH) {
            for (outcome, program) in self.crew.run(batch).into_iter().zip(batch) {
                self.runs += 1;
                found.push(outcome.map_err(|what| self.note(&what, program)).ok());
            }
        }
        found
    }

    fn note(&mut self, what: &str, program: &Program) {
        if self.goes_on() {
            self.wrong.push(format!("{what}\n{program}"));
        }
    }

    /// A sequence with each of these ends.
    fn ends(&self, steps: &[Step], lasts: &[Last]) -> Vec<Program> {
        let number = self.runs + self.waiting.len() as u64;
        let end = |last: &Last| {
            let (steps, order) = (steps.to_vec(), (self.order)(number));
            Program { steps, last: *last, refused: Vec::new(), order }
        };
        lasts.iter().map(end).collect()
    }

    /// Runs it, sooner or later; whether more are wanted.
    fn run_ends(&mut self, steps: &[Step], lasts: &[Last]) -> bool {
        self.waiting.extend(self.ends(steps, lasts));
        if self.waiting.len() >= BATCH {
            self.run_waiting();
        }
        self.goes_on()
    }

    fn run_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.run(&waiting);
    }

    /// Runs it with each of its ends and each call that can be refused.
    fn run_refused(&mut self, steps: &[Step]) -> bool {
        let fine = self.ends(steps, &LASTS);
        let calls = self.run(&fine);
        let refused = fine.iter().zip(calls).flat_map(|(fine, calls)| {
            let refused = calls.map(refusals).unwrap_or_default().into_iter();
            refused.map(|refused| Program { refused, ..fine.clone() })
        });
        self.run(&refused.collect::<Vec<_>>());
        self.goes_on()
    }

    fn end(mut self, at_least: u64) {
        self.run_waiting();
        let Self { runs, wrong, .. } = self;
        assert!(wrong.is_empty(), "after {runs} runs:\n{}", wrong.join("\n"));
        assert!(runs >= at_least, "{runs} runs: sequences are missing");
        println!("{runs} runs");
    }
}

/// Every call of the sequence that can be refused; records also several times in a row.
fn refusals(calls: Calls) -> Vec<Vec<(Verb, u64)>> {
    // A query is only made of a lane that was given back, and there are two of them at most.
    let verbs = [
        (Verb::EventCreate, 1..=calls.records),
        (Verb::EventRecord, 1..=calls.records),
        (Verb::StreamWait, 1..=calls.waits),
        (Verb::Query, 1..=2),
        (Verb::Fill, 2..=calls.fills),
        (Verb::Copy, 1..=calls.copies),
        (Verb::StreamCreate, 2..=calls.streams),
    ];
    let single = verbs.into_iter().flat_map(|(verb, of)| of.map(move |nth| vec![(verb, nth)]));
    let rows = (1..=calls.records).flat_map(|first| [2, 8].map(|count| (first, count)));
    let rows = rows
        .map(|(first, count)| (first..first + count).map(|nth| (Verb::EventRecord, nth)).collect());
    single.chain(rows).collect()
}

/// Tenancies that have ended: a stream of thread 0 filled one buffer, was complete or not, another
/// stream filled one or not, and either thread dropped the first one.
fn tenancies() -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    for (on, what) in [(0, What::FillH), (0, What::FillX), (2, What::FillH), (2, What::FillX)] {
        for settles in [true, false] {
            let mut steps = vec![Step::Op { by: 0, on, what }];
            steps.extend(settles.then_some(Step::Settle));
            let mut others = vec![steps.clone()];
            each_sequence(&steps, 1, &FILLS, &mut |steps| {
                if !matches!(steps.last(), Some(Step::Op { on: other, .. }) if *other == on) {
                    others.push(steps.to_vec());
                }
                true
            });
            for (other, by) in others.into_iter().flat_map(|other| [(other.clone(), 0), (other, 1)])
            {
                found.push([other, vec![Step::Close { by, on }]].concat());
            }
        }
    }
    found
}

/// Fills alone.
const FILLS: Alphabet = Alphabet { events: false, ..FILLS_AND_EVENTS };

/// Fills, and what orders them beside the buffers.
const FILLS_AND_EVENTS: Alphabet = Alphabet {
    whats: &[What::FillH, What::FillX],
    host: false,
    closes: false,
    settles: false,
    ..FULL
};

/// Fills in lanes that are handed on.
const FILLS_AND_CLOSES: Alphabet =
    Alphabet { whats: &[What::FillH, What::FillX], events: false, host: false, ..FULL };

/// Operations alone, but for those that repeat what others show.
const OPERATIONS: Alphabet =
    Alphabet { whats: &[What::FillH, What::Upload, What::Download], closes: false, ..FILLS };

/// A lane is handed on that was complete at some time.
fn hands_on(steps: &[Step]) -> bool {
    steps.contains(&Step::Settle) && steps.iter().any(|step| matches!(step, Step::Close { .. }))
}

#[test]
fn every_sequence_of_three_steps_has_the_values_of_its_order() {
    // Drawn, and as a GPU would time them.
    for order in [Order::Seeded, |_| Order::Greedy] {
        let mut trial = Trial::with(order);
        for more in 1..=3 {
            each_sequence(&[], more, &FULL, &mut |steps| trial.run_ends(steps, &LASTS));
        }
        trial.end(20_000);
    }
}

#[test]
fn every_sequence_of_four_operations_has_the_values_of_its_order() {
    let mut trial = Trial::new();
    // They hand no lane on, so a look at both buffers has all that a look at one has.
    let lasts = [0, 1].map(|by| Last { by, copies_first: true });
    each_sequence(&[], 4, &OPERATIONS, &mut |steps| trial.run_ends(steps, &lasts));
    trial.end(40_000);
}

#[test]
fn the_work_of_an_ended_tenancy_is_no_claim_about_the_next_one() {
    let mut trial = Trial::new();
    for begin in tenancies() {
        for more in 1..=2 {
            each_sequence(&begin, more, &FILLS_AND_EVENTS, &mut |steps| {
                trial.run_ends(steps, &LASTS)
            });
        }
    }
    trial.end(10_000);
}

#[test]
fn a_refused_call_keeps_the_order_exact_or_fails_each_call_that_needs_it() {
    let mut trial = Trial::new();
    for more in 1..=2 {
        each_sequence(&[], more, &FULL, &mut |steps| trial.run_refused(steps));
    }
    each_sequence(&[], 3, &FILLS_AND_EVENTS, &mut |steps| trial.run_refused(steps));
    for steps in tenancies() {
        trial.run_refused(&steps);
    }
    trial.end(10_000);
}

#[test]
fn a_refused_call_does_not_hand_a_lane_on_early() {
    let mut trial = Trial::new();
    for more in 3..=4 {
        each_sequence(&[], more, &FILLS_AND_CLOSES, &mut |steps| {
            !hands_on(steps) || trial.run_refused(steps)
        });
    }
    trial.end(10_000);
}

/// Programs that once read stale bytes. They are in the families above, and here by name.
mod named {
    use super::*;

    const OWN: usize = STREAMS - 2;

    const fn fill(by: usize, on: usize, what: What) -> Step {
        Step::Op { by, on, what }
    }

    const TAKEN_OVER: [Step; 6] = [
        fill(0, OWN, What::FillX),
        Step::Settle,
        fill(0, 0, What::FillH),
        Step::Close { by: 0, on: OWN },
        Step::Record { by: 0, on: 0 },
        Step::Wait { by: 0, on: OWN },
    ];

    const DROPPED_EARLY: [Step; 4] = [
        fill(0, OWN, What::FillH),
        Step::Settle,
        fill(0, OWN, What::FillX),
        Step::Close { by: 1, on: OWN },
    ];

    fn demand(steps: &[Step], last: Last, refused: &[(Verb, u64)]) {
        let mut trial = Trial::new();
        let program = |seed| {
            let (steps, refused) = (steps.to_vec(), refused.to_vec());
            Program { steps, last, refused, order: Order::Seeded(seed) }
        };
        trial.run(&(0..8).map(program).collect::<Vec<_>>());
        trial.end(8);
    }

    /// A lane went from one per-thread stream to the next one of its thread; an old position of it was
    /// answered by an event that another thread recorded in its own, empty default stream, and that
    /// claimed all that the lane knew by then.
    #[test]
    fn a_position_of_an_earlier_tenancy_is_not_answered_by_the_next_tenant() {
        demand(&TAKEN_OVER, Last { by: 1, copies_first: true }, &[]);
    }

    /// The record after an operation of a per-thread stream was refused; another thread that needed it
    /// recorded its own default stream instead.
    #[test]
    fn a_refused_record_of_a_per_thread_stream_is_not_made_by_another_thread() {
        let last = Last { by: 1, copies_first: false };
        demand(&[fill(0, OWN, What::FillH)], last, &[(Verb::EventRecord, 1)]);
    }

    /// The end of a per-thread stream that another thread dropped was the last record that had been
    /// made, and not that of its last operation: the lane was handed on while that was pending.
    #[test]
    fn a_lane_is_not_handed_on_before_an_operation_whose_record_was_refused() {
        for nth in 1..=4 {
            demand(&DROPPED_EARLY, Last { by: 1, copies_first: true }, &[(Verb::EventRecord, nth)]);
        }
    }

    #[test]
    fn the_families_contain_the_named_programs() {
        let mut found = 0;
        for begin in tenancies() {
            each_sequence(&begin, 2, &FILLS_AND_EVENTS, &mut |steps| {
                found += u32::from(steps == TAKEN_OVER);
                true
            });
        }
        each_sequence(&[], 4, &FILLS_AND_CLOSES, &mut |steps| {
            found += u32::from(hands_on(steps) && steps == DROPPED_EARLY);
            true
        });
        assert_eq!(found, 2);
    }
}
