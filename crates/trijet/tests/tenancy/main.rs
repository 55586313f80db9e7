//! Lanes and the streams that have them: every short sequence of steps of two host threads, run
//! against the library on the virtual executor.
//!
//! *The model.* A lane is numbered work in order. A mark is an event recorded on a lane, with the
//! clock that it claims. A stamp lists the users of a buffer. A tenancy is the time for which one
//! stream has a lane. The mapping to steps:
//!
//! - lane: one of at most three open streams, two created ones and the per-thread default streams
//!   of the two threads; a stream is opened by the first step that uses it, and dropped by either
//!   thread;
//! - tenancy: the next stream that is opened after a drop takes the lane over, as soon as its work
//!   is complete. `Settle` makes it complete, and neither thread learns of it;
//! - mark: records that the library inserts, and records of one user event, which any stream waits
//!   for;
//! - stamp: of one page-locked buffer `h` and one device buffer `x`, both tracked. Operations fill
//!   them and copy them into each other, and the host reads and writes `h` through guards.
//!
//! Nothing completes without a wait: each operation of a sequence is slower than the next one by
//! more than the change by the seed. So an operation that does not wait for an earlier one
//! overtakes it. Only a wait lets that much time pass.
//!
//! *The demands after each sequence.* One of the threads reads `h`, or first copies `x` back, which
//! also tells it the claims of the marks. It finds the values of the program's order, or gets an
//! error if a call was refused. No call waits for ever. The bytes under a guard do not change while
//! the device does all remaining work.
//!
//! *The coverage.* With the variable `TRIJET_ALL_SEQUENCES`, which `cargo xtask tenancy` sets, each
//! family is complete to its bound. Otherwise the first family is complete up to 3 steps, and a
//! third of each other family is drawn. No two sequences of a family differ only in the names of
//! alike streams or threads, or in the order of steps that have nothing in common:
//!
//! - all sequences of up to 3 steps of every kind, and of 4 operations;
//! - up to 2 steps (fills, records, waits, by either thread on any stream) after a tenancy that has
//!   ended: a stream that filled one buffer, was complete by then or not, and was dropped by either
//!   thread, beside another one or alone;
//! - refused calls: all sequences of up to 2 steps of every kind, of 3 fills, records and waits,
//!   all ended tenancies, and all of up to 4 fills, drops and settlings that hand a lane on; in
//!   each of them every call of the driver in turn: creating and recording an event, waiting in a
//!   stream, a query, an operation, creating a stream. Records are also refused twice and eight
//!   times in a row: a second try must not hide the first refusal.
//!
//! Not covered: blocking and legacy streams, parts of buffers, manual memory, several devices
//! (random programs draw these), and threads that run concurrently.

mod steps;
mod world;

use std::env;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use steps::{Alphabet, FULL, LASTS, Last, STREAMS, Step, What, each_sequence};
use trijet::sim::{Order, Verb};
use trijet::testing::Prng;
use world::{BATCH, Calls, HostThreads, Program};

/// A sequence that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(600);
/// If this variable is set, the families run completely.
const ALL: &str = "TRIJET_ALL_SEQUENCES";
/// The limit for printed failures.
const SHOWN_MAX: usize = 6;

