//! The gains of fixes, compared with a second run of the same program with the fix. A program is a
//! list of steps of one thread, and a simulation that shares nothing with the model runs it.
#![forbid(unsafe_code)]

mod events;

use super::*;
use crate::profile::Gains;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Nanoseconds from the start of a call to the start of its operation on an idle device.
const LATENCY: u64 = 6_000;
/// Nanoseconds of a call that enqueues.
const ENQUEUE: u64 = 3_000;
/// Nanoseconds between two operations of a stream.
const GAP: u64 = 1_000;
/// Nanoseconds from the end of an operation to the return of a call that waits for it.
const RETURN: u64 = 4_000;

/// A step of a program. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    /// The program computes on the host.
    Compute(u64),
    Kernel {
        stream: u32,
        length: u64,
    },
    /// An asynchronous copy from page-locked memory.
    Upload {
        stream: u32,
        bytes: u64,
    },
    /// An asynchronous copy from pageable memory: the call returns when the copy is complete.
    StagedUpload {
        stream: u32,
        bytes: u64,
    },
    /// A copy that the host waits for.
    Download {
        stream: u32,
        bytes: u64,
    },
    /// The same without the wait.
    AsyncDownload {
        stream: u32,
        bytes: u64,
    },
    WaitForStream(u32),
    WaitForDevice,
    /// An allocation outside of stream order.
    Allocate(u64),
    /// A stream waits for an event that is recorded after the last operation of another one.
    Follow {
        stream: u32,
        other: u32,
    },
    /// The program records its event on a stream.
    Record(u32),
    /// A stream waits for the last record of the event.
    Await(u32),
    /// The first launch of a kernel, whose call loads the kernel for this long.
    FirstKernel {
        stream: u32,
        length: u64,
        load: u64,
    },
}

/// Nanoseconds of a copy of page-locked memory, and of a staged copy.
fn pinned(bytes: u64) -> u64 {
    bytes / 50
}

fn staged(bytes: u64) -> u64 {
    bytes / 10
}

/// A run of a program: its trace, the time of the host, and the times at which the streams and the
/// engines are free.
#[derive(Default)]
struct Run {
    scenario: Scenario,
    now: u64,
    streams: BTreeMap<u32, u64>,
    engines: BTreeMap<bool, u64>,
    /// The end of the last operation before the last record of the event.
    recorded: u64,
}

impl Run {
    fn of(steps: &[Step]) -> Self {
        let mut run = Self { scenario: Scenario::new(), ..Self::default() };
        for step in steps {
            run.step(*step);
        }
        run
    }

    fn record(
        &mut self,
        kind: ActivityKind,
        name: &str,
        [begin, end]: [u64; 2],
        stream: u32,
    ) -> &mut Activity {
        let name = self.scenario.named(name);
        let one = self.scenario.push(kind, [0, 0], stream);
        (one.begin, one.end, one.name) = (Nanos(1_000_000 + begin), Nanos(1_000_000 + end), name);
        one
    }

    fn call(&mut self, name: &str, begin: u64) {
        let end = self.now;
        self.record(ActivityKind::Call(Api::Runtime), name, [begin, end], 0);
    }

    /// Runs an operation of the call that began at `called`. Returns its end.
    fn operation(&mut self, kind: ActivityKind, called: u64, stream: u32, length: u64) -> u64 {
        self.scenario.correlation += 1;
        let mut begin = called + LATENCY;
        if let Some(free) = self.streams.get(&stream) {
            begin = begin.max(free + GAP);
        }
        if let ActivityKind::Copy { direction, .. } = kind {
            let engine = self.engines.entry(direction == CopyDirection::Upload).or_default();
            begin = begin.max(*engine);
            *engine = begin + length;
        }
        self.streams.insert(stream, begin + length);
        self.record(kind, "kernel", [begin, begin + length], stream);
        begin + length
    }

    fn copy(
        &mut self,
        direction: CopyDirection,
        memory: MemoryKind,
        bytes: u64,
        stream: u32,
    ) -> u64 {
        let (from, to) = match direction {
            CopyDirection::Upload => (memory, MemoryKind::Device),
            _ => (MemoryKind::Device, memory),
        };
        let length = if memory == MemoryKind::Pageable { staged(bytes) } else { pinned(bytes) };
        let end =
            self.operation(ActivityKind::Copy { direction, from, to }, self.now, stream, length);
        self.scenario.trace.activities.last_mut().unwrap().bytes = bytes;
        end
    }

    /// A stream uses the only event of the program.
    fn use_event(&mut self, what: EventUseKind, name: &str, stream: u32) {
        let begin = self.now;
        self.scenario.correlation += 1;
        self.now += ENQUEUE;
        self.call(name, begin);
        self.scenario.use_event(what, stream);
    }

