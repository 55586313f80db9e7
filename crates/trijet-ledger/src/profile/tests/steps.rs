//! Tests of steps over constructed traces of programs with known steps. Times are in microseconds.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::profile::period::{Likeness, period};
use crate::profile::*;
use crate::trace::activity::{Activity, ActivityKind, Api, NameId, ProcessTrace};
use proptest::prelude::*;

/// A program that launches kernels of varying length.
struct Launches {
    trace: ProcessTrace,
    /// The time at which the next kernel of the main stream starts.
    now: u64,
    draw: u64,
}

const MAIN: u32 = 7;

impl Launches {
    fn new(seed: u64) -> Self {
        let trace = ProcessTrace { interface: 130_001, ..ProcessTrace::default() };
        Self { trace, now: 1000, draw: seed }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.draw = self
            .draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 33) % limit
    }

    fn push(&mut self, kind: ActivityKind, name: &str, stream: u32, [begin, end]: [u64; 2]) {
        let names = &mut self.trace.names;
        let known = names.iter().position(|known| known == name);
        let name = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        self.trace.activities.push(Activity {
            kind,
            begin: Nanos(begin * 1000),
            end: Nanos(end * 1000),
            bytes: 0,
            name: Some(NameId(u32::try_from(name).unwrap())),
            device: 0,
            context: 1,
            stream,
            thread: 1,
            correlation: 0,
            node: None,
        });
    }

    /// Adds a kernel of 50 us to 60 us on the main stream, after a pause of 1 us to 3 us. Returns
    /// the start of the kernel.
    fn kernel(&mut self, name: &str) -> u64 {
        let begin = self.now + 1 + self.below(3);
        self.now = begin + 50 + self.below(11);
        self.push(ActivityKind::Kernel, name, MAIN, [begin, self.now]);
        begin
    }

    /// Adds a step of `count` kernels with different names. Returns the start of the step.
    fn step(&mut self, kind: &str, count: usize) -> u64 {
        let begins: Vec<u64> = (0..count).map(|n| self.kernel(&format!("{kind}{n}"))).collect();
        begins[0]
    }

    fn pause(&mut self, time: u64) {
        self.now += time;
    }

    fn device(&self, extent: FiguresOf) -> DeviceProfile {
        let mut process = analyse(&mut self.trace.clone(), extent);
        assert_eq!(process.devices.len(), 1);
        process.devices.pop().unwrap()
    }

    fn steps(&self) -> ProgramSteps {
        self.device(FiguresOf::Steps).steps.expect("the kernels repeat")
    }

    fn text(&self, extent: FiguresOf) -> String {
        text(&Profile::of(vec![analyse(&mut self.trace.clone(), extent)]))
    }
}

/// The times from each start to the next, in nanoseconds, sorted.
fn between(begins: &[u64]) -> Vec<u64> {
    let mut times: Vec<u64> = begins.windows(2).map(|pair| (pair[1] - pair[0]) * 1000).collect();
    times.sort_unstable();
    times
}

#[test]
fn steps_are_counted_and_timed_and_the_start_is_stated_apart() {
    let mut program = Launches::new(1);
    for number in 0..300 {
        program.kernel(&format!("warm-up {}", number % 37));
    }
    program.pause(5000);
    let begins: Vec<u64> = (0..200)
        .map(|_| {
            let begin = program.step("k", 12);
            let pause = program.below(40);
            program.pause(pause);
            begin
        })
        .collect();
    let (steps, times) = (program.steps(), between(&begins));
    assert_eq!((steps.count, steps.different, steps.kernels), (200, 0, 12));
    assert_eq!((steps.first_kernel.as_str(), steps.stream), ("k0", None));
    assert_eq!(steps.began.0, begins[0] * 1000);
    assert_eq!(steps.before.0, begins[0] * 1000 - program.trace.activities[0].begin.0);
    let found = steps.times;
    assert_eq!([found.least.0, found.most.0], [times[0], times[198]]);
    assert_eq!(
        [found.tenth.0, found.median.0, found.ninetieth.0],
        [times[19], times[99], times[179]]
    );
    assert_eq!(program.device(FiguresOf::Steps).kernels[0].launches, 200);
}

/// One step in twenty, chosen at random, has two to five extra kernels. Some of them have the names
/// of kernels that are in every step.
#[test]
fn kernels_now_and_then_are_no_part_of_a_step() {
    for seed in 1..8 {
        let mut program = Launches::new(seed);
        let mut more = 0;
        for step in 0..400 {
            for number in 0..10 {
                program.kernel(&format!("k{number}"));
                if number == 4 && (step == 0 || program.below(20) == 0) {
                    more += 1;
                    for extra in 0..2 + program.below(4) {
                        program.kernel(
                            ["log", "norm", "k7", "k2"][usize::try_from(extra % 4).unwrap()],
                        );
                    }
                }
            }
        }
        let steps = program.steps();
        assert_eq!(steps.kernels, 10, "seed {seed}");
        assert!((396..=404).contains(&steps.count), "seed {seed}: {steps:?}");
        assert!(steps.different + 1 >= more && steps.different <= more, "seed {seed}: {steps:?}");
    }
}

