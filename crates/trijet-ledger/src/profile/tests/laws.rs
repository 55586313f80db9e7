//! Tests over trace files with records that no correct device could have made, and with unusual but
//! possible records. Times are in microseconds after the start of the trace.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::profile::*;
use crate::trace::activity::{
    Activity, ActivityKind, Allocation, AllocationKind, Api, CopyDirection, End, MemoryKind,
    NameId, ProcessTrace, SyncKind,
};
use crate::trace::process_file as file;

/// The clock at the start of the trace: nanoseconds since 1970.
const EPOCH: u64 = 1_790_000_000_000_000_000;
const WITHIN: ActivityKind = ActivityKind::Copy {
    direction: CopyDirection::Within,
    from: MemoryKind::Device,
    to: MemoryKind::Device,
};
const STAGED: ActivityKind = ActivityKind::Copy {
    direction: CopyDirection::Upload,
    from: MemoryKind::Pageable,
    to: MemoryKind::Device,
};
const KERNEL: ActivityKind = ActivityKind::Kernel;
const NAMES: [&str; 4] = ["gemm", "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch"];
const LAUNCH: u32 = 1;
const WITH_ATTRIBUTES: u32 = 2;
const GRAPH: u32 = 3;
const MIB: u64 = 1 << 20;

/// A trace file under construction.
#[derive(Default)]
struct Traced {
    activities: Vec<Activity>,
    allocations: Vec<Allocation>,
    correlation: u32,
    at: Option<u64>,
}

impl Traced {
    /// A call that takes 2 us.
    fn call(&mut self, name: u32, begin: u64) -> &mut Self {
        self.correlation += 1;
        self.add(ActivityKind::Call(Api::Runtime), 0, [begin, begin + 2]).name = Some(NameId(name));
        self
    }

    /// An activity with the correlation number of the last call. The times are its start and its
    /// end.
    fn add(&mut self, kind: ActivityKind, stream: u32, [begin, end]: [u64; 2]) -> &mut Activity {
        self.activities.push(Activity {
            kind,
            begin: Nanos(EPOCH + begin * 1000),
            end: Nanos(EPOCH + end * 1000),
            bytes: if matches!(kind, ActivityKind::Copy { .. }) { 2 * MIB } else { 0 },
            name: (kind == KERNEL).then_some(NameId(0)),
            device: 0,
            context: 1,
            stream,
            thread: 1,
            correlation: self.correlation,
            node: None,
        });
        self.activities.last_mut().unwrap()
    }

    /// An operation, and its call 10 us earlier.
    fn launched(
        &mut self,
        name: u32,
        kind: ActivityKind,
        stream: u32,
        time: [u64; 2],
    ) -> &mut Self {
        self.call(name, time[0] - 10).add(kind, stream, time);
        self
    }

    /// The trace, written to a file and read again.
    fn read(&self) -> ProcessTrace {
        let mut out = Vec::new();
        file::header(&mut out, 7, 130_001, Nanos(EPOCH));
        for (name, id) in NAMES.iter().zip(0..) {
            file::name(&mut out, NameId(id), name.as_bytes());
        }
        self.activities.iter().for_each(|one| file::activity(&mut out, one));
        self.allocations.iter().for_each(|one| file::allocation(&mut out, one));
        let at = Nanos(EPOCH + self.at.unwrap_or(10_000_000) * 1000);
        let activities = self.activities.len() as u64;
        file::end(&mut out, &End { activities, at, ..End::default() });
        file::read(out.as_slice()).unwrap().pop().unwrap()
    }

    /// The laws that records violate, each with the number of records.
    fn broken(&self) -> Vec<(&'static str, usize)> {
        let process = analyse(&mut self.read(), FiguresOf::Whole);
        assert_eq!(process.activities, self.activities.len() as u64);
        process.contradictions.iter().map(|found| (found.key, found.count)).collect()
    }
}

/// A trace with 300 replays of a graph, which has a copy and a kernel. An ordinary copy comes
/// before each replay. By its record, the first of these copies runs until `end`.
fn replays(end: u64) -> Traced {
    let mut traced = Traced::default();
    for at in (0..300).map(|replay| 100 + replay * 1300) {
        let end = if at == 100 { end } else { at + 2 };
        traced.launched(LAUNCH, WITHIN, 7, [at, end]).call(GRAPH, at + 3);
        traced.add(WITHIN, 7, [at + 20, at + 22]);
        traced.add(KERNEL, 7, [at + 23, at + 1200]);
    }
    traced
}