    /// The same run, without the records of events and of waits for them.
    fn without_events(mut self) -> Self {
        self.scenario.trace.events.clear();
        self
    }

    /// The host waits until `end`.
    fn wait(&mut self, end: u64) {
        self.now = (self.now + 2_000).max(end + RETURN);
    }

    fn step(&mut self, step: Step) {
        let begin = self.now;
        match step {
            Step::Compute(length) => self.now += length,
            Step::Follow { stream, other } => {
                self.step(Step::Record(other));
                self.step(Step::Await(stream));
            }
            Step::Record(stream) => {
                self.recorded = self.streams.get(&stream).copied().unwrap_or(0);
                self.use_event(EventUseKind::Record, "cudaEventRecord", stream);
            }
            Step::Await(stream) => {
                let free = self.streams.entry(stream).or_default();
                *free = self.recorded.max(*free);
                self.use_event(EventUseKind::Wait, "cudaStreamWaitEvent", stream);
            }
            Step::Kernel { stream, length } => {
                self.operation(ActivityKind::Kernel, begin, stream, length);
                self.now += ENQUEUE;
                self.call("cudaLaunchKernel", begin);
            }
            Step::FirstKernel { stream, length, load } => {
                self.operation(ActivityKind::Kernel, begin + load, stream, length);
                self.now += ENQUEUE + load;
                self.call("cudaLaunchKernel", begin);
                let kind = ActivityKind::Overhead(OverheadKind::LazyLoading);
                self.record(kind, "", [begin, begin + load], 0);
            }
            Step::Upload { stream, bytes } => {
                self.copy(CopyDirection::Upload, MemoryKind::Pinned, bytes, stream);
                self.now += ENQUEUE;
                self.call("cudaMemcpyAsync", begin);
            }
            Step::StagedUpload { stream, bytes } => {
                let end = self.copy(CopyDirection::Upload, MemoryKind::Pageable, bytes, stream);
                self.wait(end);
                self.call("cudaMemcpyAsync", begin);
            }
            Step::Download { stream, bytes } => {
                let end = self.copy(CopyDirection::Download, MemoryKind::Pinned, bytes, stream);
                self.wait(end);
                self.call("cudaMemcpy", begin);
            }
            Step::AsyncDownload { stream, bytes } => {
                self.copy(CopyDirection::Download, MemoryKind::Pinned, bytes, stream);
                self.now += ENQUEUE;
                self.call("cudaMemcpyAsync", begin);
            }
            Step::WaitForStream(stream) => {
                let end = self.streams.get(&stream).copied().unwrap_or(0);
                self.scenario.correlation += 1;
                self.wait(end);
                self.call("cudaStreamSynchronize", begin);
                let now = self.now;
                self.record(ActivityKind::Sync(SyncKind::Stream), "", [begin, now], stream);
            }
            Step::WaitForDevice => {
                let end = self.streams.values().copied().max().unwrap_or(0);
                self.scenario.correlation += 1;
                self.wait(end);
                self.call("cudaDeviceSynchronize", begin);
            }
            Step::Allocate(length) => {
                self.scenario.correlation += 1;
                self.now += length;
                self.call("cudaMalloc", begin);
            }
        }
    }

    /// The time from the first operation to the end of the last one.
    fn length(&self) -> u64 {
        let operations =
            || self.scenario.trace.activities.iter().filter(|one| one.engine().is_some());
        let first = operations().map(|one| one.begin.0).min().unwrap();
        operations().map(|one| one.end.0).max().unwrap() - first
    }

    /// The profile of the only device, with gains.
    fn device(&self) -> DeviceProfile {
        let profile = Profile::of(vec![self.scenario.process()]);
        let mut processes = profile.processes.into_iter();
        processes.next().unwrap().devices.pop().unwrap()
    }
}

fn gains(device: &DeviceProfile) -> &Gains {
    device.gains.as_ref().expect("the records have an order")
}

/// The program with a change of each step; `None` leaves a step out.
fn changed(steps: &[Step], change: impl Fn(Step) -> Option<Step>) -> Vec<Step> {
    steps.iter().filter_map(|step| change(*step)).collect()
}

fn page_locked(step: Step) -> Option<Step> {
    Some(match step {
        Step::StagedUpload { stream, bytes } => Step::Upload { stream, bytes },
        other => other,
    })
}

fn without_waits(step: Step) -> Option<Step> {
    (!matches!(step, Step::WaitForStream(_) | Step::WaitForDevice)).then_some(step)
}

