//! Named ranges, and steps that a program names. Times are in microseconds.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::profile::*;
use crate::trace::activity::{Activity, ActivityKind, Api, MarkKind, NameId, ProcessTrace};

const MAIN: u32 = 1;

/// A program that names its ranges and launches kernels.
struct Named {
    trace: ProcessTrace,
    correlation: u32,
}

impl Named {
    fn new() -> Self {
        let trace = ProcessTrace { interface: 130_001, ..ProcessTrace::default() };
        Self { trace, correlation: 0 }
    }

    fn push(&mut self, kind: ActivityKind, name: &str, thread: u32, [begin, end]: [u64; 2]) {
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
            stream: 7,
            thread,
            correlation: self.correlation,
            node: None,
        });
    }

    /// Launches a kernel of 10 us at `at` in a thread. The kernel starts 5 us later.
    fn kernel(&mut self, name: &str, thread: u32, at: u64) {
        self.correlation += 1;
        self.push(ActivityKind::Call(Api::Runtime), "cudaLaunchKernel", thread, [at, at + 2]);
        self.push(ActivityKind::Kernel, name, 0, [at + 5, at + 15]);
    }

    fn range(&mut self, name: &str, thread: u32, [begin, end]: [u64; 2]) {
        self.correlation += 1;
        self.push(ActivityKind::Mark(MarkKind::Start), name, thread, [begin, begin]);
        self.push(ActivityKind::Mark(MarkKind::End), "", thread, [end, end]);
    }

    fn profile(&self) -> ProcessProfile {
        analyse(&mut self.trace.clone(), FiguresOf::Steps)
    }

    fn steps(&self) -> Option<ProgramSteps> {
        let mut process = self.profile();
        assert_eq!(process.devices.len(), 1);
        process.devices.pop().unwrap().steps
    }
}

/// Kernels whose names do not repeat, in two layers for each step.
fn training(steps: u64) -> Named {
    let mut program = Named::new();
    for step in 0..steps {
        let at = 1000 + 100 * step;
        program.range(&format!("step {step}"), MAIN, [at, at + 90]);
        for layer in 0..2 {
            let at = at + 5 + 40 * layer;
            program.range(&format!("layer {layer}"), MAIN, [at, at + 30]);
            program.kernel(&format!("k{step}.{layer}"), MAIN, at + 5);
        }
    }
    program
}

#[test]
fn the_outermost_ranges_of_which_there_are_enough_are_the_steps() {
    let mut program = training(20);
    program.range("epoch 0", MAIN, [990, 1995]);
    program.range("epoch 1", MAIN, [1996, 3100]);
    let steps = program.steps().unwrap();
    assert_eq!((steps.range.as_deref(), steps.count), (Some("step #"), 20));
    assert_eq!((steps.kernels, steps.times.median), (2, Nanos(100_000)));
    assert_eq!(steps.began, Nanos(1_015_000), "the first kernel of the first step");
    let few = training(3).steps().unwrap();
    assert_eq!((few.range.as_deref(), few.count), (Some("step #"), 3));
    assert!(training(1).steps().is_none(), "one step of two layers");
}

#[test]
fn ranges_without_most_of_the_kernels_are_no_steps() {
    let mut program = training(20);
    // The names of these kernels repeat.
    for n in 0..200 {
        program.kernel("other", MAIN, 10_000 + 20 * n);
    }
    let steps = program.steps().unwrap();
    assert_eq!((steps.range, steps.first_kernel.as_str()), (None, "other"));
}

#[test]
fn ranges_of_one_name_that_overlap_are_no_steps() {
    let mut program = Named::new();
    for step in 0..20 {
        let at = 1000 + 100 * step;
        program.range("batch", MAIN, [at, at + 150]);
        program.kernel(&format!("k{step}"), MAIN, at + 60);
    }
    assert!(program.steps().is_none());
}

#[test]
fn steps_with_other_kernels_are_counted() {
    let mut program = Named::new();
    for step in 0..20 {
        let at = 1000 + 100 * step;
        program.range("step", MAIN, [at, at + 90]);
        program.kernel("usual", MAIN, at + 10);
        if step == 4 {
            program.kernel("saved", MAIN, at + 40);
        }
    }
    let steps = program.steps().unwrap();
    assert_eq!((steps.count, steps.different, steps.kernels), (20, 1, 1));
}

/// The times of the range `name`: the number of operations, and the time in which they ran.
fn ran(program: &Named, name: &str) -> Option<(usize, Nanos)> {
    let profile = program.profile();
    let found = profile.ranges.iter().find(|range| range.name == name)?;
    Some((found.operations, found.ran))
}

/// PyTorch computes gradients in a thread of its own, which names nothing.
#[test]
fn a_thread_that_names_nothing_works_for_the_only_thread_with_a_range() {
    let mut program = Named::new();
    program.range("step", MAIN, [100, 200]);
    program.kernel("backward", 2, 110);
    assert_eq!(ran(&program, "step"), Some((1, Nanos(10_000))));
    program.range("load", 3, [105, 120]);
    assert_eq!(ran(&program, "step"), Some((0, Nanos(0))), "two threads have open ranges");
    program.range("own", 2, [109, 120]);
    assert_eq!(ran(&program, "own"), Some((1, Nanos(10_000))));
}

#[test]
fn an_operation_belongs_to_all_ranges_around_its_call() {
    let mut program = Named::new();
    program.range("outer", MAIN, [100, 200]);
    program.range("inner", MAIN, [110, 120]);
    program.kernel("in both", MAIN, 111);
    program.kernel("in the outer one", MAIN, 130);
    program.kernel("in none", MAIN, 201);
    assert_eq!(ran(&program, "inner"), Some((1, Nanos(10_000))));
    assert_eq!(ran(&program, "outer"), Some((2, Nanos(20_000))));
}

/// A program may be killed in a range, and the start of a range may be lost.
#[test]
fn a_range_without_an_end_lasts_to_the_end_of_the_trace() {
    let mut program = Named::new();
    program.correlation = 50;
    program.push(ActivityKind::Mark(MarkKind::End), "", MAIN, [90, 90]);
    program.correlation = 51;
    program.push(ActivityKind::Mark(MarkKind::Start), "open", MAIN, [100, 100]);
    program.push(ActivityKind::Mark(MarkKind::Moment), "moment", MAIN, [105, 105]);
    program.kernel("k", MAIN, 150);
    let profile = program.profile();
    assert_eq!(profile.ranges.len(), 1);
    assert_eq!((profile.ranges[0].ranges, profile.ranges[0].open), (1, Nanos(65_000)));
    assert_eq!(ran(&program, "open"), Some((1, Nanos(10_000))));
}

/// A range may begin long before the first call of CUDA.
#[test]
fn marks_change_no_figure_of_the_device() {
    let mut program = Named::new();
    program.kernel("k", MAIN, 1000);
    let without = program.profile();
    program.range("all", MAIN, [1, 5000]);
    let with = program.profile();
    assert_eq!((with.began, with.span), (without.began, without.span));
    assert_eq!(with.devices[0].elapsed, without.devices[0].elapsed);
    assert!(with.contradictions.is_empty());
}