#[test]
fn a_copy_that_claims_the_time_of_later_operations_is_counted_and_named_and_in_no_figure() {
    for (end, until, key, law) in [
        (389_000, "389.00 ms", "slow", "hundreds of times slower"),
        (80_000, "80.00 ms", "order", "overlap operations"),
    ] {
        let mut traces = [replays(end).read()];
        let profile =
            Profile::of(traces.iter_mut().map(|one| analyse(one, FiguresOf::Whole)).collect());
        let device = &profile.processes[0].devices[0];
        let within = device.engines.iter().find(|engine| engine.name == "copies within").unwrap();
        assert_eq!((within.operations, within.busy), (599, Nanos(599 * 2000)));
        assert_eq!(device.limiting().unwrap().name, "kernels");
        let example = format!(
            "copy of 2 MiB from Device to Device from 100.00 us to {until} on stream 7 of device 0, \
             enqueued by call 1"
        );
        let [found] = profile.processes[0].contradictions.as_slice() else { panic!("one law") };
        assert_eq!((found.key, found.count), (key, 1));
        assert_eq!(found.examples, std::slice::from_ref(&example));
        let shown = text(&profile).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(law) && shown.contains(&example), "{shown}");
        let page = String::from_utf8(page(&traces, &profile, &PageOptions::default())).unwrap();
        assert!(page.contains(law) && page.contains("because they are wrong: 1 x records"));
    }
}

#[test]
fn every_kind_of_record_has_a_start_and_no_end_before_it() {
    let kinds = [
        KERNEL,
        WITHIN,
        ActivityKind::Fill,
        ActivityKind::Sync(SyncKind::Stream),
        ActivityKind::Call(Api::Driver),
        ActivityKind::Overhead(crate::trace::activity::OverheadKind::Flush),
    ];
    for kind in kinds {
        let mut traced = Traced::default();
        traced.call(LAUNCH, 0).add(kind, 7, [20, 19]);
        assert_eq!(traced.broken(), [("end", 1)], "{kind:?}");
        traced.activities[1].begin = Nanos(0);
        assert_eq!(traced.broken(), [("start", 1)], "{kind:?}");
        traced.activities[1].end = Nanos(0);
        assert_eq!(traced.broken(), [("start", 1)], "{kind:?}");
    }
}

#[test]
fn an_operation_that_has_not_ended_breaks_no_law() {
    for kind in [KERNEL, WITHIN, ActivityKind::Fill] {
        let mut traced = Traced::default();
        traced.call(LAUNCH, 0).add(kind, 7, [20, 30]).end = Nanos(0);
        assert_eq!(traced.broken(), [], "{kind:?}");
        assert_eq!(analyse(&mut traced.read(), FiguresOf::Whole).untimed, 1, "{kind:?}");
    }
}

#[test]
fn no_record_is_before_the_trace_or_after_the_process() {
    let mut traced = Traced { at: Some(5000), ..Traced::default() };
    traced.launched(LAUNCH, KERNEL, 7, [4000, 6001]);
    traced.call(LAUNCH, 6002);
    assert_eq!(traced.broken(), [("life", 2)]);
    let mut traced = Traced::default();
    let early = traced.add(KERNEL, 7, [0, 10]);
    early.begin = Nanos(EPOCH - 1_000_001);
    assert_eq!(traced.broken(), [("life", 1)]);
    traced.activities[0].kind = ActivityKind::Call(Api::Driver);
    assert_eq!(traced.broken(), [], "the call that loaded the recorder");
}

#[test]
fn no_operation_starts_before_its_call() {
    let sync = ActivityKind::Sync(SyncKind::Event);
    for kind in [KERNEL, WITHIN, ActivityKind::Fill, sync] {
        let mut traced = Traced::default();
        traced.call(GRAPH, 5000).add(kind, 7, [3999, 5010]);
        assert_eq!(traced.broken(), [("call", 1)], "{kind:?}");
        traced.activities[1].begin = Nanos(EPOCH + 4_001_000);
        assert_eq!(traced.broken(), [], "{kind:?}: clocks differ");
    }
}

#[test]
fn an_allocation_obeys_the_laws_of_time() {
    let mut traced = Traced { at: Some(9000), ..Traced::default() };
    traced.call(LAUNCH, 5000);
    for at in
        [Nanos(0), Nanos(EPOCH + 3_999_000), Nanos(EPOCH + 11_000_000), Nanos(EPOCH + 5_001_000)]
    {
        traced.allocations.push(Allocation {
            what: AllocationKind::Allocate,
            memory: MemoryKind::Device,
            in_order: true,
            device: 0,
            context: 1,
            stream: 7,
            correlation: 1,
            address: 4096,
            bytes: MIB,
            at,
        });
    }
    assert_eq!(traced.broken(), [("start", 1), ("life", 1), ("call", 1)]);
    let mut read = traced.read();
    let example = analyse(&mut read, FiguresOf::Whole).contradictions[2].examples[0].clone();
    assert_eq!(example, "allocation of 1 MiB at 4.00 ms, made by call 1");
    assert_eq!(read.allocations, [traced.allocations[3]]);
}

