//! Chains of short kernels, launched one by one and as a graph, by the library and by bare driver
//! calls.
//!
//! The device's time is from the start of the first kernel to the end of the last kernel. The
//! host's time is the time that the calls take. A graph is also launched with different memory each
//! time, which changes all of its nodes.
#![forbid(unsafe_code)]

mod changed;
mod clusters;
mod decode;
mod replayed;

use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use changed::changes;
use clusters::clusters;
use replayed::pipelines;
use serde::Deserialize;
use std::time::Instant;
use trijet::graph::Graph;
use trijet::{Buffer, Device, Error, ErrorKind, LaunchConfig, Result, Stream, TimedEvent, Uses};
use trijet_tools::bare::chain::{ChainCost, ChainLink, Chains};
use trijet_tools::bare::lab::Lab;
use trijet_tools::bare::ticks::{STEPS, TICK, TRIGGER_THEN_WAIT, Tick, WAIT_THEN_TRIGGER};
use trijet_tools::progress::Steps;

/// The number of threads of a block. The chains of bare driver calls use the same number.
const THREADS: u32 = 32;
/// The number of launches of a graph in a sample, one directly after another. The graphs of bare
/// driver calls use the same number. The device's time includes the time in which the host makes
/// the first launch.
const LAUNCHES: u32 = 4;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    lengths: Vec<u32>,
    samples: usize,
    /// The number of kernels of the graph that the benchmark changes.
    changes: usize,
    decode: decode::Definition,
    /// The number of products that a kernel with clusters sums for each element of its result.
    clusters: u32,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// The counts of a sample.
#[derive(Debug, Clone, Copy)]
struct SampleCounts {
    /// The number of calls.
    calls: u32,
    /// For each buffer, the number that the sample adds to each word.
    added: [u32; 2],
}

/// The chains to compare. All have the same kind and the same length.
#[derive(Debug, Clone, Copy)]
struct ChainCase {
    link: ChainLink,
    length: u32,
    samples: usize,
}

/// A chain that the library launches.
struct Chain {
    kernel: &'static Tick,
    link: ChainLink,
    stream: Stream,
    /// Two buffers. Launches with different memory use the two alternately.
    words: [Buffer<u32>; 2],
    blocks: u32,
    length: u32,
    between: [TimedEvent; 2],
}

impl Chain {
    fn new(device: &Device, link: ChainLink, length: u32) -> Result<Self> {
        let kernel = match link {
            ChainLink::Empty | ChainLink::Plain => &TICK,
            ChainLink::WaitThenTrigger => &WAIT_THEN_TRIGGER,
            ChainLink::TriggerThenWait => &TRIGGER_THEN_WAIT,
        };
        let (stream, blocks) = (device.stream()?, device.info().multiprocessors);
        let words = || stream.alloc_zeroed::<u32>(blocks as usize);
        let words = [words()?, words()?];
        let between = [device.timed_event()?, device.timed_event()?];
        Ok(Self { kernel, link, stream, words, blocks, length, between })
    }

    fn config(&self) -> LaunchConfig {
        let config = LaunchConfig::new([self.blocks, 1, 1], [THREADS, 1, 1]);
        match self.link {
            ChainLink::Empty | ChainLink::Plain => config,
            ChainLink::WaitThenTrigger | ChainLink::TriggerThenWait => config.dependent(),
        }
    }

    fn graph(&mut self, device: &Device) -> Result<Graph> {
        let (config, length, kernel) = (self.config(), self.length, self.kernel);
        let words = &mut self.words[0];
        device.record(|g| {
            g.argument(words)?;
            let s = g.stream()?;
            (0..length).try_for_each(|_| s.launch_with(kernel, config, (&mut *words,)))
        })
    }

