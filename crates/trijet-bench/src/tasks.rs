//! Tasks: the time that the library needs for each task from the submission until the task is
//! issued, and until its work is complete.
#![forbid(unsafe_code)]

use crate::peer::{self, Peer};
use crate::repeated;
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use trijet::task::{Data, Reads, Tasks};
use trijet::{Device, Error, ErrorKind, LaunchConfig, Result};
use trijet_tools::bare::ticks::TICK;
use trijet_tools::progress::Steps;

/// The number of tasks in each step of a graph.
const COLUMNS: usize = 8;
/// The number of bytes of a datum.
const BYTES: usize = 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The number of tasks without work. Each of these tasks declares two uses of data.
    empty: u32,
    /// The number of tasks that launch a kernel.
    chain: u32,
    /// The number of steps of a graph.
    steps: usize,
    /// The number of rounds in which the same tasks are repeated.
    rounds: u32,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// The shape of a graph: which data each task reads. The data were written in the previous step or
/// in the same step.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Trivial,
    Stencil,
    Fft,
    Sweep,
    Tree,
    Random,
}

impl Shape {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Trivial, "trivial"),
        (Self::Stencil, "stencil"),
        (Self::Fft, "fft"),
        (Self::Sweep, "sweep"),
        (Self::Tree, "tree"),
        (Self::Random, "random"),
    ];

    /// The data that the task at `step` and `column` reads. A pair has the step that wrote a datum,
    /// modulo 2, and the column of the datum. The step that wrote the datum is `step` or the step
    /// before `step`.
    fn reads(self, step: usize, column: usize) -> Vec<(usize, usize)> {
        let before = (step + 1) % 2;
        let of = |columns: Vec<usize>| columns.into_iter().map(|at| (before, at)).collect();
        match self {
            _ if step == 0 => Vec::new(),
            Self::Trivial => Vec::new(),
            Self::Stencil => of((column.max(1) - 1..(column + 2).min(COLUMNS)).collect()),
            Self::Fft => of(vec![column, column ^ (1 << (step % 3))]),
            Self::Sweep => {
                let mut all = vec![(before, column)];
                all.extend((column > 0).then(|| (step % 2, column - 1)));
                all
            }
            Self::Tree => of(vec![column / 2]),
            Self::Random => {
                let number = u32::try_from(step * COLUMNS + column).unwrap_or(u32::MAX);
                let drawn = number.wrapping_mul(2_654_435_761) >> 24;
                of((0..COLUMNS).filter(|at| drawn >> at & 1 == 1).collect())
            }
        }
    }
}

fn wrong(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench tasks", cause)
}

/// The tasks of a sample, and the number of task functions that were called.
struct Sample {
    device: Device,
    tasks: Tasks,
    called: Arc<AtomicU64>,
    waits: (u64, u64),
    begin: Instant,
}

impl Sample {
    fn new(device: &Device) -> Self {
        let ordering = device.ordering();
        Self {
            device: device.clone(),
            tasks: device.tasks(),
            called: Arc::default(),
            waits: (ordering.waits, ordering.records),
            begin: Instant::now(),
        }
    }

    fn data(&self) -> Result<Data<u32>> {
        self.tasks.alloc::<u32>(BYTES / 4)
    }

    /// Waits for the `count` submitted tasks. Returns their figures.
    fn values(&self, count: u32) -> Result<Vec<Value>> {
        let each = |ns: f64| ns * 1e9 / f64::from(count);
        let submitted = self.begin.elapsed().as_secs_f64();
        self.tasks.finish()?;
        let drained = self.begin.elapsed().as_secs_f64();
        let called = self.called.load(Ordering::Relaxed);
        if called != u64::from(count) || self.tasks.counts().succeeded != u64::from(count) {
            return Err(wrong(format!("{called} of {count} functions were called")));
        }
        let ordering = self.device.ordering();
        let rate = |after: u64, before: u64| (after - before) as f64 / f64::from(count);
        Ok(vec![
            Value::new("submit", "ns", each(submitted)),
            Value::new("drained", "ns", each(drained)),
            Value::new("waits of streams", "calls", rate(ordering.waits, self.waits.0)),
            Value::new("records of events", "calls", rate(ordering.records, self.waits.1)),
        ])
    }
}