/// Prints the sequences and ends the process when one does not end.
fn watch(threads: &HostThreads) -> Sender<()> {
    let (alive, ended) = channel::<()>();
    let current = Arc::clone(&threads.current);
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
struct Runner {
    threads: HostThreads,
    /// The order of a run, by its number.
    order: fn(u64) -> Order,
    /// One sequence in this many runs.
    one_in: u64,
    /// The number of sequences of the family so far.
    seen: u64,
    _watched: Sender<()>,
    waiting: Vec<Program>,
    runs: u64,
    wrong: Vec<String>,
}

impl Runner {
    /// A fifth of a family, or the whole family if `cargo xtask tenancy` runs it. In drawn orders.
    fn drawn() -> Self {
        let one_in = if env::var_os(ALL).is_some() { 1 } else { 5 };
        Self { one_in, ..Self::with(Order::Seeded) }
    }

    /// A whole family.
    fn with(order: fn(u64) -> Order) -> Self {
        let threads = HostThreads::new();
        let (waiting, wrong) = (Vec::new(), Vec::new());
        Self {
            _watched: watch(&threads),
            threads,
            order,
            one_in: 1,
            seen: 0,
            waiting,
            runs: 0,
            wrong,
        }
    }

    /// Whether fewer failures than the limit were found.
    fn goes_on(&self) -> bool {
        self.wrong.len() < SHOWN_MAX
    }

    fn run(&mut self, programs: &[Program]) -> Vec<Option<Calls>> {
        let mut found = Vec::new();
        for batch in programs.chunks(BATCH) {
            for (outcome, program) in self.threads.run(batch).into_iter().zip(batch) {
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

    /// The sequence with each of these ends.
    fn ends(&self, steps: &[Step], lasts: &[Last]) -> Vec<Program> {
        let number = self.runs + self.waiting.len() as u64;
        let end = |last: &Last| {
            let (steps, order) = (steps.to_vec(), (self.order)(number));
            Program { steps, last: *last, refused: Vec::new(), order }
        };
        lasts.iter().map(end).collect()
    }

    /// Whether the next sequence of the family runs. The draw depends on its number only.
    fn draws(&mut self) -> bool {
        self.seen += 1;
        Prng::new(self.seen).below(self.one_in) == 0
    }

    /// Runs the sequence with each of its ends, now or with a later batch; returns whether to go
    /// on.
    fn run_ends(&mut self, steps: &[Step], lasts: &[Last]) -> bool {
        if self.draws() {
            self.waiting.extend(self.ends(steps, lasts));
        }
        if self.waiting.len() >= BATCH {
            self.run_waiting();
        }
        self.goes_on()
    }

    fn run_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.run(&waiting);
    }

    /// Runs the sequence with each of its ends, and with each call refused that can be; returns
    /// whether to go on.
    fn run_refused(&mut self, steps: &[Step]) -> bool {
        if !self.draws() {
            return true;
        }
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
        let Self { runs, wrong, one_in, .. } = self;
        assert!(wrong.is_empty(), "after {runs} runs:\n{}", wrong.join("\n"));
        assert!(runs >= at_least / one_in, "{runs} runs: sequences are missing");
        println!("{runs} runs");
    }
}

/// The refusals to try: each call of the sequence, and records several times in a row as well.
fn refusals(calls: Calls) -> Vec<Vec<(Verb, u64)>> {
    // Only lanes that were given back are queried, at most two.
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

/// Tenancies that have ended. A stream of thread 0 fills one buffer and is complete or not. Another
/// stream fills a buffer or not. Either thread drops the first stream.
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

/// Fills only.
const FILLS: Alphabet = Alphabet { events: false, ..FILLS_AND_EVENTS };

/// Fills, and events that order them.
const FILLS_AND_EVENTS: Alphabet = Alphabet {
    whats: &[What::FillH, What::FillX],
    host: false,
    closes: false,
    settles: false,
    ..FULL
};

/// Fills in lanes that pass to another stream.
const FILLS_AND_CLOSES: Alphabet =
    Alphabet { whats: &[What::FillH, What::FillX], events: false, host: false, ..FULL };

/// Operations only, without operations that repeat others.
const OPERATIONS: Alphabet =
    Alphabet { whats: &[What::FillH, What::Upload, What::Download], closes: false, ..FILLS };

/// Whether a complete lane passes to another stream.
fn hands_on(steps: &[Step]) -> bool {
    steps.contains(&Step::Settle) && steps.iter().any(|step| matches!(step, Step::Close { .. }))
}

#[test]
fn every_sequence_of_three_steps_has_the_values_of_its_order() {
    // In drawn orders, and as a GPU would time them.
    for order in [Order::Seeded, |_| Order::Greedy] {
        let mut runner = Runner::with(order);
        for more in 1..=3 {
            each_sequence(&[], more, &FULL, &mut |steps| runner.run_ends(steps, &LASTS));
        }
        runner.end(20_000);
    }
}

#[test]
fn sequences_of_four_operations_have_the_values_of_their_order() {
    let mut runner = Runner::drawn();
    // No lane passes to another stream, so a look at both buffers covers a look at one.
    let lasts = [0, 1].map(|by| Last { by, copies_first: true });
    each_sequence(&[], 4, &OPERATIONS, &mut |steps| runner.run_ends(steps, &lasts));
    runner.end(40_000);
}

#[test]
fn the_work_of_an_ended_tenancy_is_no_claim_about_the_next_one() {
    let mut runner = Runner::drawn();
    for begin in tenancies() {
        for more in 1..=2 {
            each_sequence(&begin, more, &FILLS_AND_EVENTS, &mut |steps| {
                runner.run_ends(steps, &LASTS)
            });
        }
    }
    runner.end(10_000);
}

#[test]
fn a_refused_call_keeps_the_order_exact_or_fails_each_call_that_needs_it() {
    let mut runner = Runner::drawn();
    for more in 1..=2 {
        each_sequence(&[], more, &FULL, &mut |steps| runner.run_refused(steps));
    }
    each_sequence(&[], 3, &FILLS_AND_EVENTS, &mut |steps| runner.run_refused(steps));
    for steps in tenancies() {
        runner.run_refused(&steps);
    }
    runner.end(10_000);
}

#[test]
fn a_refused_call_does_not_hand_a_lane_on_early() {
    let mut runner = Runner::drawn();
    for more in 3..=4 {
        each_sequence(&[], more, &FILLS_AND_CLOSES, &mut |steps| {
            !hands_on(steps) || runner.run_refused(steps)
        });
    }
    runner.end(10_000);
}

/// Programs that once read stale bytes. The families above contain them; here they have names.
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
        let mut runner = Runner::drawn();
        let program = |seed| {
            let (steps, refused) = (steps.to_vec(), refused.to_vec());
            Program { steps, last, refused, order: Order::Seeded(seed) }
        };
        runner.run(&(0..8).map(program).collect::<Vec<_>>());
        runner.end(8);
    }

    /// A lane passed from one per-thread stream to the next one of its thread. The library asked
    /// another thread for an event of an old position. That thread recorded the event in its own,
    /// empty default stream. The event then claimed all knowledge of the lane at that time.
    #[test]
    fn a_position_of_an_earlier_tenancy_is_not_answered_by_the_next_tenant() {
        demand(&TAKEN_OVER, Last { by: 1, copies_first: true }, &[]);
    }

    /// The record after an operation of a per-thread stream was refused. Another thread that needed
    /// it then recorded its own default stream.
    #[test]
    fn a_refused_record_of_a_per_thread_stream_is_not_made_by_another_thread() {
        let last = Last { by: 1, copies_first: false };
        demand(&[fill(0, OWN, What::FillH)], last, &[(Verb::EventRecord, 1)]);
    }

    /// Another thread dropped a per-thread stream. Its last successful record was taken for its
    /// end, and not its last operation. So the lane passed on while that operation was pending.
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