    /// Measures `run`, which must make the calls and the additions of `counts`.
    fn sample(
        &mut self,
        counts: SampleCounts,
        run: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<Vec<Value>> {
        for words in &mut self.words {
            self.stream.fill_bytes(words, 0)?;
        }
        self.stream.synchronize()?;
        self.between[0].record(&self.stream)?;
        let start = Instant::now();
        run(self)?;
        let host = start.elapsed();
        self.between[1].record(&self.stream)?;
        self.stream.synchronize()?;
        for (words, added) in self.words.iter().zip(counts.added) {
            if self.stream.download(words)?.iter().any(|word| *word != added) {
                let cause = format!("a word is not {added}");
                return Err(Error::new(ErrorKind::InvalidValue, "bench chains", cause));
            }
        }
        let device = self.between[1].elapsed_since(&self.between[0])?.seconds() * 1e9;
        let kernels = f64::from(counts.added.iter().sum::<u32>());
        Ok(values(device / kernels, host.as_secs_f64() * 1e9 / f64::from(counts.calls)))
    }

    fn launches(&mut self) -> Result<Vec<Value>> {
        let (config, length, kernel) = (self.config(), self.length, self.kernel);
        self.sample(SampleCounts { calls: 1, added: [length, 0] }, |chain| {
            let words = &mut chain.words[0];
            (0..length).try_for_each(|_| chain.stream.launch_with(kernel, config, (&mut *words,)))
        })
    }

    /// Runs one kernel with as many steps as the chain has kernels. The blocks of the kernel wait
    /// for each other after each step.
    fn persistent(&mut self, arrived: &mut Buffer<u32>) -> Result<Vec<Value>> {
        let (config, length) = (self.config().cooperative(), self.length);
        self.stream.fill_bytes(arrived, 0)?;
        self.sample(SampleCounts { calls: 1, added: [length, 0] }, |chain| {
            chain.stream.launch_with(&STEPS, config, (length, &mut chain.words[0], &mut *arrived))
        })
    }

    /// Launches the graph `LAUNCHES` times. The launches use the buffers with the indices `buffers`
    /// alternately.
    fn replay(&mut self, graph: &mut Graph, buffers: &[usize]) -> Result<Vec<Value>> {
        let turns = || buffers.iter().cycle().take(LAUNCHES as usize);
        let mut added = [0; 2];
        turns().for_each(|buffer| added[*buffer] += self.length);
        self.sample(SampleCounts { calls: LAUNCHES, added }, |chain| {
            turns().try_for_each(|buffer| {
                let words = chain.words[*buffer].view_mut();
                chain.stream.launch_graph(graph, Uses::new().write(words))
            })
        })
    }
}

/// The figures of a sample. The host's time is the time to launch a graph once, or to make all
/// launches of a chain.
fn values(device: f64, host: f64) -> Vec<Value> {
    let ns = |what: &str, value| Value { what: what.to_owned(), unit: "ns".to_owned(), value };
    vec![ns("device, each kernel", device), ns("host, all calls", host)]
}

/// The figures of a chain of bare driver calls. The chain runs the same kernel as the chain of the
/// library. `cost.call` is the time of one call, and there are `calls` calls.
fn of_bare(cost: ChainCost, calls: u32) -> Vec<Value> {
    values(cost.kernel, cost.call * f64::from(calls))
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `Cancelled`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let device = setting.device;
    let links: &[ChainLink] = match setting.has_dependents() {
        true => &[ChainLink::Plain, ChainLink::WaitThenTrigger, ChainLink::TriggerThenWait],
        false => &[ChainLink::Plain],
    };
    steps.expect((definition.lengths.len() * links.len()) as u64 + 5);
    let mut results = Results::of_device(device);
    results.note("verified", "the words of every sample, and the words of the peers");
    let lab = match device.info().compute.0 {
        0 => None,
        _ => Some(Lab::new(device.id().0)?),
    };
    for &length in &definition.lengths {
        for &link in links {
            steps.begin(&format!("{length} kernels{}", kind(link)));
            let case = ChainCase { link, length, samples: definition.samples };
            chains(setting, case, lab.as_ref(), &mut results)?;
        }
    }
    steps.begin("a pipeline of short kernels");
    pipelines(setting, definition.samples, &mut results)?;
    steps.begin("kernels with clusters");
    clusters(setting, definition.clusters, definition.samples, &mut results)?;
    steps.begin("changes of a graph");
    changes(setting, (definition.changes, definition.samples), lab.as_ref(), &mut results)?;
    steps.begin("chains over memory");
    decode::decode(setting, &definition.decode, definition.samples, &mut results)?;
    steps.begin("peers");
    peer::figures(&definition.peers, definition.samples, &[], &mut results)?;
    Ok(results)
}

/// The words for a kind of chain in the names of results.
fn kind(link: ChainLink) -> &'static str {
    match link {
        ChainLink::Empty | ChainLink::Plain => "",
        ChainLink::WaitThenTrigger => ", dependent with a late trigger",
        ChainLink::TriggerThenWait => ", dependent with an early trigger",
    }
}

