//! The limit of the host's memory: chunks get smaller until they fit, and a trace that does not fit
//! is left out, with a message. And the memory of the device, which comes only from its heap.

use crate::{Memory, noise, threads};
use trijet::pipeline::{Schedule, rows_of};
use trijet::sim::{Fault, FaultKind, HostConfig, Verb};
use trijet::testing::WORK;
use trijet::{Bytes, Device, ErrorKind, Pipeline, Report, Result};

/// A run over 1000 rows of 100 bytes with a stage and two slots.
fn run(limit: Bytes, chunk: Bytes) -> Result<Report> {
    run_stages(1, limit, chunk)
}

/// Such a run with `stages` stages.
fn run_stages(stages: usize, limit: Bytes, chunk: Bytes) -> Result<Report> {
    let bytes = noise(4, 100_000);
    let mut results: Vec<u8> = Vec::new();
    let device = threads();
    let mut pipeline = Pipeline::on(&device).source(Memory::new(bytes.clone(), 100));
    for _ in 0..stages {
        pipeline = pipeline.stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)));
    }
    let report = pipeline.sink(&mut results).chunk(chunk).depth(2).host_memory(limit).run()?;
    assert_eq!(results, bytes);
    Ok(report)
}

/// The bytes of the buffers that two slots need for chunks of `rows` rows: three buffers for the
/// source and three for the sink.
fn pinned(rows: u64) -> u64 {
    6 * rows * 100
}

#[test]
fn chunks_get_smaller_until_they_fit() {
    let trace = 64 << 20;
    for (limit, rows) in [(pinned(100) + trace, 100), (pinned(99), 50), (pinned(1), 1)] {
        let report = run(Bytes(limit), Bytes(10_000)).expect("a smaller chunk fits");
        assert_eq!(report.plan.chunk_rows, rows, "{limit}");
    }
    let error = run(Bytes(pinned(1) - 1), Bytes(10_000)).expect_err("no chunk fits");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let words = error.to_string();
    assert!(words.contains("the run may use 599 B"), "{words}");
}

#[test]
fn a_trace_that_does_not_fit_is_left_out_in_words() {
    let with = run(Bytes(pinned(100) + (1 << 20)), Bytes(10_000)).expect("it fits");
    assert!(!with.ops.is_empty() && with.warnings().is_empty(), "{with}");
    // Ten chunks leave no memory for their trace.
    let without = run(Bytes(pinned(100)), Bytes(10_000)).expect("it fits");
    assert!(without.ops.is_empty());
    assert!(without.to_string().contains("exceeds the memory that the run may use"), "{without}");
}

/// The trace of a chunk has an operation for each stage.
#[test]
fn the_trace_of_more_stages_takes_more_memory() {
    let limit = Bytes(pinned(100) + (200 << 10));
    let with = run_stages(1, limit, Bytes(10_000)).expect("it fits");
    assert!(!with.ops.is_empty(), "{with}");
    let without = run_stages(10, limit, Bytes(10_000)).expect("it fits");
    assert!(without.ops.is_empty(), "{without}");
}

/// A driver that refuses each allocation outside of the heap, and each free: a pipeline makes none.
/// Its second run makes no call for memory at all.
#[test]
fn pipelines_run_on_the_heap_alone_and_a_second_run_takes_nothing() -> Result<()> {
    let refused = |verb| Fault { verb, nth: 1, kind: FaultKind::RefusedFrom };
    let faults = [Verb::Alloc, Verb::Free, Verb::DeviceAlloc].map(refused).to_vec();
    let device = Device::host(HostConfig::new().faults(faults))?.remove(0);
    let mut calls = Vec::new();
    for _ in 0..2 {
        let input: Vec<u32> = (0..100_000).collect();
        let mut output: Vec<u32> = Vec::new();
        Pipeline::on(&device)
            .source(rows_of(&input, 100))
            .chunk(Bytes(16 << 10))
            .depth(3)
            .schedule(Schedule::RoleStreams)
            .stage::<u32, u32>(|s, x, mut y| {
                let mut scratch = s.alloc::<u32>(x.len())?;
                s.copy(&x, &mut scratch)?;
                s.copy(&scratch, &mut y)
            })
            .sink(&mut output)
            .run()?;
        assert_eq!(output, input);
        calls.push(device.heap_stats().expect("it has a heap").calls);
    }
    assert!(calls[0] > 0 && calls[0] == calls[1], "{calls:?}");
    Ok(())
}