/// Runs tasks that do no work. Each task reads one of two data and updates the other datum. The two
/// data swap roles from task to task.
fn empty(device: &Device, count: u32) -> Result<Vec<Value>> {
    let mut sample = Sample::new(device);
    let data = [sample.data()?, sample.data()?];
    sample.begin = Instant::now();
    for number in 0..count {
        let (from, to) = if number.is_multiple_of(2) { (0, 1) } else { (1, 0) };
        let called = Arc::clone(&sample.called);
        sample.tasks.task((data[from].read(), data[to].update())).run(move |_, _| {
            called.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })?;
    }
    sample.values(count)
}

/// Runs tasks that each launch a kernel on the same datum.
fn chain(device: &Device, count: u32) -> Result<Vec<Value>> {
    const ONE: LaunchConfig = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
    let mut sample = Sample::new(device);
    let stream = device.stream()?;
    let word = sample.tasks.data(stream.alloc_zeroed::<u32>(1)?);
    stream.synchronize()?;
    sample.begin = Instant::now();
    for _ in 0..count {
        let called = Arc::clone(&sample.called);
        sample.tasks.task(word.update()).run(move |s, word| {
            called.fetch_add(1, Ordering::Relaxed);
            s.launch_with(&TICK, ONE, (word,))
        })?;
    }
    let values = sample.values(count)?;
    let found = stream.download(&sample.tasks.take(word)?)?[0];
    if found != count {
        return Err(wrong(format!("{count} kernels counted to {found}")));
    }
    Ok(values)
}

/// Runs the tasks of a graph. Each task writes a datum and reads other data.
fn graph(device: &Device, shape: Shape, steps: usize) -> Result<Vec<Value>> {
    let mut sample = Sample::new(device);
    let generation = || (0..COLUMNS).map(|_| sample.data()).collect::<Result<Vec<_>>>();
    let data = [generation()?, generation()?];
    sample.begin = Instant::now();
    for step in 0..steps {
        for column in 0..COLUMNS {
            let reads = shape.reads(step, column).into_iter();
            let reads: Vec<Reads<u32>> = reads.map(|(of, at)| data[of][at].read()).collect();
            let called = Arc::clone(&sample.called);
            sample.tasks.task((data[step % 2][column].write(), reads)).run(move |_, _| {
                called.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })?;
        }
    }
    sample.values(u32::try_from(steps * COLUMNS).unwrap_or(u32::MAX))
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if a function was not called, or a kernel did not run; every error of the device
/// and of a peer.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let device = setting.device;
    steps.expect(2);
    let mut results = Results::of_device(device);
    results.note(
        "verified",
        "every function was called once, the kernels of a chain counted to their number, and repeated ones to their sum",
    );
    steps.begin("tasks");
    let mut sides = vec![
        Side::new("empty tasks".to_owned(), || empty(device, definition.empty)),
        Side::new("kernel chain".to_owned(), || chain(device, definition.chain)),
    ];
    for (shape, name) in Shape::ALL {
        let run = move || graph(device, shape, definition.steps);
        sides.push(Side::new(name.to_owned(), run));
    }
    for program in repeated::PROGRAMS {
        let run = move || repeated::run(device, definition.rounds, program);
        sides.push(Side::new(program.name.to_owned(), run));
    }
    record(setting, &mut sides, definition.samples, str::to_owned, &mut results)?;
    steps.begin("peers");
    peer::figures(&definition.peers, definition.samples, &[], &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn every_graph_has_its_times_and_its_waits() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition =
            Definition { samples: 2, empty: 20, chain: 10, steps: 6, rounds: 3, peers: Vec::new() };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for row in [
            "empty tasks: submit",
            "kernel chain: drained",
            "random: waits of streams",
            "32 kernels as a region: submit",
        ] {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 10);
        Ok(())
    }

    #[test]
    fn a_task_of_a_graph_reads_columns_that_exist() {
        for (shape, name) in Shape::ALL {
            for (step, column) in (0..20).flat_map(|step| (0..COLUMNS).map(move |at| (step, at))) {
                let reads = shape.reads(step, column);
                assert!(reads.iter().all(|(of, at)| *of < 2 && *at < COLUMNS), "{name}: {reads:?}");
                assert!(
                    !reads.contains(&(step % 2, column)),
                    "{name}: a task reads what it writes"
                );
            }
        }
        assert_eq!(Shape::Stencil.reads(1, 0), [(0, 0), (0, 1)]);
        assert_eq!(Shape::Stencil.reads(2, 7), [(1, 6), (1, 7)]);
    }
}