#[test]
fn no_device_moves_bytes_hundreds_of_times_slower_or_faster_than_its_memory() {
    let lasting = |kind, bytes, end: u64| {
        let mut traced = Traced::default();
        traced.call(LAUNCH, 0).add(kind, 7, [10, 10 + end]).bytes = bytes;
        traced.broken()
    };
    for kind in [WITHIN, ActivityKind::Fill] {
        assert_eq!(lasting(kind, 2 * MIB, 399_000), [("slow", 1)], "{kind:?}");
        assert_eq!(lasting(kind, 2 * MIB, 90_000), [], "{kind:?}: another process ran");
        assert_eq!(lasting(kind, 1 << 34, 400_000), [], "{kind:?}");
        assert_eq!(lasting(kind, 1 << 40, 2), [("fast", 1)], "{kind:?}");
        assert_eq!(lasting(kind, 2 * MIB, 1), [], "{kind:?}");
        assert_eq!(lasting(kind, 64, 0), [], "{kind:?}: below the resolution of the clock");
    }
    assert_eq!(lasting(STAGED, 2 * MIB, 9_000_000), [], "the host read a disk");
    assert_eq!(lasting(STAGED, 1 << 40, 2), [("fast", 1)]);
}

#[test]
fn operations_of_one_stream_follow_each_other() {
    for (name, first, second) in [
        (LAUNCH, KERNEL, KERNEL),
        (LAUNCH, KERNEL, WITHIN),
        (WITH_ATTRIBUTES, WITHIN, KERNEL),
        (WITH_ATTRIBUTES, KERNEL, ActivityKind::Fill),
        (GRAPH, KERNEL, KERNEL),
    ] {
        let mut traced = Traced::default();
        traced.launched(name, first, 7, [10, 100]).launched(name, second, 7, [89, 120]);
        let case = format!("{} {first:?} {second:?}", NAMES[name as usize]);
        assert_eq!(traced.broken(), [("order", 1)], "{case}");
        traced.activities[3].begin = Nanos(EPOCH + 91_000);
        assert_eq!(traced.broken(), [], "{case}: the clock of the device");
        traced.activities[3].begin = Nanos(EPOCH + 40_000);
        traced.activities[3].stream = 8;
        assert_eq!(traced.broken(), [], "{case}: another stream");
        traced.activities[3].stream = 7;
        traced.activities[3].context = 2;
        assert_eq!(traced.broken(), [], "{case}: another context");
    }
}

/// As few records as possible are left out if records exclude each other.
#[test]
fn one_wrong_record_costs_no_other_one() {
    for wrong in [[10, 9000], [10, 3050], [3010, 9000]] {
        let mut traced = Traced::default();
        for at in (20..6000).step_by(60) {
            traced.launched(LAUNCH, KERNEL, 7, [at, at + 40]);
        }
        traced.launched(LAUNCH, WITHIN, 7, wrong);
        assert_eq!(traced.broken(), [("order", 1)], "{wrong:?}");
        let mut read = traced.read();
        assert_eq!(analyse(&mut read, FiguresOf::Whole).contradictions.len(), 1);
        assert!(read.activities.iter().all(|one| one.kind != WITHIN), "{wrong:?}");
    }
}

#[test]
fn dependent_kernels_may_overlap() {
    let mut traced = Traced::default();
    traced.launched(LAUNCH, KERNEL, 7, [10, 100]);
    traced.launched(WITH_ATTRIBUTES, KERNEL, 7, [40, 130]);
    traced.launched(WITH_ATTRIBUTES, KERNEL, 7, [70, 160]);
    assert_eq!(traced.broken(), []);
    traced.launched(LAUNCH, KERNEL, 7, [120, 170]);
    assert_eq!(traced.broken(), [("order", 1)], "the last kernel depends on nothing");
    let mut traced = Traced::default();
    traced.launched(WITH_ATTRIBUTES, KERNEL, 7, [10, 9000]);
    for at in (20..).step_by(60).take(128) {
        traced.launched(WITH_ATTRIBUTES, KERNEL, 7, [at, at + 40]);
    }
    assert_eq!(traced.broken(), [("order", 1)], "more grids than a device runs");
}

#[test]
fn the_branches_of_a_graph_may_overlap() {
    let mut traced = Traced::default();
    for at in [100, 1000] {
        traced.call(GRAPH, at - 10);
        for n in 0..200 {
            traced.add(KERNEL, 7, [at + n, at + 500 + n % 7]);
        }
        traced.add(WITHIN, 7, [at + 3, at + 90]);
    }
    assert_eq!(traced.broken(), []);
    traced.launched(LAUNCH, KERNEL, 7, [1400, 1420]);
    assert_eq!(traced.broken(), [("order", 1)], "of 201 records the one that excludes the others");
}

/// Two graphs that are launched in different streams may be reported on one internal stream.
#[test]
fn launches_on_several_streams_may_share_one_of_them() {
    let mut traced = Traced::default();
    for stream in [7, 8] {
        traced.call(GRAPH, 90).add(KERNEL, stream, [100, 900]);
        traced.add(KERNEL, 20, [100, 900]);
    }
    assert_eq!(traced.broken(), []);
}
