//! Workloads as traces. The heap, a pool, and peers in CUDA C++ replay each trace. The peers read
//! the trace from a file. Graphs with their own memory are measured as well.
#![forbid(unsafe_code)]

use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use trijet::graph::{Graph, Recording};
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, Result, Uses};
use trijet_tools::allocations::Trace;
use trijet_tools::allocations::replay::{Options, ReplayOutcome, replay};
use trijet_tools::allocations::workloads::Workload;
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

/// The workloads of a benchmark.
#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    workloads: Vec<Named>,
    /// The number of graphs with their own memory.
    graphs: usize,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// A workload with its name.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    workload: Workload,
    /// Maximum memory that the allocator may reserve, in percent of the maximum that the workload
    /// has allocated at once.
    limit_percent: Option<u64>,
    /// The allocators that the peers use.
    #[serde(default)]
    allocators: String,
}

impl Named {
    /// Maximum memory that the allocator may reserve. `peak` is the maximum that the workload has
    /// allocated at once.
    fn limit(&self, peak: u64) -> Option<u64> {
        self.limit_percent.map(|percent| peak * percent / 100)
    }
}

impl Definition {
    pub(crate) fn steps(&self) -> u64 {
        self.workloads.len() as u64 + 2
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let named = |name: &str, workload, limit_percent| Named {
            name: name.to_owned(),
            workload,
            limit_percent,
            allocators: String::new(),
        };
        let churn = Workload::Churn {
            threads: 1,
            streams: 3,
            allocations: 100,
            size_max: 1 << 14,
            kernel_ns: 100,
        };
        let streams = Workload::Streams { streams: 2, kernels: 3, kernel_ns: 100 };
        let workloads = vec![
            named("two streams", streams, None),
            named("3 streams with 150 % of the memory", churn, Some(150)),
        ];
        Self { samples: 2, workloads, graphs: 2, peers: Vec::new() }
    }
}

/// The figures of a replay, under the names that the peers use.
fn figures(outcome: ReplayOutcome, peak: u64) -> Vec<Value> {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    let each = Value::new("each allocation", "ns", mean(&outcome.allocate_ns));
    let free = Value::new("each free", "ns", mean(&outcome.free_ns));
    let slow = Samples::of(outcome.allocate_ns).quantile(0.999);
    vec![
        each,
        Value::new("each allocation, 99.9 %", "ns", slow),
        free,
        Value::new("whole run", "ms", outcome.whole.0 as f64 / 1e6),
        Value::new("peak held over peak live", "ratio", outcome.held_peak as f64 / peak as f64),
        Value::new("failed allocations", "calls", outcome.failed as f64),
        Value::new("calls of the driver", "calls", outcome.calls as f64),
        Value::new("waits of streams", "calls", outcome.waits as f64),
    ]
}

/// Replays all workloads, and adds their rows to the results.
///
/// # Errors
/// `InvalidValue` if memory was given to two owners at once; every error of the device and of a
/// peer.
pub(crate) fn measure(
    (heap, pool): (&Device, &Device),
    definition: &Definition,
    setting: &Setting<'_>,
    steps: &mut Steps<'_>,
    results: &mut Results,
) -> Result<()> {
    let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
    let mut jobs = String::new();
    for (number, named) in definition.workloads.iter().enumerate() {
        steps.begin(&named.name);
        let trace = named.workload.trace();
        replays((heap, pool), named, &trace, definition.samples, setting, results)?;
        if !named.allocators.is_empty() {
            let file = folder.path().join(format!("{number}.csv"));
            std::fs::write(&file, trace.text()).map_err(|error| failed(&error))?;
            let (name, allocators) = (&named.name, &named.allocators);
            let limit = named.limit(trace.peak()).unwrap_or(0);
            writeln!(jobs, "{}\t{name}\t{allocators}\t{limit}", file.display())
                .expect("writing to a string");
        }
    }
    results.note(
        "replays verified",
        "every kernel of a replay found the tag of its owner in its memory, at its start and at \
         its end",
    );
    steps.begin("graphs");
    graphs(heap, definition, setting, results)?;
    steps.begin("peers of the replays");
    let file = folder.path().join("jobs");
    std::fs::write(&file, jobs).map_err(|error| failed(&error))?;
    let words = [("jobs", vec![shown(&file)]), ("graphs", vec![definition.graphs.to_string()])];
    peer::figures(&definition.peers, definition.samples, &words, results)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "bench memory", format!("the traces of the peers: {error}"))
}

fn replays(
    (heap, pool): (&Device, &Device),
    named: &Named,
    trace: &Trace,
    samples: usize,
    setting: &Setting<'_>,
    results: &mut Results,
) -> Result<()> {
    let peak = trace.peak();
    let limit = named.limit(peak);
    let run = |device: &Device, limit| {
        let outcome = replay(device, trace, &Options { limit, picture: None })?;
        Ok(figures(outcome, peak))
    };
    let mut sides = vec![Side::new(format!("{}, heap", named.name), || run(heap, limit))];
    // The pools of the library have no limit. The pools of the peers have one.
    if limit.is_none() {
        sides.push(Side::new(format!("{}, pool", named.name), || run(pool, None)));
    }
    record(setting, &mut sides, samples, str::to_owned, results)
}

/// The number of launches of each graph.
const LAUNCHES: usize = 100;
/// The number of steps of a graph, and the number of bytes of the memory of each step.
const GRAPH_STEPS: u8 = 8;
const GRAPH_BYTES: usize = 4 << 20;

/// Allocates memory in each of several steps. The memory of a step is freed after the allocation of
/// the next step.
fn chain(recording: &Recording) -> Result<()> {
    let s = recording.stream()?;
    let mut before: Option<Buffer<u8>> = None;
    for step in 0..GRAPH_STEPS {
        let mut memory = s.alloc::<u8>(GRAPH_BYTES)?;
        s.fill_bytes(&mut memory.slice_mut(..4), step)?;
        drop(before.replace(memory));
    }
    Ok(())
}

/// Measures graphs with their own memory: the memory that they reserve, and the time of a launch.
fn graphs(
    device: &Device,
    definition: &Definition,
    setting: &Setting<'_>,
    results: &mut Results,
) -> Result<()> {
    let stream = device.stream()?;
    let run = || {
        device.synchronize()?;
        device.trim_memory(Bytes(0))?;
        let before = device.memory_stats()?.reserved.0;
        let begin = Instant::now();
        let all = (0..definition.graphs).map(|_| device.record(chain));
        let mut all: Vec<Graph> = all.collect::<Result<_>>()?;
        let made = begin.elapsed();
        let mut launch =
            || all.iter_mut().try_for_each(|graph| stream.launch_graph(graph, Uses::new()));
        launch()?;
        stream.synchronize()?;
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            launch()?;
        }
        stream.synchronize()?;
        let each = begin.elapsed().as_secs_f64() * 1e6 / (LAUNCHES * definition.graphs) as f64;
        let held = device.memory_stats()?.reserved.0 - before;
        Ok(vec![
            Value::new("replay of a graph", "us", each),
            Value::new("held", "MiB", held as f64 / f64::from(1 << 20)),
            Value::new("recording", "us", made.as_secs_f64() * 1e6 / definition.graphs as f64),
        ])
    };
    let mut sides = [Side::new(format!("{} graphs, heap", definition.graphs), run)];
    record(setting, &mut sides, definition.samples, str::to_owned, results)
}
