//! Chains of kernels, as a language model launches them in its decode phase. Each kernel reads and
//! writes some memory, and is so short that the time between two kernels matters. The chains run in
//! a graph, as ordinary and as dependent launches. Before a kernel waits for its predecessor, it
//! does some work or none.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use serde::Deserialize;
use trijet::graph::Graph;
use trijet::testing::dependent::{CONSUME, Trigger};
use trijet::{
    Buffer, Bytes, Device, Error, ErrorKind, LaunchConfig, Result, Stream, TimedEvent, Uses,
};
use trijet_tools::work::hash;

/// The number of threads of a block, and the number of blocks per multiprocessor.
const THREADS: u32 = 256;
const BLOCKS: u32 = 4;
/// The bound comes from a copy. The copy has this many times the elements of the largest chain.
const COPY_TIMES: usize = 16;

#[derive(Debug, Deserialize)]
pub(super) struct Definition {
    /// The number of KiB that each kernel reads. The kernel writes the same number.
    pub(super) sizes_kib: Vec<usize>,
    pub(super) kernels: u32,
    /// The number of hash rounds that each kernel computes before it waits.
    pub(super) preambles: Vec<u32>,
}

/// How the kernels of a chain are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ordinary,
    Dependent(Trigger),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Dependent(Trigger::Late) => "dependent with a late trigger",
            Self::Dependent(Trigger::Early) => "dependent with an early trigger",
        }
    }
}

/// The amount of work of a chain.
#[derive(Debug, Clone, Copy)]
struct ChainSize {
    /// The number of elements that each kernel reads and writes.
    len: usize,
    kernels: u32,
    /// The number of hash rounds that each kernel computes before it waits.
    preamble: u32,
}

/// A chain in a graph. Its kernels use two buffers alternately.
struct Chain {
    stream: Stream,
    first: Buffer<u32>,
    buffers: [Buffer<u32>; 2],
    graph: Graph,
    wanted: Vec<u32>,
    kernels: u32,
    between: [TimedEvent; 2],
}

/// The expected results of the kernels if the input is the numbers 0, 1, 2 and so on.
fn wanted(size: ChainSize) -> Vec<u32> {
    let mut words: Vec<u32> = (0..).take(size.len).collect();
    for salt in 0..size.kernels {
        let key = hash(size.preamble, salt);
        words.reverse();
        words.iter_mut().for_each(|word| *word = hash(1, *word ^ key));
    }
    words
}

impl Chain {
    fn new(device: &Device, size: ChainSize, way: Way, wanted: &[u32]) -> Result<Self> {
        let (stream, ChainSize { len, kernels, preamble }) = (device.stream()?, size);
        let words: Vec<u32> = (0..).take(len).collect();
        let first = stream.upload(&words)?;
        let mut buffers = [stream.alloc::<u32>(len)?, stream.alloc::<u32>(len)?];
        let blocks = BLOCKS * device.info().multiprocessors;
        let config = LaunchConfig::new([blocks, 1, 1], [THREADS, 1, 1]);
        let (config, trigger) = match way {
            Way::Ordinary => (config, Trigger::Late),
            Way::Dependent(trigger) => (config.dependent(), trigger),
        };
        let graph = device.record(|g| {
            buffers.iter().try_for_each(|buffer| g.argument(buffer))?;
            let s = g.stream()?;
            (0..kernels).try_for_each(|salt| {
                let [x, y] = &mut buffers;
                let (from, to) = if salt % 2 == 0 { (x, y) } else { (y, x) };
                s.launch_with(&CONSUME, config, (salt, preamble, trigger, &*from, to))
            })
        })?;
        let between = [device.timed_event()?, device.timed_event()?];
        let wanted = wanted.to_vec();
        Ok(Self { stream, first, buffers, graph, wanted, kernels, between })
    }

    fn sample(&mut self) -> Result<Vec<Value>> {
        let Self { stream: s, first, buffers: [x, y], graph, wanted, kernels, between } = self;
        s.copy(&*first, x)?;
        s.synchronize()?;
        between[0].record(s)?;
        s.launch_graph(graph, Uses::new().write(x.view_mut()).write(y.view_mut()))?;
        between[1].record(s)?;
        let found = s.download(if *kernels % 2 == 0 { x } else { y })?;
        if found != *wanted {
            let cause = "a chain of kernels computed a wrong result";
            return Err(Error::new(ErrorKind::InvalidValue, "bench chains", cause));
        }
        let each = between[1].elapsed_since(&between[0])?.seconds() / f64::from(*kernels);
        Ok(values(each, 8 * wanted.len()))
    }
}

fn values(seconds: f64, bytes: usize) -> Vec<Value> {
    let value = |what: &str, unit: &str, value| {
        let (what, unit) = (what.to_owned(), unit.to_owned());
        Value { what, unit, value }
    };
    let rate = bytes as f64 / seconds / 1e9;
    vec![value("each kernel", "us", seconds * 1e6), value("read and written", "GB/s", rate)]
}

/// The rate of a copy within the device, in GB/s read and written.
fn copy_rate(device: &Device, len: usize) -> Result<f64> {
    let (s, between) = (device.stream()?, [device.timed_event()?, device.timed_event()?]);
    let (x, mut y) = (s.alloc_zeroed::<u32>(len)?, s.alloc::<u32>(len)?);
    let mut best: f64 = 0.0;
    for _ in 0..5 {
        s.synchronize()?;
        between[0].record(&s)?;
        s.copy(&x, &mut y)?;
        between[1].record(&s)?;
        s.synchronize()?;
        let seconds = between[1].elapsed_since(&between[0])?.seconds();
        best = best.max(8.0 * len as f64 / seconds / 1e9);
    }
    Ok(best)
}

/// Measures all chains. The chains with the same size and preamble take turns. Dependent launches
/// are measured only if the device has them.
pub(super) fn decode(
    setting: &Setting<'_>,
    definition: &Definition,
    samples: usize,
    results: &mut Results,
) -> Result<()> {
    let Definition { sizes_kib, kernels, preambles } = definition;
    let largest = sizes_kib.iter().max().copied().unwrap_or(1) << 8;
    let bound = copy_rate(setting.device, COPY_TIMES * largest)?;
    let mut ways = vec![Way::Ordinary];
    if setting.has_dependents() {
        ways.extend([Trigger::Late, Trigger::Early].map(Way::Dependent));
    }
    let cases = sizes_kib.iter().flat_map(|kib| preambles.iter().map(move |p| (*kib, *p)));
    for (kib, preamble) in cases {
        let size = ChainSize { len: kib << 8, kernels: *kernels, preamble };
        let wanted = wanted(size);
        let chain = |way: &Way| Chain::new(setting.device, size, *way, &wanted);
        let mut chains = ways.iter().map(chain).collect::<Result<Vec<_>>>()?;
        let named = ways.iter().zip(&mut chains);
        let mut sides: Vec<_> =
            named.map(|(way, chain)| Side::new(way.name(), || chain.sample())).collect();
        warm_up(&mut sides, &setting.cancel)?;
        for number in 0..samples {
            round(&mut sides, number, &setting.cancel)?;
        }
        let bytes = Bytes((kib as u64) << 10);
        for side in &sides {
            for figure in &side.figures {
                let what = format!(
                    "{kernels} kernels of {bytes}, {preamble} rounds before the wait, {}: {}",
                    side.name, figure.what
                );
                let bound = (figure.unit == "GB/s").then_some(bound);
                results.push(what, &figure.unit, figure.samples.clone(), bound);
            }
        }
    }
    Ok(())
}
