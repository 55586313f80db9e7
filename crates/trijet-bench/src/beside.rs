//! Persistent workers in one stream, and memory-bound kernels in another stream at the same time.
//! The figures show how much longer the workers and the kernels take than alone. The workers use
//! either all multiprocessors, or leave some to the kernels.
#![forbid(unsafe_code)]

use crate::rounds::{Side, Value};
use serde::Deserialize;
use trijet::kernels::AXPY;
use trijet::testing::WORK;
use trijet::workers::{Policy, RunOptions, Work};
use trijet::{Buffer, Clock, Device, Error, ErrorKind, Event, Result, Stream, TimedEvent};
use trijet_programs::lengths::{self, LENGTHS};

/// The number of lanes of a task.
const LANES: u32 = 32;

/// The work of the workers, and the work of the kernels that run at the same time.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Load {
    /// The number of tasks of the workers, and the number of steps of each task.
    pub(crate) tasks: u32,
    pub(crate) steps: u32,
    /// The number of elements of an array that the kernels use, and the number of kernels.
    pub(crate) elements: usize,
    pub(crate) kernels: u32,
}

struct Pair {
    load: Load,
    workers: Stream,
    kernels: Stream,
    delay: (Buffer<u32>, Buffer<u32>),
    rounds: u32,
    out: Buffer<u32>,
    expected: Vec<u32>,
    x: Buffer<f32>,
    y: Buffer<f32>,
    /// The start and the end of the workers, then the start and the end of the kernels.
    events: [TimedEvent; 4],
    released: Event,
    reserve: u32,
}

fn wrong(what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidValue,
        "bench workers",
        format!("{what} is wrong in a run with workers and kernels at the same time"),
    )
}

impl Pair {
    fn new(device: &Device, load: Load, reserve: u32) -> Result<Self> {
        let (workers, kernels) = (device.stream()?, device.stream()?);
        let lanes = (0..load.tasks).flat_map(|task| (0..LANES).map(move |lane| (task, lane)));
        let expected =
            lanes.map(|(task, lane)| lengths::value(task, lane, load.steps, 1)).collect();
        let (mut x, y) =
            (kernels.alloc::<f32>(load.elements)?, kernels.alloc::<f32>(load.elements)?);
        kernels.fill(&mut x, 1.0)?;
        let event = || device.timed_event();
        Ok(Self {
            load,
            delay: (kernels.alloc_zeroed(1)?, kernels.alloc_zeroed(1)?),
            // The number of rounds of a kernel that delays the workers and the kernels. It takes
            // about 300 us on a GPU, so that the host has enqueued everything before the workers
            // start.
            rounds: if device.info().clock == Clock::Device { 20_000 } else { 0 },
            out: workers.alloc(load.tasks as usize * LANES as usize)?,
            expected,
            x,
            y,
            events: [event()?, event()?, event()?, event()?],
            workers,
            kernels,
            released: device.event()?,
            reserve,
        })
    }

    /// Runs the workers, the kernels, or both with a common start. Returns the time of the workers
    /// and of the kernels in microseconds.
    fn run(&mut self, (has_workers, has_kernels): (bool, bool)) -> Result<[f64; 2]> {
        let Self {
            load,
            workers,
            kernels,
            delay,
            rounds,
            out,
            x,
            y,
            released,
            events,
            reserve,
            ..
        } = self;
        workers.fill_bytes(out, 0xff)?;
        kernels.fill(y, 0.0)?;
        workers.synchronize()?;
        kernels.launch(&WORK, (*rounds, &delay.0, &mut delay.1))?;
        released.record(kernels)?;
        workers.wait(released)?;
        events[2].record(kernels)?;
        if has_kernels {
            (0..load.kernels).try_for_each(|_| kernels.launch(&AXPY, (1.0, &*x, &mut *y)))?;
        }
        events[3].record(kernels)?;
        events[0].record(workers)?;
        if has_workers {
            let options = RunOptions::new().policy(Policy::Sharing).reserve(*reserve);
            let work = Work::Range { kind: 0, count: load.tasks };
            let run = workers.run_workers(&LENGTHS, work, &options, (&mut *out, load.steps, 1))?;
            events[1].record(workers)?;
            run.wait()?;
        } else {
            events[1].record(workers)?;
        }
        kernels.synchronize()?;
        workers.synchronize()?;
        if has_workers && workers.download(out)? != self.expected {
            return Err(wrong("a task"));
        }
        let sum = self.load.kernels as f32;
        if has_kernels && kernels.download(y)?.iter().any(|found| *found != sum) {
            return Err(wrong("a sum"));
        }
        let time = |begin: usize| {
            let time = self.events[begin + 1].elapsed_since(&self.events[begin])?;
            Ok::<f64, Error>(time.seconds() * 1e6)
        };
        Ok([time(0)?, time(2)?])
    }
}

/// One program for each number in `reserved`. The number is how many multiprocessors the workers
/// leave to the kernels.
pub(crate) fn sides(device: &Device, load: Load, reserved: &[u32]) -> Result<Vec<Side<'static>>> {
    let side = |reserve: &u32| {
        let mut pair = Pair::new(device, load, *reserve)?;
        let name = format!("beside kernels of the memory, {reserve} multiprocessors left");
        Ok(Side::new(name, move || {
            let [workers_alone, _] = pair.run((true, false))?;
            let [_, kernels_alone] = pair.run((false, true))?;
            let [workers, kernels] = pair.run((true, true))?;
            Ok(vec![
                Value::new("workers alone", "us", workers_alone),
                Value::new("workers", "us", workers),
                Value::new("kernels alone", "us", kernels_alone),
                Value::new("kernels", "us", kernels),
            ])
        }))
    };
    let multiprocessors = device.info().multiprocessors;
    reserved.iter().filter(|left| **left < multiprocessors.max(1)).map(side).collect()
}
