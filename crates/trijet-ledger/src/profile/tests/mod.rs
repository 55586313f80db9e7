//! Tests over hand-made traces. Each trace has one habit of known cost. Times are in microseconds.
#![forbid(unsafe_code)]

mod environment;
mod graphs;
mod laws;
mod model;
mod ranges;
mod ranks;
mod steps;

use super::*;
use crate::base::lint::Rule;
use crate::base::units::Nanos;
use crate::trace::StreamClass;
use crate::trace::activity::{
    Activity, ActivityKind, Api, ContextInfo, CopyDirection, End, EventUse, EventUseKind,
    MemoryKind, NameId, OverheadKind, ProcessTrace, StreamInfo, SyncKind,
};

/// A trace under construction. Its times start 1 ms after zero, because zero means an unknown time.
#[derive(Default)]
struct Scenario {
    trace: ProcessTrace,
    correlation: u32,
}

const LEGACY: u32 = 7;
const UPLOADS: u32 = 15;

impl Scenario {
    fn new() -> Self {
        let mut scenario = Self::default();
        scenario.trace.interface = 130_001;
        scenario.trace.contexts.push(ContextInfo { context: 1, device: 0, null_stream: LEGACY });
        scenario
    }

    /// A stream uses the only event of the program, in the last call.
    fn use_event(&mut self, what: EventUseKind, stream: u32) {
        let (correlation, at) = (self.correlation, Nanos(0));
        let one = EventUse { what, context: 1, stream, correlation, event: 1, sync: None, at };
        self.trace.events.push(one);
    }

    fn named(&mut self, name: &str) -> Option<NameId> {
        let names = &mut self.trace.names;
        let known = names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        Some(NameId(u32::try_from(index).unwrap()))
    }

    fn push(&mut self, kind: ActivityKind, [begin, end]: [u64; 2], stream: u32) -> &mut Activity {
        self.trace.activities.push(Activity {
            kind,
            begin: Nanos(1_000_000 + begin * 1000),
            end: Nanos(1_000_000 + end * 1000),
            bytes: 0,
            name: None,
            device: 0,
            context: 1,
            stream,
            thread: 1,
            correlation: self.correlation,
            node: None,
        });
        self.trace.activities.last_mut().unwrap()
    }

    fn call(&mut self, name: &str, time: [u64; 2]) -> &mut Self {
        self.correlation += 1;
        let name = self.named(name);
        let api = if name.is_some() { Api::Runtime } else { Api::Driver };
        self.push(ActivityKind::Call(api), time, 0).name = name;
        self
    }

    /// Adds a kernel that the previous call launched.
    fn kernel(&mut self, stream: u32, time: [u64; 2]) -> &mut Self {
        let name = self.named("kernel");
        self.push(ActivityKind::Kernel, time, stream).name = name;
        self
    }

    /// Adds an upload that the previous call enqueued on the stream `UPLOADS`.
    fn upload(&mut self, from: MemoryKind, bytes: u64, time: [u64; 2]) -> &mut Self {
        let kind =
            ActivityKind::Copy { direction: CopyDirection::Upload, from, to: MemoryKind::Device };
        self.push(kind, time, UPLOADS).bytes = bytes;
        self
    }

    fn stream(&mut self, stream: u32, class: StreamClass) -> &mut Self {
        let class = Some(class);
        self.trace.streams.push(StreamInfo { context: 1, stream, class });
        self
    }

    fn process(&self) -> ProcessProfile {
        analyse(&mut self.trace.clone(), FiguresOf::Whole)
    }

    fn device(&self) -> DeviceProfile {
        let mut process = self.process();
        assert_eq!(process.devices.len(), 1);
        process.devices.pop().unwrap()
    }

    /// The count and the cost in microseconds of the finding with this key.
    fn finding(&self, key: &str) -> Option<(usize, u64)> {
        let device = self.device();
        let found = device.findings.iter().find(|finding| finding.rule.name() == key);
        found.map(|finding| (finding.count, finding.cost.0 / 1000))
    }
}

