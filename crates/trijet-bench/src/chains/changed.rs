//! The cost of a change of a graph. None, some or all of its kernels change. The changed graph is
//! either recorded again into the existing graph, or becomes a new graph.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use std::time::Instant;
use trijet::graph::{Graph, Recording};
use trijet::testing::WORK;
use trijet::{Buffer, Device, Error, ErrorKind, Result, Stream, Uses};
use trijet_tools::bare::chain::Chains;
use trijet_tools::bare::lab::Lab;
use trijet_tools::stats::Samples;
use trijet_tools::work::hash;

/// The number of elements that each kernel writes.
const LEN: usize = 256;

/// A graph. Each of its kernels hashes the input into its own part of the result.
struct Changes {
    device: Device,
    stream: Stream,
    x: Buffer<u32>,
    y: Buffer<u32>,
    graph: Graph,
    /// The number of rounds of each kernel.
    rounds: Vec<u32>,
}

fn record(g: &Recording, x: &Buffer<u32>, y: &mut Buffer<u32>, rounds: &[u32]) -> Result<()> {
    g.argument(x)?;
    g.argument(y)?;
    let s = g.stream()?;
    rounds.iter().enumerate().try_for_each(|(kernel, rounds)| {
        let part = y.slice_mut(kernel * LEN..(kernel + 1) * LEN);
        s.launch(&WORK, (*rounds, x, part))
    })
}

impl Changes {
    fn new(device: &Device, kernels: usize) -> Result<Self> {
        let stream = device.stream()?;
        let words: Vec<u32> = (0..).take(LEN).collect();
        let (x, mut y) = (stream.upload(&words)?, stream.alloc_zeroed::<u32>(kernels * LEN)?);
        let rounds = vec![1; kernels];
        let graph = device.record(|g| record(g, &x, &mut y, &rounds))?;
        Ok(Self { device: device.clone(), stream, x, y, graph, rounds })
    }

    /// Changes the number of rounds of every `step`-th kernel. Then makes a new graph if `is_new`
    /// is set; otherwise records the existing graph again. Launches the graph and checks the
    /// result.
    fn sample(&mut self, step: Option<usize>, is_new: bool) -> Result<Vec<Value>> {
        let Self { device, stream, x, y, graph, rounds } = self;
        if let Some(step) = step {
            rounds.iter_mut().step_by(step).for_each(|rounds| *rounds = 1 + *rounds % 3);
        }
        let start = Instant::now();
        if is_new {
            *graph = device.record(|g| record(g, x, y, rounds))?;
        } else {
            device.record_again(graph, |g| record(g, x, y, rounds))?;
        }
        let value = start.elapsed().as_secs_f64() * 1e6;
        stream.launch_graph(graph, Uses::new().read(x.view()).write(y.view_mut()))?;
        let found = stream.download(y)?;
        let parts = found.chunks(LEN).zip(rounds.iter());
        for (kernel, (part, rounds)) in parts.enumerate() {
            if (0..).zip(part).any(|(x, y)| hash(*rounds, x) != *y) {
                let cause = format!("kernel {kernel} did not compute {rounds} rounds");
                return Err(Error::new(ErrorKind::InvalidValue, "bench chains", cause));
            }
        }
        Ok(vec![Value { what: "host".to_owned(), unit: "us".to_owned(), value }])
    }
}

/// Measures all changes. The ways take turns. The last figures are for bare driver calls: the
/// capture of a graph of the same number of kernels, and the update of the previous graph with the
/// captured graph.
pub(super) fn changes(
    setting: &Setting<'_>,
    (kernels, samples): (usize, usize),
    lab: Option<&Lab>,
    results: &mut Results,
) -> Result<()> {
    let graph = || Changes::new(setting.device, kernels);
    let (mut same, mut some, mut all, mut anew) = (graph()?, graph()?, graph()?, graph()?);
    let mut sides = [
        Side::new("recorded again, nothing changed", || same.sample(None, false)),
        Side::new("recorded again, every tenth kernel changed", || some.sample(Some(10), false)),
        Side::new("recorded again, all kernels changed", || all.sample(Some(1), false)),
        Side::new("a new graph", || anew.sample(Some(1), true)),
    ];
    warm_up(&mut sides, &setting.cancel)?;
    for number in 0..samples {
        round(&mut sides, number, &setting.cancel)?;
    }
    for side in &sides {
        for figure in &side.figures {
            let what = format!("graph of {kernels} kernels, {}: {}", side.name, figure.what);
            results.push(what, &figure.unit, figure.samples.clone(), None);
        }
    }
    let Some(lab) = lab else { return Ok(()) };
    let bare = Chains::new(lab, setting.device.info().multiprocessors, false)?;
    let costs = bare.updated(u32::try_from(kernels).unwrap_or(u32::MAX), samples)?;
    for (part, what) in ["captured again", "updated as a whole"].into_iter().enumerate() {
        let what = format!("graph of {kernels} kernels, bare, {what}: host");
        let mut samples = Samples::default();
        costs.iter().for_each(|cost| samples.push(cost[part] / 1e3));
        results.push(what, "us", samples, None);
    }
    Ok(())
}