/// Every twentieth step writes a log. An evaluation follows every hundredth step.
#[test]
fn logs_and_evaluations_in_turn_are_no_part_of_a_step() {
    let mut program = Launches::new(3);
    for step in 1..=400 {
        program.step("k", 30);
        if step % 20 == 0 {
            program.step("log", 4);
        }
        if step % 100 == 0 {
            for _ in 0..10 {
                program.step("k", 9);
            }
        }
    }
    let steps = program.steps();
    assert_eq!(steps.kernels, 30);
    assert!((380..=400).contains(&steps.count), "{steps:?}");
}

/// The second stream has its own steps, which are not synchronous with the steps of the first
/// stream.
#[test]
fn two_streams_may_interleave_in_any_order() {
    for seed in 1..8 {
        let mut program = Launches::new(seed);
        let mut other = 1000;
        for _ in 0..300 {
            program.step("main", 9);
            while other < program.now {
                for name in ["copy-like", "reduce", "cast"] {
                    let begin = other + program.below(30);
                    other = begin + 40 + program.below(200);
                    program.push(ActivityKind::Kernel, name, 20, [begin, other]);
                }
            }
        }
        let steps = program.steps();
        assert_eq!((steps.count, steps.kernels, steps.stream), (300, 9, Some(MAIN)), "seed {seed}");
    }
}

/// The second stream follows the first stream step by step. The order of their kernels varies.
#[test]
fn a_stream_that_keeps_pace_belongs_to_the_steps() {
    let mut program = Launches::new(5);
    for _ in 0..300 {
        let begin = program.step("main", 9);
        program.pause(100);
        for n in 0..3 {
            let at = begin + 20 + 150 * n + program.below(120);
            program.push(ActivityKind::Kernel, &format!("side{n}"), 20, [at, at + 20]);
        }
    }
    let steps = program.steps();
    assert_eq!((steps.count, steps.kernels, steps.stream), (300, 12, None));
}

/// Some kernels of each step have a name that depends on the data.
#[test]
fn steps_may_vary_by_a_few_kernels() {
    let mut program = Launches::new(9);
    for _ in 0..150 {
        for number in 0..20 {
            let size = if number % 7 == 3 { program.below(5) } else { 0 };
            program.kernel(&format!("gemm{number} of {size}"));
        }
    }
    let steps = program.steps();
    assert_eq!(steps.kernels, 20);
    assert!(steps.count >= 149, "{steps:?}");
}

#[test]
fn kernels_in_no_order_are_no_steps_and_the_report_says_so() {
    for names in [2, 3, 10, 40, 100_000] {
        for seed in 1..4 {
            let mut program = Launches::new(seed);
            for _ in 0..3000 {
                let name = program.below(names);
                program.kernel(&format!("k{name}"));
            }
            let device = program.device(FiguresOf::Steps);
            assert!(device.steps.is_none(), "{names} names: {:?}", device.steps);
            assert_eq!(device.extent, FiguresOf::Whole);
            assert!(program.text(FiguresOf::Steps).contains("no steps: "));
        }
    }
}

#[test]
fn a_step_may_be_one_kernel() {
    let mut program = Launches::new(2);
    for step in 0..500 {
        program.kernel("only");
        if step % 20 == 7 {
            program.kernel("now and then");
        }
    }
    let steps = program.steps();
    assert_eq!((steps.count, steps.kernels, steps.first_kernel.as_str()), (500, 1, "only"));
    assert_eq!(steps.different, 25);
}

#[test]
fn fewer_than_eight_steps_are_none() {
    for count in [1, 7, 8] {
        let mut program = Launches::new(2);
        (0..count).for_each(|_| {
            program.step("k", 5);
        });
        let found = program.device(FiguresOf::Steps).steps.map(|steps| steps.count);
        assert_eq!(found, Some(count).filter(|count| *count >= 8));
    }
}

/// The evaluation has the forward kernels of the training. The steps belong to the longer phase.
#[test]
fn of_two_phases_the_longer_one_has_the_steps() {
    for (trained, evaluated, expected) in [(200, 100, 14), (200, 900, 5)] {
        let mut program = Launches::new(4);
        for _ in 0..trained {
            program.step("forward", 5);
            program.step("backward", 9);
        }
        let trained_until = program.now;
        for _ in 0..evaluated {
            program.step("forward", 5);
        }
        let steps = program.steps();
        assert_eq!(steps.kernels, expected);
        let (all, end) = (Nanos(program.now * 1000), steps.began.0 + steps.elapsed.0);
        if expected == 14 {
            assert!((199..=200).contains(&steps.count), "{steps:?}");
            assert!(end <= trained_until * 1000, "{steps:?}");
            assert_eq!(steps.after.0, all.0 - end);
        } else {
            assert!((899..=901).contains(&steps.count), "{steps:?}");
            assert!(steps.before.0 >= (trained_until - 2000) * 1000, "{steps:?}");
        }
    }
}