#[test]
fn a_pageable_copy_costs_the_part_of_it_and_its_call_in_which_no_kernel_runs() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel_v7000", [0, 5]).kernel(13, [10, 100]);
    scenario.call("cudaMemcpyAsync_v3020", [80, 300]).upload(
        MemoryKind::Pageable,
        1 << 20,
        [90, 250],
    );
    scenario.call("cudaLaunchKernel_v7000", [301, 305]).kernel(13, [310, 400]);
    assert_eq!(scenario.finding("PERF/PAGEABLE"), Some((1, 200)));
    assert_eq!(scenario.finding("PERF/EXPOSED-COPY"), Some((1, 150)));
    let mut pinned = Scenario::new();
    pinned.call("cudaMemcpyAsync_v3020", [0, 5]).upload(MemoryKind::Pinned, 1 << 20, [10, 100]);
    assert_eq!(pinned.finding("PERF/PAGEABLE"), None);
}

#[test]
fn a_copy_behind_a_kernel_is_not_exposed() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 100]);
    scenario.call("cudaMemcpyAsync", [1, 2]).upload(MemoryKind::Pinned, 1 << 20, [20, 90]);
    assert_eq!(scenario.finding("PERF/EXPOSED-COPY"), None);
    scenario.call("cudaMemcpyAsync", [2, 3]).upload(MemoryKind::Pinned, 1 << 20, [95, 130]);
    assert_eq!(scenario.finding("PERF/EXPOSED-COPY"), Some((1, 30)));
}

/// The kernel of the blocking stream is enqueued at 3 us and starts when the legacy kernel ends.
#[test]
fn a_legacy_kernel_costs_the_time_for_which_a_blocking_stream_waited() {
    let launches = |class| {
        let mut scenario = Scenario::new();
        scenario.stream(20, class);
        scenario.call("cudaLaunchKernel", [0, 2]).kernel(LEGACY, [10, 110]);
        scenario.call("cudaLaunchKernel", [3, 5]).kernel(20, [112, 150]);
        scenario.finding("PERF/LEGACY-BARRIER")
    };
    assert_eq!(launches(StreamClass::Blocking), Some((1, 100)));
    assert_eq!(launches(StreamClass::NonBlocking), None, "no barrier, no cost, no finding");
}

/// In this trace, the legacy kernel waits for the blocking stream.
#[test]
fn a_legacy_kernel_costs_the_time_for_which_it_waited_for_a_blocking_stream() {
    let mut scenario = Scenario::new();
    scenario.stream(20, StreamClass::Blocking);
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(20, [10, 60]);
    scenario.call("cudaLaunchKernel", [30, 32]).kernel(LEGACY, [61, 90]);
    assert_eq!(scenario.finding("PERF/LEGACY-BARRIER"), Some((1, 30)));
}

#[test]
fn a_program_on_the_legacy_stream_alone_has_no_barrier() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(LEGACY, [10, 60]);
    scenario.call("cudaLaunchKernel", [3, 4]).kernel(LEGACY, [61, 90]);
    assert_eq!(scenario.finding("PERF/LEGACY-BARRIER"), None);
}

/// The last kernel ends at 100 us, the wait returns at 110 us, and the next kernel starts at 150
/// us.
#[test]
fn a_wait_costs_the_idle_time_from_the_last_operation_to_the_next() {
    let of_device = "1 waits for the whole device, 0 for a stream";
    let of_stream = "0 waits for the whole device, 1 for a stream";
    for (name, seen) in [
        ("cudaDeviceSynchronize_v3020", of_device),
        ("cuCtxSynchronize", of_device),
        ("cudaStreamSynchronize_ptsz", of_stream),
        ("cuEventSynchronize", of_stream),
    ] {
        let mut scenario = Scenario::new();
        scenario.call("cudaLaunchKernel", [0, 2]).kernel(13, [10, 100]);
        scenario.call(name, [20, 110]);
        scenario.call("cudaLaunchKernel", [140, 142]).kernel(13, [150, 200]);
        assert_eq!(scenario.finding("PERF/OVER-SYNC"), Some((1, 50)), "{name}");
        let text = text(&Profile::of(vec![scenario.process()]));
        assert!(text.contains(seen), "{name}: {text}");
    }
}