/// Measures all ways to run the chains of a case. The ways take turns, sample by sample.
fn chains(
    setting: &Setting<'_>,
    case: ChainCase,
    lab: Option<&Lab>,
    results: &mut Results,
) -> Result<()> {
    let (device, ChainCase { link, length, samples }) = (setting.device, case);
    let is_dependent = link != ChainLink::Plain;
    let bare =
        lab.map(|lab| Chains::new(lab, device.info().multiprocessors, is_dependent)).transpose()?;
    let chain = || Chain::new(device, link, length);
    let (mut one, mut same, mut other) = (chain()?, chain()?, chain()?);
    let (mut whole, mut arrived) = (chain()?, device.stream()?.alloc_zeroed::<u32>(1)?);
    let (mut graph, mut changed) = (same.graph(device)?, other.graph(device)?);
    let mut sides = vec![
        Side::new("launches", || one.launches()),
        Side::new("graph", || same.replay(&mut graph, &[0])),
    ];
    if !is_dependent {
        sides.push(Side::new("graph with other memory", || other.replay(&mut changed, &[1, 0])));
        sides.push(Side::new("persistent kernel", || whole.persistent(&mut arrived)));
    }
    if let Some(bare) = &bare {
        sides
            .push(Side::new("bare launches", || Ok(of_bare(bare.streamed(link, length)?, length))));
        sides.push(Side::new("bare graph", || {
            let costs = bare.graphed(link, length, 1)?;
            let cost = costs.first().copied();
            let missing = || Error::new(ErrorKind::Driver, "bench chains", "no sample");
            Ok(of_bare(cost.ok_or_else(missing)?, 1))
        }));
    }
    warm_up(&mut sides, &setting.cancel)?;
    for number in 0..samples {
        round(&mut sides, number, &setting.cancel)?;
    }
    for side in &sides {
        let peer = if side.name == "launches" { "bare launches" } else { "bare graph" };
        let bound = sides.iter().find(|other| other.name == peer && side.name != peer);
        for figure in &side.figures {
            let what = format!("{length} kernels{}, {}: {}", kind(link), side.name, figure.what);
            let bound = bound.map(|bound| bound.median(&figure.what));
            results.push(what, &figure.unit, figure.samples.clone(), bound);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn each_way_has_its_time_and_right_words() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition = Definition {
            lengths: vec![5],
            samples: 3,
            changes: 20,
            decode: decode::Definition { sizes_kib: vec![1], kernels: 5, preambles: vec![0, 3] },
            clusters: 9,
            peers: Vec::new(),
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for way in ["launches", "graph", "graph with other memory", "persistent kernel"] {
            for figure in ["device, each kernel", "host, all calls"] {
                assert!(printed.contains(&format!("5 kernels, {way}: {figure}")), "{printed}");
            }
        }
        assert!(printed.contains("5 kernels, dependent with a late trigger, graph: "), "{printed}");
        assert!(printed.contains("short kernels, automatic replay: a run"), "{printed}");
        assert!(printed.contains("20 kernels, a new graph: host"), "{printed}");
        assert!(printed.contains("clusters, in two streams: both"), "{printed}");
        let early = "5 kernels of 1 KiB, 3 rounds before the wait, dependent with an early trigger";
        assert!(printed.contains(&format!("{early}: each kernel")), "{printed}");
        assert_no_finding(&device, 20);
        Ok(())
    }

    #[test]
    fn a_chain_that_lacks_a_kernel_is_an_error() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let mut chain = Chain::new(&device, ChainLink::Plain, 4)?;
        let error = chain
            .sample(SampleCounts { calls: 1, added: [4, 0] }, |_| Ok(()))
            .expect_err("no kernel ran");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        Ok(())
    }
}