/// A program that takes 6 s to start and works for 0.4 s. The time to start does not count as idle
/// time of the work.
#[test]
fn the_findings_are_those_of_the_steps_and_with_whole_those_of_all() {
    let mut program = Launches::new(6);
    program.kernel("init");
    let init = program.now;
    program.pause(6_000_000);
    program.push(ActivityKind::Call(Api::Runtime), "cudaMalloc", 0, [init, init + 4_000_000]);
    for _ in 0..100 {
        program.step("k", 70);
    }
    let idle = |extent| program.device(extent).idle.total.0 / 1_000_000;
    assert_eq!((idle(FiguresOf::Steps) / 100, idle(FiguresOf::Whole) / 1000), (0, 6));
    let shown = program.text(FiguresOf::Steps);
    assert!(shown.contains("start: 6.000 s before the first step"), "{shown}");
    assert!(!shown.contains("PERF/SYNC-ALLOC"), "{shown}");
    let whole = program.text(FiguresOf::Whole);
    assert!(whole.contains("PERF/SYNC-ALLOC") && whole.contains("time per step: "), "{whole}");
    let device = program.device(FiguresOf::Steps);
    let steps = device.steps.expect("the kernels repeat");
    assert_eq!((device.extent, steps.count), (FiguresOf::Steps, 100));
    assert!(steps.times.median > Nanos(3_500_000));
}

#[test]
fn the_same_trace_in_another_order_has_the_same_steps() {
    let mut program = Launches::new(8);
    for _ in 0..60 {
        program.step("k", 6);
    }
    let found = program.text(FiguresOf::Steps);
    program.trace.activities.reverse();
    assert_eq!(program.text(FiguresOf::Steps), found);
}

fn found(names: &[u32]) -> Option<usize> {
    let count = names.iter().max().map_or(0, |most| usize::try_from(*most).unwrap() + 1);
    let found = period(names, count, Likeness::Equal)?;
    let sorted = |step: &crate::profile::period::PeriodStep| {
        let mut names = names[step.place.clone()].to_vec();
        names.sort_unstable();
        names
    };
    let mut regular = found.steps.iter().filter(|step| step.is_regular).map(sorted);
    let first = regular.next().expect("a regular step");
    assert_eq!(first.len(), found.length);
    assert!(regular.all(|names| names == first), "regular steps have the same names");
    assert!(found.steps.windows(2).all(|two| two[0].place.end == two[1].place.start));
    Some(found.length)
}

/// In these steps, no name occurs exactly once.
#[test]
fn a_row_of_names_may_begin_a_step() {
    for word in ["aabb", "aaab", "abcabdabd", "aabaab-aabaac-", "abacabad"] {
        let names: Vec<u32> = word.repeat(40).chars().map(u32::from).collect();
        let names: Vec<u32> = names.into_iter().map(|name| name - 45).collect();
        assert_eq!(found(&names), Some(word.len()), "{word}");
    }
}

/// The search looks at a part of this sequence. The name that starts the first step of the part
/// need not start the first step of the sequence.
#[test]
fn steps_of_a_long_sequence_are_all_found() {
    let names: Vec<u32> = (0..300_000).map(|n| n % 150).collect();
    let found = period(&names, 150, Likeness::Equal).expect("it repeats");
    assert!(found.steps.len() >= 1999 && found.length == 150, "{}", found.steps.len());
}

proptest! {
    /// The sequence is any word, repeated.
    #[test]
    fn a_repeated_word_is_found(
        word in prop::collection::vec(0_u32..6, 1..24),
        times in 10_usize..30,
        before in prop::collection::vec(0_u32..9, 0..40),
    ) {
        let names: Vec<u32> = before.into_iter().chain(word.repeat(times)).collect();
        if let Some(length) = found(&names) {
            prop_assert!(length <= word.len(), "{length}");
        } else {
            // If no steps are found, the words are short: all words except the first and the last
            // make up less than a third of the sequence.
            prop_assert!(word.len() * (times - 2) * 3 < names.len(), "{word:?}");
        }
    }

    /// A word of different names is found with its full length.
    #[test]
    fn a_repeated_word_of_different_names_is_found_whole(length in 1_u32..60, times in 8_u32..40) {
        let names: Vec<u32> = (0..length * times).map(|n| n % length).collect();
        prop_assert_eq!(found(&names), Some(usize::try_from(length).unwrap()));
    }
}