/// After a wait of 10 us, the host works for 900 us. Without the wait, the next kernel would still
/// be late.
#[test]
fn a_wait_costs_no_more_than_its_own_time() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(13, [10, 100]);
    scenario.call("cudaDeviceSynchronize", [95, 105]);
    scenario.call("cudaLaunchKernel", [990, 992]).kernel(13, [1000, 1100]);
    assert_eq!(scenario.finding("PERF/OVER-SYNC"), Some((1, 10)));
}

/// During the wait of 90 us there is an idle time of 10 us. The fix can gain the idle time of 50 us
/// around the end of the wait. The text has both times, so that the cost does not look like the
/// time of the wait.
#[test]
fn a_wait_says_the_idle_time_in_it_and_the_idle_time_that_its_fix_can_bring() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(13, [10, 100]);
    scenario.call("cudaDeviceSynchronize", [20, 110]);
    scenario.call("cudaLaunchKernel", [140, 142]).kernel(13, [150, 200]);
    let device = scenario.device();
    let found = device.findings.iter().find(|found| found.rule == Rule::OverSync).unwrap();
    for part in
        ["waited for 90.00 us", "idle for 10.00 us of that time", "50.00 us in and after the waits"]
    {
        assert!(found.seen.contains(part), "{}", found.seen);
    }
}

#[test]
fn idle_row_and_finding_count_the_same_gaps() {
    let mut scenario = Scenario::new();
    // A gap of 20 us, and a gap of 2 us. A gap of 2 us occurs between any two launches.
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 20]).kernel(13, [40, 50]);
    scenario.kernel(13, [52, 60]);
    let device = scenario.device();
    let found = device.findings.iter().find(|found| found.rule == Rule::GpuIdle).unwrap();
    assert_eq!((device.idle.gaps, found.count, found.cost.0), (1, 1, 22_000));
    assert!(found.seen.contains("1 gap shorter than 5 us is not counted"), "{}", found.seen);
    let text = device.to_string();
    assert!(text.contains(" 1 gap\n"), "{text}");
}

/// The queue has work during the wait, so the gap during the wait has another cause.
#[test]
fn a_gap_inside_of_a_wait_is_no_cost_of_the_wait() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(13, [10, 50]);
    scenario.call("cudaLaunchKernel", [2, 4]).kernel(13, [60, 100]);
    scenario.call("cudaDeviceSynchronize", [5, 90]);
    assert_eq!(scenario.finding("PERF/OVER-SYNC"), None);
}

#[test]
fn an_allocation_costs_the_idle_time_during_its_call() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 2]).kernel(13, [10, 50]);
    scenario.call("cudaMalloc_v3020", [40, 80]);
    scenario.call("cudaMallocAsync_v11020", [80, 90]);
    scenario.call("cudaLaunchKernel", [95, 97]).kernel(13, [100, 120]);
    assert_eq!(scenario.finding("PERF/SYNC-ALLOC"), Some((1, 30)));
}

#[test]
fn a_hundred_small_copies_are_a_finding_and_fewer_are_none() {
    let scenario = |count: u64| {
        let mut scenario = Scenario::new();
        for at in (0..count).map(|n| n * 10) {
            scenario.call("cudaMemcpyAsync", [at, at + 2]).upload(
                MemoryKind::Pinned,
                4096,
                [at + 4, at + 5],
            );
        }
        scenario.finding("PERF/SMALL-COPY")
    };
    assert_eq!(scenario(99), None);
    // The first call comes before the first operation, so it is outside of the window.
    assert_eq!(scenario(100), Some((100, 100 + 2 * 99)));
}

#[test]
fn a_synchronous_copy_is_a_finding_and_an_asynchronous_one_is_none() {
    let scenario = |name| {
        let mut scenario = Scenario::new();
        scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [2, 10]);
        scenario.call(name, [20, 100]).upload(MemoryKind::Pinned, 1 << 20, [30, 95]);
        scenario.call("cudaLaunchKernel", [101, 102]).kernel(13, [110, 120]);
        scenario.finding("PERF/SYNC-COPY")
    };
    assert_eq!(scenario("cudaMemcpy_v3020"), Some((1, 80)));
    assert_eq!(scenario("cuMemcpyHtoD_v2"), Some((1, 80)));
    assert_eq!(scenario("cuMemcpyHtoDAsync_v2"), None);
}

