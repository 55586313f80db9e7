//! The same tasks repeated: in streams, as regions of tasks, and as a graph by hand.
#![forbid(unsafe_code)]

use crate::rounds::Value;
use std::time::Instant;
use trijet::Uses;
use trijet::graph::{Graph, Recording};
use trijet::kernels::AXPY;
use trijet::task::{Data, Tasks};
use trijet::{Buffer, Device, Error, ErrorKind, Result, Stream};

/// The number of kernels of a round. The kernels add to the sums one after another.
const KERNELS: u32 = 32;
const SUMS: usize = 8;
/// The number of elements of each buffer of sums.
const LEN: usize = 256;

/// How the kernels of a round are enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Streams,
    Region,
    ByHand,
}

/// A program that repeats the same kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepeatedProgram {
    pub(crate) name: &'static str,
    way: Way,
    /// Whether a tenth of the kernels have other factors in each round.
    changes: bool,
}

impl RepeatedProgram {
    const fn new(name: &'static str, way: Way, changes: bool) -> Self {
        Self { name, way, changes }
    }

    /// The factor of kernel `at` in a round. The kernel adds this factor to each element of its
    /// sum.
    fn weight(self, round: u32, at: u32) -> f32 {
        if self.changes && at.is_multiple_of(10) { (1 + round % 3) as f32 } else { 1.0 }
    }
}

/// The programs to compare.
pub(crate) const PROGRAMS: [RepeatedProgram; 6] = [
    RepeatedProgram::new("32 kernels in streams", Way::Streams, false),
    RepeatedProgram::new("32 kernels as a region", Way::Region, false),
    RepeatedProgram::new("32 kernels as a graph by hand", Way::ByHand, false),
    RepeatedProgram::new("32 kernels in streams, a tenth changes", Way::Streams, true),
    RepeatedProgram::new("32 kernels as a region, a tenth changes", Way::Region, true),
    RepeatedProgram::new("32 kernels as a graph by hand, a tenth changes", Way::ByHand, true),
];

/// Runs the rounds. Returns two times, each divided by the number of kernels: the time until all
/// kernels are submitted, and the time until all kernels are complete.
pub(crate) fn run(device: &Device, rounds: u32, program: RepeatedProgram) -> Result<Vec<Value>> {
    let stream = device.stream()?;
    let x = stream.upload(&[1.0_f32; LEN])?;
    let mut sums =
        (0..SUMS).map(|_| stream.alloc_zeroed::<f32>(LEN)).collect::<Result<Vec<_>>>()?;
    device.load(&AXPY)?;
    stream.synchronize()?;
    let times;
    if program.way == Way::ByHand {
        times = by_hand(device, &stream, &x, &mut sums, rounds, program)?;
    } else {
        let tasks = device.tasks();
        let x = tasks.data(x);
        let data: Vec<Data<f32>> = sums.into_iter().map(|sum| tasks.data(sum)).collect();
        times = by_tasks(&tasks, &x, &data, rounds, program)?;
        sums = data.into_iter().map(|sum| tasks.take(sum)).collect::<Result<_>>()?;
    }
    for (number, sum) in sums.iter().enumerate() {
        let own = (0..KERNELS).filter(|at| *at as usize % SUMS == number);
        let one = |round| own.clone().map(move |at| program.weight(round, at)).sum::<f32>();
        let expected: f32 = (0..rounds).map(one).sum();
        if stream.download(sum)?.iter().any(|found| *found != expected) {
            let cause = format!("sum {number} of repeated kernels is not {expected}");
            return Err(Error::new(ErrorKind::InvalidValue, "bench tasks", cause));
        }
    }
    let each = |seconds: f64| seconds * 1e9 / f64::from(rounds * KERNELS);
    Ok(vec![Value::new("submit", "ns", each(times.0)), Value::new("drained", "ns", each(times.1))])
}

/// The seconds until all rounds are submitted, and the seconds until all are complete.
type Times = (f64, f64);

fn by_tasks(
    tasks: &Tasks,
    x: &Data<f32>,
    sums: &[Data<f32>],
    rounds: u32,
    program: RepeatedProgram,
) -> Result<Times> {
    let begin = Instant::now();
    for round in 0..rounds {
        let submit = |tasks: &Tasks| {
            (0..KERNELS).try_for_each(|at| {
                let a = program.weight(round, at);
                let task = tasks.task((x.read(), sums[at as usize % SUMS].update()));
                task.run(move |s, (x, y)| s.launch(&AXPY, (a, x, y))).map(drop)
            })
        };
        if program.way == Way::Region { tasks.region(submit)? } else { submit(tasks)? }
    }
    let submitted = begin.elapsed().as_secs_f64();
    tasks.finish()?;
    Ok((submitted, begin.elapsed().as_secs_f64()))
}

fn by_hand(
    device: &Device,
    stream: &Stream,
    x: &Buffer<f32>,
    sums: &mut [Buffer<f32>],
    rounds: u32,
    program: RepeatedProgram,
) -> Result<Times> {
    let record = |g: &Recording, round: u32, sums: &mut [Buffer<f32>]| -> Result<()> {
        g.argument(x)?;
        sums.iter().try_for_each(|sum| g.argument(sum))?;
        let streams = (0..SUMS).map(|_| g.stream()).collect::<Result<Vec<_>>>()?;
        (0..KERNELS).try_for_each(|at| {
            let number = at as usize % SUMS;
            streams[number].launch(&AXPY, (program.weight(round, at), x, &mut sums[number]))
        })
    };
    let mut graph: Graph = device.record(|g| record(g, 0, sums))?;
    let begin = Instant::now();
    for round in 0..rounds {
        if program.changes && round > 0 {
            device.record_again(&mut graph, |g| record(g, round, sums))?;
        }
        let arguments = Uses::new().read(x.view());
        let arguments = sums.iter_mut().fold(arguments, |all, sum| all.write(sum.view_mut()));
        stream.launch_graph(&mut graph, arguments)?;
    }
    let submitted = begin.elapsed().as_secs_f64();
    stream.synchronize()?;
    Ok((submitted, begin.elapsed().as_secs_f64()))
}
