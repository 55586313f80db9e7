//! Devices that have the memory of the host: stages use the memory of source and sink, and nothing
//! is copied.

use crate::{Memory, noise, simulated, threads};
use trijet::pipeline::Schedule;
use trijet::sim::{HostConfig, Order};
use trijet::testing::WORK;
use trijet::trace::Engine;
use trijet::{Bytes, Device, Pipeline, Report};

fn operations(report: &Report, engine: Engine) -> usize {
    report.ops.iter().filter(|op| op.engine == engine).count()
}

/// A checked device copies as a GPU does, so devices that work in place have no checker.
fn unchecked() -> Device {
    Device::host(HostConfig::default()).expect("a host device").remove(0)
}

/// A run with `stages` stages. Each copies its input by a kernel.
fn run(device: &Device, stages: usize, schedule: Schedule) -> Report {
    let bytes = noise(3, 9000);
    let mut results: Vec<u8> = Vec::new();
    let mut pipeline =
        Pipeline::on(device).source(Memory::new(bytes.clone(), 60)).chunk(Bytes(600));
    for _ in 0..stages {
        pipeline = pipeline.stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)));
    }
    let report =
        pipeline.schedule(schedule).sink(&mut results).run().expect("a run without faults");
    assert_eq!(results, bytes, "{stages} stages, {schedule:?}");
    report
}

#[test]
fn nothing_is_copied_where_the_memory_is_that_of_the_host() {
    let device = unchecked();
    for stages in [1, 2, 3] {
        let report = run(&device, stages, Schedule::Tuned);
        assert!(report.in_place);
        assert_eq!(operations(&report, Engine::Upload), 0);
        assert_eq!(operations(&report, Engine::Download), 0);
        assert_eq!(operations(&report, Engine::Compute), 15 * stages);
        assert!(report.to_string().contains(", in place; chunks: 15"), "{report}");
    }
}

/// The host reads its clock before the run starts on the clock of the device, which is the same
/// clock here.
#[test]
fn the_time_of_the_host_has_that_of_the_device_in_it() {
    let device = unchecked();
    for _ in 0..20 {
        let report = run(&device, 1, Schedule::Tuned);
        assert!(report.wall >= Some(report.elapsed), "{report}");
    }
}

/// A checker sees the same order as on a GPU: with copies, and with waits between streams.
#[test]
fn a_checked_device_copies_and_waits_as_a_gpu_does() {
    let device = threads();
    for stages in [1, 2] {
        let report = run(&device, stages, Schedule::Tuned);
        assert!(!report.in_place);
        assert_eq!(operations(&report, Engine::Upload), 15);
        assert_eq!(operations(&report, Engine::Download), 15);
        assert!(report.ordering.waits > 0, "{report}");
    }
}

#[test]
fn other_schedules_devices_and_runs_without_stages_copy() {
    for (device, stages, schedule) in [
        (unchecked(), 1, Schedule::RoleStreams),
        (unchecked(), 0, Schedule::Tuned),
        (simulated(Order::Greedy).clone(), 1, Schedule::Tuned),
    ] {
        let report = run(&device, stages, schedule);
        assert!(!report.in_place, "{schedule:?}, {stages}");
        assert_eq!(operations(&report, Engine::Upload), 15);
        assert_eq!(operations(&report, Engine::Download), 15);
    }
}

/// The page-locked memory of the caller is read and written where it is.
#[test]
fn page_locked_input_and_output_are_used_in_place() {
    let device = unchecked();
    let mut x = device.pinned::<u32>(3000).expect("memory of the host");
    x.write().expect("nothing uses it").iter_mut().zip(0..).for_each(|(x, n)| *x = n);
    let mut y = device.pinned::<u32>(3000).expect("memory of the host");
    let report = Pipeline::on(&device)
        .pinned_source(&x, 30)
        .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
        .pinned_sink(&mut y)
        .chunk(Bytes(1200))
        .run()
        .expect("a run without faults");
    assert!(report.in_place && report.ops.iter().all(|op| op.engine != Engine::Upload));
    assert_eq!(*y.read().expect("the run has ended"), *x.read().expect("the run has ended"));
}