/// A call that waits for a copy of pageable memory would also wait for a copy of page-locked
/// memory.
#[test]
fn a_synchronous_copy_of_pageable_memory_is_one_habit_as_in_a_ledger() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [2, 10]);
    scenario.call("cudaMemcpy", [20, 100]).upload(MemoryKind::Pageable, 1 << 20, [30, 95]);
    assert_eq!(scenario.finding("PERF/PAGEABLE"), None);
    assert_eq!(scenario.finding("PERF/SYNC-COPY"), Some((1, 75)));
    let device = scenario.device();
    let found = device.findings.iter().find(|found| found.rule == Rule::SyncCopy).unwrap();
    assert!(found.seen.starts_with("1 of these copies use pageable memory"), "{}", found.seen);
}

#[test]
fn the_limits_are_those_of_the_rules() {
    let copies = |bytes: u64| {
        let mut scenario = Scenario::new();
        for at in (0..100).map(|n| n * 10) {
            let memory = MemoryKind::Pinned;
            scenario.call("cudaMemcpyAsync", [at, at + 2]).upload(memory, bytes, [at + 4, at + 5]);
        }
        scenario.finding("PERF/SMALL-COPY").map(|(count, _)| count)
    };
    let bytes_max = Rule::SmallCopy.limits().bytes_max;
    assert_eq!((copies(bytes_max), copies(bytes_max + 1)), (Some(100), None));
    let mut long = in_turns(9);
    assert!(long.finding("PERF/QUEUE-SHARED").is_some());
    long.call("cudaLaunchKernel", [30_000, 30_001]).kernel(13, [30_001, 60_000]);
    assert_eq!(long.finding("PERF/QUEUE-SHARED"), None, "a sixtieth of the time");
}

#[test]
fn loading_at_the_first_launch_costs_the_time_in_which_nothing_runs() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [2, 10]);
    scenario.push(ActivityKind::Overhead(OverheadKind::LazyLoading), [8, 30], 0);
    scenario.push(ActivityKind::Overhead(OverheadKind::Flush), [30, 34], 0);
    scenario.call("cudaLaunchKernel", [31, 32]).kernel(13, [40, 50]);
    assert_eq!(scenario.finding("PERF/FIRST-USE-LOAD"), Some((1, 20)));
    assert_eq!(scenario.process().overhead, Nanos(4000), "the overhead of tracing only");
}

#[test]
fn the_parts_of_the_idle_time_sum_to_it() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [0, 10]);
    scenario.call("cudaDeviceSynchronize", [5, 15]);
    scenario.call("cudaMalloc", [20, 27]);
    scenario.call("cudaMemcpy", [27, 30]);
    scenario.call("cudaEventCreate", [30, 31]);
    scenario.call("cudaLaunchKernel", [38, 39]).kernel(13, [40, 50]);
    let device = scenario.device();
    let idle = &device.idle;
    let us = |time: Nanos| time.0 / 1000;
    assert_eq!((us(idle.waiting), us(idle.allocating), us(idle.copying)), (5, 7, 3));
    assert_eq!((us(idle.calling), us(idle.elsewhere), us(idle.total)), (2, 13, 30));
    assert_eq!((idle.gaps, us(idle.longest), us(device.busy)), (1, 30, 20));
    assert_eq!(scenario.finding("PERF/GPU-IDLE"), Some((1, 30)));
}

/// The runtime calls the driver. The operation may have the correlation number of the call of the
/// runtime or of the call of the driver.
#[test]
fn a_call_inside_of_another_counts_as_the_outer_one() {
    let mut scenario = Scenario::new();
    scenario.call("cudaMemcpy_v3020", [0, 100]);
    scenario.call("cuMemcpyHtoD_v2", [10, 90]).upload(MemoryKind::Pageable, 1 << 20, [20, 80]);
    scenario.call("cudaLaunchKernel", [101, 102]).kernel(13, [200, 300]);
    assert_eq!(scenario.process().calls, 2);
    assert_eq!(
        scenario.finding("PERF/SYNC-COPY"),
        Some((1, 80)),
        "from the begin of the window, at 20"
    );
}

