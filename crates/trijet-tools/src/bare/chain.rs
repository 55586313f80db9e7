//! Chains of kernels, in which each kernel runs after its predecessor. A chain is launched one
//! kernel after another, as a graph, or as dependent launches.
//!
//! Each block of a kernel adds one to the word with the number of the block. At the end, the words
//! show whether all kernels of the chain ran one after another.

use super::lab::Lab;
use super::table::{Attribute, Handle, UpdateResult, ask};
use std::ptr::null_mut;
use std::time::Instant;
use trijet::{Error, ErrorKind, Result};

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION` with the value 1.
const DEPENDENT: Attribute = Attribute { id: 6, pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
const THREAD_LOCAL: i32 = 1;

/// The number of launches of the graph in one sample.
const LAUNCHES: u32 = 4;

pub(super) const DEPENDENT_PTX: &str = include_str!("dependent.ptx");

/// The kernel of a chain, and the dependence between its launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainLink {
    /// A kernel of one block that does nothing.
    Empty,
    /// A kernel with a block per multiprocessor. Each kernel starts when its predecessor has ended.
    Plain,
    /// Dependent launches. Each kernel waits for its predecessor, and then lets the next kernel
    /// start.
    WaitThenTrigger,
    /// Dependent launches. Each kernel lets the next kernel start, and then waits for its
    /// predecessor.
    TriggerThenWait,
}

/// The cost of a chain in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct ChainCost {
    /// The device time per kernel.
    pub kernel: f64,
    /// The host time per call. A call launches one kernel or the whole graph.
    pub call: f64,
}

/// The kernels of the chains, loaded on a GPU.
#[derive(Debug)]
pub struct Chains<'a> {
    lab: &'a Lab,
    blocks: u32,
    /// The kernels for dependent launches. Null if they are not loaded.
    wait_then_trigger: Handle,
    trigger_then_wait: Handle,
}

impl<'a> Chains<'a> {
    /// Loads the kernels. `blocks` is the number of multiprocessors. If `dependent` is true, the
    /// kernels for dependent launches are loaded as well. They need compute capability 9.0.
    /// Otherwise a chain of these kernels returns an `Unsupported` error.
    ///
    /// # Errors
    /// Every error of the driver.
    pub fn new(lab: &'a Lab, blocks: u32, dependent: bool) -> Result<Self> {
        lab.enter()?;
        let (mut wait_then_trigger, mut trigger_then_wait) = (null_mut(), null_mut());
        if dependent {
            let module = lab.module(DEPENDENT_PTX)?;
            wait_then_trigger = lab.function(module, "wait_then_trigger")?;
            trigger_then_wait = lab.function(module, "trigger_then_wait")?;
        }
        Ok(Self { lab, blocks, wait_then_trigger, trigger_then_wait })
    }

    fn submit(&self, link: ChainLink, kernels: u32) -> Result<()> {
        self.submit_blocks(link, kernels, self.blocks)
    }

    fn submit_blocks(&self, link: ChainLink, kernels: u32, blocks: u32) -> Result<()> {
        let (function, blocks, mut attributes) = match link {
            ChainLink::Empty => (self.lab.pass, 1, Vec::new()),
            ChainLink::Plain => (self.lab.tick, blocks, Vec::new()),
            ChainLink::WaitThenTrigger => (self.wait_then_trigger, blocks, vec![DEPENDENT]),
            ChainLink::TriggerThenWait => (self.trigger_then_wait, blocks, vec![DEPENDENT]),
        };
        if function.is_null() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "chain",
                "the kernel of this chain is not loaded",
            ));
        }
        for _ in 0..kernels {
            self.lab.launch(function, blocks, self.lab.stream, &mut attributes)?;
        }
        Ok(())
    }

    /// Checks that each of the words has counted `kernels` kernels. An empty kernel counts nothing.
    fn verify(&self, link: ChainLink, kernels: u32) -> Result<()> {
        let expected = if link == ChainLink::Empty { 0 } else { kernels };
        let words = self.lab.words(usize::try_from(self.blocks).unwrap_or(usize::MAX))?;
        if words.iter().all(|word| *word == expected) {
            return Ok(());
        }
        let cause = format!("the blocks counted {words:?}, not {expected} each");
        Err(Error::new(ErrorKind::InvalidValue, "chain", cause))
    }

    /// Launches a chain of `kernels` kernels one after another, and measures the chain.
    ///
    /// # Errors
    /// `InvalidValue` if the words have a wrong count. Every error of the driver.
    pub fn streamed(&self, link: ChainLink, kernels: u32) -> Result<ChainCost> {
        self.lab.clear()?;
        let mut host = 0.0;
        let device = self.lab.device_ns(|| {
            let start = Instant::now();
            self.submit(link, kernels)?;
            host = start.elapsed().as_secs_f64() * 1e9;
            Ok(())
        })?;
        self.verify(link, kernels)?;
        let per = f64::from(kernels);
        Ok(ChainCost { kernel: device / per, call: host / per })
    }

    fn capture(&self, link: ChainLink, kernels: u32, blocks: u32) -> Result<Handle> {
        let (table, stream) = (&self.lab.table, self.lab.stream);
        ask!(table, capture_begin(stream, THREAD_LOCAL), "an own stream with nothing pending")?;
        let submitted = self.submit_blocks(link, kernels, blocks);
        let mut graph = null_mut();
        ask!(table, capture_end(stream, &raw mut graph), "the capture was begun above")?;
        submitted.map(|()| graph)
    }

    /// Captures the chain as a graph, launches the graph for a warm-up, and takes `samples`
    /// samples. Each sample consists of a few launches of the graph.
    ///
    /// # Errors
    /// `InvalidValue` if the words have a wrong count. Every error of the driver.
    pub fn graphed(&self, link: ChainLink, kernels: u32, samples: u32) -> Result<Vec<ChainCost>> {
        let (table, stream) = (&self.lab.table, self.lab.stream);
        let graph = self.capture(link, kernels, self.blocks)?;
        let mut exec = null_mut();
        ask!(table, graph_instantiate(&raw mut exec, graph, 0), "a graph that capture gave")?;
        let mut costs = Vec::new();
        for _ in 0..=samples {
            self.lab.clear()?;
            let mut call = 0.0;
            let device = self.lab.device_ns(|| {
                let start = Instant::now();
                for _ in 0..LAUNCHES {
                    ask!(table, graph_launch(exec, stream), "instantiated above, not destroyed")?;
                }
                call = start.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES);
                Ok(())
            })?;
            let all = kernels * LAUNCHES;
            self.verify(link, all)?;
            costs.push(ChainCost { kernel: device / f64::from(all), call });
        }
        ask!(table, exec_destroy(exec), "its launches are complete")?;
        ask!(table, graph_destroy(graph), "its only exec is destroyed")?;
        costs.remove(0);
        Ok(costs)
    }

    /// Captures a chain `samples` times, and updates an executable graph with each captured graph.
    /// In every second captured graph, the kernels have one block less. Each sample has the host
    /// time of the capture and the host time of the update, in nanoseconds.
    ///
    /// # Errors
    /// `InvalidValue` if the words have a wrong count. Every error of the driver.
    pub fn updated(&self, kernels: u32, samples: usize) -> Result<Vec<[f64; 2]>> {
        let (table, stream) = (&self.lab.table, self.lab.stream);
        let first = self.capture(ChainLink::Plain, kernels, self.blocks)?;
        let mut exec = null_mut();
        ask!(table, graph_instantiate(&raw mut exec, first, 0), "a graph that capture gave")?;
        ask!(table, graph_destroy(first), "its exec does not need it")?;
        let mut costs = Vec::new();
        for number in 0..=samples {
            let blocks = self.blocks - u32::from(number % 2 == 0);
            self.lab.clear()?;
            let start = Instant::now();
            let graph = self.capture(ChainLink::Plain, kernels, blocks)?;
            let captured = start.elapsed();
            let mut result = UpdateResult { result: 0, nodes: [null_mut(); 2] };
            ask!(table, graph_update(exec, graph, &raw mut result), "both are alive and alike")?;
            let all = start.elapsed();
            ask!(table, graph_launch(exec, stream), "instantiated above, not destroyed")?;
            let words = self.lab.words(usize::try_from(self.blocks).unwrap_or(usize::MAX))?;
            let wanted = |(word, count): (u32, &u32)| *count == u32::from(word < blocks) * kernels;
            if !(0..).zip(&words).all(wanted) {
                let cause = format!("{blocks} blocks of an updated graph counted {words:?}");
                return Err(Error::new(ErrorKind::InvalidValue, "chain", cause));
            }
            ask!(table, graph_destroy(graph), "the exec does not need it")?;
            costs.push([captured, all - captured].map(|time| time.as_secs_f64() * 1e9));
        }
        ask!(table, exec_destroy(exec), "its launches are complete")?;
        costs.remove(0);
        Ok(costs)
    }
}