fn without_copy_waits(step: Step) -> Option<Step> {
    Some(match step {
        Step::Download { stream, bytes } => Step::AsyncDownload { stream, bytes },
        other => other,
    })
}

fn without_allocations(step: Step) -> Option<Step> {
    (!matches!(step, Step::Allocate(_))).then_some(step)
}

fn loaded(step: Step) -> Option<Step> {
    Some(match step {
        Step::FirstKernel { stream, length, .. } => Step::Kernel { stream, length },
        other => other,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || 13_u32..16;
    let bytes = || (1_u64 << 19)..(4 << 20);
    prop_oneof![
        2 => (1_000_u64..40_000).prop_map(Step::Compute),
        6 => (stream(), 5_000_u64..200_000).prop_map(|(stream, length)| Step::Kernel { stream, length }),
        2 => (stream(), bytes()).prop_map(|(stream, bytes)| Step::Upload { stream, bytes }),
        1 => (stream(), bytes()).prop_map(|(stream, bytes)| Step::StagedUpload { stream, bytes }),
        1 => (stream(), bytes()).prop_map(|(stream, bytes)| Step::Download { stream, bytes }),
        1 => stream().prop_map(Step::WaitForStream),
        1 => Just(Step::WaitForDevice),
        1 => (10_000_u64..200_000).prop_map(Step::Allocate),
        1 => (stream(), 5_000_u64..90_000, 50_000_u64..400_000)
            .prop_map(|(stream, length, load)| Step::FirstKernel { stream, length, load }),
    ]
}

/// A step, or a stream that waits for another one.
fn step_or_event() -> impl Strategy<Value = Step> {
    let streams = (13_u32..16, 13_u32..16);
    prop_oneof![6 => step(), 1 => streams.prop_map(|(stream, other)| Step::Follow { stream, other })]
}

/// Programs that begin with an upload, from which the rate of the link is learned, and end with the
/// same kernel, so that the end of the run is an operation.
fn program(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Vec<Step>> {
    vec(step, 5..60).prop_map(|mut steps| {
        steps.insert(0, Step::Upload { stream: 13, bytes: 1 << 20 });
        steps.push(Step::Kernel { stream: 13, length: 50_000 });
        steps
    })
}

/// Whether two times differ by at most 3 % of the time of the run, and 30 us: a call that a fix
/// leaves costs 2 us, and the simulation leaves it out.
fn is_near(a: u64, b: u64, run: u64) -> bool {
    a.abs_diff(b) <= run * 3 / 100 + 30_000
}

type Fix = fn(Step) -> Option<Step>;

const FIXES: [(Rule, Fix); 5] = [
    (Rule::SyncCopy, without_copy_waits),
    (Rule::Pageable, page_locked),
    (Rule::OverSync, without_waits),
    (Rule::SyncAlloc, without_allocations),
    (Rule::FirstUseLoad, loaded),
];

/// The fixes of rules, one after another; `None` if the simulation lacks one.
fn fixed(steps: &[Step], rules: &[Rule]) -> Option<Vec<Step>> {
    rules.iter().try_fold(steps.to_vec(), |steps, rule| {
        let (_, fix) = FIXES.iter().find(|(of, _)| of == rule)?;
        Some(changed(&steps, fix))
    })
}

/// The gains of a program that differ from the time that the program with the fixes saves.
fn wrong_gains(steps: &[Step]) -> Vec<String> {
    let run = Run::of(steps);
    let device = run.device();
    let alone = device.findings.iter().filter_map(|one| Some((vec![one.rule], one.gain?)));
    let together = gains(&device).together.iter().map(|one| (one.rules.clone(), one.gain));
    let mut wrong = Vec::new();
    for (rules, gain) in alone.chain(together) {
        let Some(fixed) = fixed(steps, &rules) else { continue };
        let saved = run.length().saturating_sub(Run::of(&fixed).length());
        if !is_near(gain.0, saved, run.length()) {
            wrong.push(format!("{rules:?}: {gain} for {saved} ns"));
        }
    }
    wrong
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_replay_of_the_unchanged_run_takes_the_measured_time(steps in program(step_or_event())) {
        for run in [Run::of(&steps), Run::of(&steps).without_events()] {
            let device = run.device();
            prop_assert_eq!(gains(&device).measured.0, run.length());
            let error = gains(&device).replayed.0.abs_diff(run.length());
            prop_assert!(error <= run.length() / 200 + 5_000, "{:?}", gains(&device));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    /// The fixes alone and together. A run with a fix may have another order on a copy engine,
    /// which the model does not have: about one program in ten thousand.
    #[test]
    fn gains_are_the_times_that_the_programs_with_the_fixes_save(
        programs in vec(program(step_or_event()), 50)
    ) {
        let wrong: Vec<_> = programs.iter().map(|steps| wrong_gains(steps)).collect();
        let count = wrong.iter().filter(|of_program| !of_program.is_empty()).count();
        prop_assert!(count <= 1, "{wrong:?}");
    }
}

/// A wait that no record explains: the replay is shorter, and the profile states by how much.
#[test]
fn a_delay_without_a_reason_is_the_error_of_the_model() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 5]).kernel(13, [10, 100]);
    scenario.call("cudaLaunchKernel", [6, 11]).kernel(13, [600, 1010]);
    let profile = Profile::of(vec![scenario.process()]);
    let device = &profile.processes[0].devices[0];
    let gains = device.gains.as_ref().unwrap();
    // Of the gap of 500 us, 20 us count as a gap between two kernels.
    assert_eq!((gains.measured.0, gains.replayed.0), (1_000_000, 520_000));
    assert!((gains.error() + 0.48).abs() < 1e-9);
}

/// The main thread waits for the thread that launches, as in PyTorch's backward pass: an allocation
/// on that thread delays the later launches of the main thread.
#[test]
fn a_thread_that_makes_no_call_waits_for_the_thread_that_does() {
    let mut scenario = Scenario::new();
    for step in 0..4 {
        let at = step * 1000;
        scenario.call("cudaLaunchKernel", [at, at + 5]).kernel(13, [at + 10, at + 100]);
        scenario.call("cudaMalloc", [at + 20, at + 620]);
        scenario.trace.activities.last_mut().unwrap().thread = 2;
        scenario.call("cudaLaunchKernel", [at + 630, at + 635]).kernel(13, [at + 640, at + 940]);
        let count = scenario.trace.activities.len();
        scenario.trace.activities[count - 2].thread = 2;
    }
    let profile = Profile::of(vec![scenario.process()]);
    let device = &profile.processes[0].devices[0];
    let gains = device.gains.as_ref().unwrap();
    assert_eq!(gains.replayed, gains.measured);
    // Each of the four allocations takes 600 us, and the GPU is idle for 520 us of that time. The
    // replay leaves 2 us of each call.
    let allocations = &device.findings.iter().find(|one| one.rule == Rule::SyncAlloc).unwrap();
    assert_eq!(allocations.cost, Nanos(4 * 520_000));
    let gain = allocations.gain.unwrap().0 / 1000;
    assert!((2_100..2_400).contains(&gain), "{gain} us");
}

/// Two uploads and their kernels in one stream: on a stream of its own, the second upload runs
/// beside the first kernel.
#[test]
fn copies_on_a_stream_of_their_own_run_beside_kernels() {
    let mut scenario = Scenario::new();
    for step in 0..8 {
        let (called, at) = (step * 8, step * 200);
        scenario.call("cudaMemcpyAsync", [called, called + 3]);
        scenario.upload(MemoryKind::Pinned, 1 << 20, [at + 10, at + 110]);
        scenario.trace.activities.last_mut().unwrap().stream = 13;
        scenario.call("cudaLaunchKernel", [called + 4, called + 7]);
        scenario.kernel(13, [at + 110, at + 210]);
    }
    let profile = Profile::of(vec![scenario.process()]);
    let device = &profile.processes[0].devices[0];
    let copies = &device.findings.iter().find(|one| one.rule == Rule::ExposedCopy).unwrap();
    // 8 uploads of 100 us, and the last kernel: 900 us in place of 1600.
    assert_eq!((copies.cost, copies.gain), (Nanos(800_000), Some(Nanos(700_000))));
}

/// A rank that waits for a late rank: without the wait, the kernel takes the time of its transfer.
#[test]
fn without_a_late_rank_a_collective_takes_the_time_of_its_transfer() {
    let rank = |number: u32, late: u64| {
        let mut scenario = Scenario::new();
        scenario.trace.process = number + 1;
        scenario.trace.rank = Some(number);
        for step in 0..6 {
            let at = step * 1000;
            scenario.call("cudaLaunchKernel", [at + late, at + late + 5]);
            scenario.kernel(13, [at + late + 10, at + 600]);
            let name = scenario.named("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
            scenario.trace.activities.last_mut().unwrap().name = name;
            scenario.call("cudaStreamSynchronize", [at + late + 6, at + 605]);
        }
        scenario.process()
    };
    let profile = Profile::of(vec![rank(0, 0), rank(1, 400)]);
    let waiting = &profile.processes[0].devices[0];
    let late = waiting.findings.iter().find(|one| one.rule == Rule::LateRank).unwrap();
    assert_eq!((late.cost, late.gain), (Nanos(2_400_000), Some(Nanos(2_400_000))));
    let awaited = &profile.processes[1].devices[0];
    assert!(awaited.findings.iter().all(|one| one.rule != Rule::LateRank));
}

/// The gain of the fix of a remark, in a simulated program.
fn gain(run: &Run, rule: Rule) -> u64 {
    let device = run.device();
    let found = device.findings.iter().find(|one| one.rule == rule);
    found.and_then(|one| one.gain).expect("the remark has a gain").0
}

/// The program computes for long between its launches. Earlier, it computes for 50 us at most.
#[test]
fn the_gain_of_an_earlier_host_is_its_code_beyond_fifty_microseconds() {
    let program = |length| [Step::Compute(length), Step::Kernel { stream: 13, length: 100_000 }];
    let steps = |length| vec![program(length); 20].concat();
    let (run, fixed) = (Run::of(&steps(900_000)), Run::of(&steps(50_000)));
    let gain = gain(&run, Rule::GpuIdle);
    assert!(is_near(gain, run.length() - fixed.length(), run.length()), "{gain}");
}

/// Launches of short kernels: in a graph, only the kernels and their gaps take time.
#[test]
fn the_gain_of_a_graph_is_the_time_of_the_launches() {
    let program = [Step::Compute(8_000), Step::Kernel { stream: 13, length: 500 }];
    let run = Run::of(&vec![program; 40].concat());
    // No kernel of this program was enqueued early, so its gaps are not known: 2 us are taken.
    let graph = 40 * 500 + 39 * 2_000;
    let gain = gain(&run, Rule::GpuIdle);
    assert!((run.length() - graph).abs_diff(gain) <= 5_000, "{gain} of {}", run.length());
}

/// The kernels of the legacy stream and of a blocking stream run in turn. Without the legacy
/// stream, each of them follows its launch.
#[test]
fn without_the_legacy_stream_kernels_wait_for_no_other_stream() {
    let mut scenario = Scenario::new();
    scenario.stream(13, StreamClass::Blocking);
    for step in 0..8 {
        let (called, at) = (step * 8, step * 200);
        scenario.call("cudaLaunchKernel", [called, called + 3]).kernel(13, [at + 10, at + 110]);
        scenario.call("cudaLaunchKernel", [called + 4, called + 7]);
        scenario.kernel(LEGACY, [at + 110, at + 210]);
    }
    let profile = Profile::of(vec![scenario.process()]);
    let findings = &profile.processes[0].devices[0].findings;
    let legacy = findings.iter().find(|one| one.rule == Rule::LegacyBarrier).unwrap();
    // 16 kernels of 100 us in turn, or 8 on each stream.
    let gain = legacy.gain.unwrap().0 / 1000;
    assert!((760..=800).contains(&gain), "{gain} us");
}

/// The fix of copies that the host waits for leaves the other copies as they are, and the reverse.
#[test]
fn page_locking_is_of_the_copies_that_a_remark_is_about() {
    let pageable = |scenario: &mut Scenario, call: &str, at: u64| {
        scenario.call(call, [at, at + 110]);
        scenario.upload(MemoryKind::Pageable, 1 << 20, [at + 5, at + 105]);
    };
    let mut scenario = Scenario::new();
    scenario.call("cudaMemcpyAsync", [0, 3]).upload(MemoryKind::Pinned, 1 << 20, [5, 25]);
    pageable(&mut scenario, "cudaMemcpyAsync", 100);
    pageable(&mut scenario, "cudaMemcpy", 300);
    let profile = Profile::of(vec![scenario.process()]);
    let findings = &profile.processes[0].devices[0].findings;
    for rule in [Rule::Pageable, Rule::SyncCopy] {
        let found = findings.iter().find(|one| one.rule == rule).unwrap();
        // 80 us of a copy are saved, and for the first of the two, what its call takes longer.
        let gain = found.gain.unwrap().0 / 1000;
        assert!((78..=110).contains(&gain), "{rule:?}: {gain} us");
    }
}

/// The copies of a direction share an engine, whatever their stream is.
#[test]
fn copies_on_a_stream_of_their_own_wait_for_each_other() {
    let step = [
        Step::Upload { stream: 13, bytes: 30_000_000 },
        Step::Kernel { stream: 13, length: 400_000 },
    ];
    let run = Run::of(&vec![step; 20].concat());
    let gain = gain(&run, Rule::ExposedCopy);
    // The copies take 600 us of the 1000 us of each step.
    assert!(is_near(gain, 20 * 400_000, run.length()), "{gain} of {}", run.length());
}