#[test]
fn engines_are_unions() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 60]).kernel(14, [40, 100]);
    scenario.upload(MemoryKind::Pinned, 1 << 20, [90, 150]);
    let device = scenario.device();
    let busy: Vec<_> = device.engines.iter().map(|e| (e.name, e.busy.0 / 1000)).collect();
    assert_eq!(busy, [("kernels", 90), ("upload", 60)]);
    assert_eq!((device.elapsed.0 / 1000, device.idle.total.0), (140, 0));
    assert_eq!(device.kernels[0].launches, 2);
    assert_eq!(device.kernels[0].total.0 / 1000, 110, "the sum, as profilers print it");
}

/// The kernels run for 900 us of 1000 us, and then for 899 us of 1000 us.
#[test]
fn an_engine_limits_that_is_busy_for_nine_tenths_of_the_time() {
    for (end, limits) in [(900, true), (899, false)] {
        let mut scenario = Scenario::new();
        scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [1, end]).kernel(13, [1000, 1001]);
        let device = scenario.device();
        assert_eq!(device.longest().unwrap().busy.0 / 1000, end);
        assert_eq!(device.limiting().is_some(), limits);
        let shown = text(&Profile::of(vec![scenario.process()]));
        assert_eq!(shown.contains("limited by kernels"), limits, "{shown}");
        assert_eq!(shown.contains("nothing on the device limits"), !limits, "{shown}");
    }
}

/// In a run of 340 us, kernels run for 100 us, and an upload runs alone for 50 us. Nothing runs for
/// 190 us, and the host waits for 20 us of that time.
#[test]
fn the_losses_sum_to_the_time_in_which_the_longest_engine_did_not_work() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 100]);
    scenario.call("cudaMemcpyAsync", [2, 3]).upload(MemoryKind::Pinned, 1 << 20, [90, 150]);
    scenario.call("cudaDeviceSynchronize", [140, 170]);
    scenario.call("cudaLaunchKernel", [339, 340]).kernel(13, [340, 350]);
    let device = scenario.device();
    let lost: Vec<_> =
        device.losses().into_iter().map(|loss| (loss.what, loss.time.0 / 1000)).collect();
    let named = |what: &str, time| (what.to_owned(), time);
    let expected = [
        named("idle while the host was outside of CUDA", 169),
        named("while only other engines worked", 50),
        named("idle while the host was waiting for the GPU", 20),
        named("idle while the host was in another call", 1),
    ];
    assert_eq!(lost, expected);
    let profile = Profile::of(vec![scenario.process()]);
    let (shown, device) = (text(&profile), &profile.processes[0].devices[0]);
    assert!(device.limiting().is_none());
    assert_eq!(device.longest().map(|engine| engine.busy), Some(Nanos(100_000)));
    assert!(shown.contains("Lost: 169.00 us idle while the host was outside of CUDA"), "{shown}");
}

/// In each case, the host makes one call, or no call, in the gap between two kernels.
#[test]
fn the_fix_of_idle_time_follows_its_cause() {
    let fix = |name: &str, memory: Option<MemoryKind>| {
        let mut scenario = Scenario::new();
        scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [2, 100]);
        if !name.is_empty() {
            scenario.call(name, [110, 990]);
        }
        if let Some(memory) = memory {
            scenario.upload(memory, 1 << 20, [980, 989]);
        }
        scenario.call("cudaLaunchKernel", [996, 998]).kernel(13, [1000, 1100]);
        let device = scenario.device();
        device.findings.iter().find(|found| found.rule == Rule::GpuIdle).unwrap().fix
    };
    for (name, memory, words) in [
        ("", None, Rule::HostLate.fix()),
        ("cudaDeviceSynchronize", None, Rule::OverSync.fix()),
        ("cudaMalloc", None, Rule::SyncAlloc.fix()),
        ("cudaMemcpyAsync", Some(MemoryKind::Pageable), Rule::Pageable.fix()),
        ("cudaMemcpy", Some(MemoryKind::Pageable), Rule::SyncCopy.fix()),
        ("cudaMemcpy", Some(MemoryKind::Pinned), Rule::SyncCopy.fix()),
        ("cudaGraphInstantiate", None, "first launch of a kernel loads the kernel"),
    ] {
        assert!(fix(name, memory).contains(words), "{name}: {}", fix(name, memory));
    }
}

#[test]
fn a_graph_is_the_fix_of_many_short_gaps_between_launches() {
    let mut scenario = Scenario::new();
    for at in (0..200).map(|n| n * 20) {
        scenario.call("cudaLaunchKernel", [at, at + 4]).kernel(13, [at + 6, at + 12]);
    }
    let device = scenario.device();
    let found = device.findings.iter().find(|found| found.rule == Rule::GpuIdle).unwrap();
    assert!(found.fix.contains("CUDA graph"), "{}", found.fix);
    assert_eq!(device.idle.short, device.idle.total);
}

#[test]
fn operations_without_times_are_counted_and_nothing_else() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 60]).kernel(13, [70, 80]);
    scenario.trace.activities.last_mut().unwrap().end = Nanos(0);
    let process = scenario.process();
    assert_eq!((process.untimed, process.devices[0].elapsed.0 / 1000), (1, 50));
}

#[test]
fn each_device_has_its_own_idle_time() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 20]).kernel(13, [30, 40]);
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 40]);
    scenario.trace.activities.last_mut().unwrap().device = 1;
    let process = scenario.process();
    let idle: Vec<_> = process.devices.iter().map(|d| d.idle.total.0 / 1000).collect();
    assert_eq!(idle, [10, 0]);
}

#[test]
fn the_text_names_every_finding_with_its_cost() {
    let mut scenario = Scenario::new();
    scenario.call("cudaMemcpyAsync", [0, 90]).upload(MemoryKind::Pageable, 1 << 20, [10, 100]);
    scenario.call("cudaDeviceSynchronize", [91, 110]);
    scenario.call("cudaLaunchKernel", [111, 112]).kernel(13, [120, 130]);
    scenario.trace.end = Some(End { activities: 5, dropped: 3, ..End::default() });
    let profile = Profile::of(vec![scenario.process()]);
    let text = text(&profile);
    let findings = &profile.processes[0].devices[0].findings;
    assert!(findings.len() >= 4, "{findings:?}");
    for finding in findings {
        let line = text.lines().find(|line| line.contains(finding.rule.name()));
        let cost = finding.cost.to_string();
        assert!(line.is_some_and(|line| line.contains(&cost)), "{finding}\n{text}");
    }
    assert!(text.contains("3 dropped") && text.contains("races are not checked"), "{text}");
}

#[test]
fn the_trace_of_a_process_that_died_is_reported_as_incomplete() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 60]);
    assert!(text(&Profile::of(vec![scenario.process()])).contains("INCOMPLETE"));
}

/// Communication runs from 50 us to 150 us, and the kernels end at 100 us. A copy runs at the same
/// time as the communication.
#[test]
fn communication_is_an_engine_of_its_own_and_hides_no_copy() {
    let mut scenario = Scenario::new();
    scenario.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 100]);
    scenario.call("cudaLaunchKernel", [1, 2]).kernel(14, [50, 150]);
    let nccl = scenario.named("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    scenario.trace.activities.last_mut().unwrap().name = nccl;
    scenario.call("cudaMemcpyAsync", [2, 3]).upload(MemoryKind::Pinned, 1 << 20, [90, 120]);
    let device = scenario.device();
    let busy: Vec<_> = device.engines.iter().map(|e| (e.name, e.busy.0 / 1000)).collect();
    assert_eq!(busy, [("kernels", 90), ("communication", 100), ("upload", 30)]);
    assert_eq!(scenario.finding("PERF/EXPOSED-COMM"), Some((1, 50)));
    assert_eq!(scenario.finding("PERF/EXPOSED-COPY"), Some((1, 20)));
    let found = device.findings.iter().find(|f| f.rule == Rule::ExposedComm).unwrap();
    let places: Vec<_> = found.places.iter().map(|place| (place.start, place.end)).collect();
    assert_eq!(places, [(1_100_000, 1_150_000)]);
}

#[test]
fn a_process_without_work_has_no_section_when_another_process_worked() {
    let mut worker = Scenario::new();
    worker.trace.process = 11;
    worker.call("cudaLaunchKernel", [0, 1]).kernel(13, [10, 100]);
    let mut launcher = Scenario::new();
    launcher.trace.process = 10;
    launcher.call("cuInit", [0, 1]);
    let both = text(&Profile::of(vec![launcher.process(), worker.process()]));
    assert!(!both.contains("process 10\n"), "{both}");
    assert!(both.ends_with("process 10 executed no operation on a GPU\n"), "{both}");
    let alone = text(&Profile::of(vec![launcher.process()]));
    assert!(alone.starts_with("process 10\n") && alone.contains("made 1 call of"), "{alone}");
    let mut troubled = launcher.trace.clone();
    troubled.troubles.push("no library".to_owned());
    let troubled =
        text(&Profile::of(vec![analyse(&mut troubled, FiguresOf::Steps), worker.process()]));
    assert!(troubled.contains("not traced: no library"), "{troubled}");
}

/// Every call of the host comes between the two operations of each device. A rule that looked at
/// all calls for each device would take hours.
#[test]
fn many_devices_share_the_calls_of_the_host() {
    let mut scenario = Scenario::new();
    for call in 0..20_000 {
        scenario.call("cudaDeviceSynchronize", [10 + 20 * call, 15 + 20 * call]);
    }
    scenario.correlation = u32::MAX;
    for device in 0..20_000 {
        let at = 20 * u64::from(device);
        scenario.kernel(13, [at, at + 12]).kernel(13, [at + 18, at + 19]);
        scenario.trace.activities.iter_mut().rev().take(2).for_each(|one| one.device = device);
    }
    let process = scenario.process();
    assert_eq!(process.devices.len(), 20_000);
    for device in &process.devices {
        assert_eq!((device.idle.total.0, device.idle.waiting.0), (6000, 3000));
        assert_eq!(device.findings.iter().find(|f| f.rule == Rule::OverSync).unwrap().count, 1);
    }
}

/// Activities of every kind at the ends of the clock, in every order, with and without overlap.
#[test]
fn no_time_makes_the_profile_overflow() {
    let ends = [0, 1, 2, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    let copy = ActivityKind::Copy {
        direction: CopyDirection::Download,
        from: MemoryKind::Device,
        to: MemoryKind::Pageable,
    };
    let kinds = [
        ActivityKind::Kernel,
        copy,
        ActivityKind::Call(Api::Runtime),
        ActivityKind::Fill,
        ActivityKind::Overhead(OverheadKind::LazyLoading),
        ActivityKind::Overhead(OverheadKind::Flush),
    ];
    let names = ["cudaDeviceSynchronize", "cudaMalloc", "cudaMemcpy", "ncclKernel", "k\u{1b}[0m"];
    let mut draw = 1_u64;
    let mut pick = |count: usize| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(draw >> 33).unwrap() % count
    };
    for _ in 0..300 {
        let mut scenario = Scenario::new();
        for _ in 0..40 {
            let (a, b) = (ends[pick(ends.len())], ends[pick(ends.len())]);
            let name = scenario.named(names[pick(names.len())]);
            let one = scenario.push(kinds[pick(kinds.len())], [0, 0], [LEGACY, 13][pick(2)]);
            (one.begin, one.end) = (Nanos(a.min(b)), Nanos(a.max(b)));
            (one.name, one.bytes, one.correlation) = (name, ends[pick(ends.len())], 1);
        }
        let profile = Profile::of(vec![scenario.process()]);
        let shown = text(&profile);
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn a_text_of_a_trace_does_not_reach_the_terminal_as_it_is() {
    let mut scenario = Scenario::new();
    scenario.trace.troubles.push("no\u{1b}]0;title\u{7} \u{202e}library".to_owned());
    let profile = Profile::of(vec![scenario.process()]);
    assert!(text(&profile).contains("no?]0;title? ?library"), "{}", text(&profile));
}

/// Each stream has two kernels. The first kernels run in groups of eight streams. The first kernels
/// of a group start when the first kernels of the previous group end.
fn in_turns(streams: u32) -> Scenario {
    let mut scenario = Scenario::new();
    for stream in 0..streams {
        let (call, turn) = (u64::from(stream) * 2, u64::from(stream / 8) * 1000);
        let (begin, end) = (turn.max(call + 1), turn + 1000);
        scenario.call("cudaLaunchKernel", [call, call + 1]).kernel(20 + stream, [begin, end]);
        scenario.call("cudaLaunchKernel", [call + 1, call + 2]).kernel(20 + stream, [end, end + 5]);
    }
    scenario
}

#[test]
fn kernels_that_wait_while_as_many_run_as_there_are_queues_are_a_finding() {
    // The ninth stream is ready at 17 us and the last stream at 33 us. They start at 1000 us and at
    // 2000 us.
    let (count, cost) = in_turns(17).finding("PERF/QUEUE-SHARED").expect("nine streams waited");
    assert_eq!(count, 9);
    assert!((1900..=2000).contains(&cost), "{cost}");
    let device = in_turns(17).device();
    let found = device.findings.iter().find(|finding| finding.rule == Rule::QueueShared).unwrap();
    assert!(found.seen.contains("streams 28, 29, 30, 31, 32, 33, 34, 35 and 1 more"), "{found:?}");
    assert_eq!(in_turns(8).finding("PERF/QUEUE-SHARED"), None);
}

#[test]
fn nothing_is_said_about_queues_where_events_may_explain_the_waits() {
    let mut scenario = in_turns(17);
    scenario.call("cudaStreamWaitEvent_v3020", [50, 51]);
    assert_eq!(scenario.finding("PERF/QUEUE-SHARED"), None);
}

#[test]
fn a_program_with_all_kernels_in_one_stream_is_told_so() {
    let of = |streams: &[u32], uploads: u64| {
        let mut scenario = Scenario::new();
        for (at, stream) in (0..).zip(streams) {
            scenario.kernel(*stream, [100 * at, 100 * at + 10]);
        }
        for at in 0..uploads {
            scenario.upload(MemoryKind::Pinned, 1 << 20, [100 * at + 50, 100 * at + 80]);
        }
        scenario.device().kernel_stream
    };
    let only = |stream, kernels, copies| Some(KernelStream { stream, kernels, copies });
    assert_eq!(of(&[20, 20], 0), only(20, 2, 0));
    assert_eq!(of(&[UPLOADS; 3], 2), only(UPLOADS, 3, 2));
    assert_eq!(of(&[20, 20], 2), only(20, 2, 0), "the copies are in another stream");
    assert_eq!(of(&[20, 21], 1), None);
    assert_eq!(of(&[20], 1), None, "one kernel");
}

/// The only pair of streams of a program with an upload from 2 to 102 and a kernel at `kernel`,
/// which the host enqueued at `enqueued`.
fn pair(enqueued: u64, kernel: [u64; 2]) -> StreamPair {
    let mut scenario = Scenario::new();
    scenario.call("cudaMemcpyAsync", [0, 1]).upload(MemoryKind::Pinned, 1 << 20, [2, 102]);
    scenario.call("cudaLaunchKernel", [enqueued, enqueued + 1]).kernel(20, kernel);
    let pairs = scenario.device().stream_pairs;
    assert_eq!(pairs.len(), 1);
    pairs[0]
}

#[test]
fn two_streams_are_concurrent_or_the_host_or_the_device_makes_them_work_in_turn() {
    let found = pair(2, [10, 90]);
    assert_eq!((found.verdict, found.together), (PairVerdict::Concurrent, Nanos(80_000)));
    let found = pair(2, [102, 182]);
    assert_eq!((found.verdict, found.together), (PairVerdict::DeviceInTurn, Nanos(0)));
    assert_eq!(found.enqueued, Nanos(100_000));
    let found = pair(70, [72, 272]);
    assert_eq!((found.enqueued, found.together), (Nanos(32_000), Nanos(30_000)));
    assert_eq!(found.verdict, PairVerdict::HostInTurn, "both worked when both had work");
    let found = pair(103, [110, 190]);
    assert_eq!((found.verdict, found.enqueued), (PairVerdict::HostInTurn, Nanos(0)));
}
