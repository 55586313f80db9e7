//! A chain of kernels, each after the one before: launched one by one, as a graph, and as dependent
//! launches. Every link counts up in a word per block, so the counts show that all of them ran, one
//! after the other.

use super::lab::Lab;
use super::table::{Attribute, Handle, ask};
use std::ptr::null_mut;
use trijet::{Error, ErrorKind, Result};

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, switched on.
const DEPENDENT: Attribute = Attribute { id: 6, pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
const THREAD_LOCAL: i32 = 1;

/// Launches of a graph in a row.
const LAUNCHES: u32 = 4;

const PTX: &str = include_str!("dependent.ptx");

/// What the links are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// One block that does nothing.
    Empty,
    /// A block per multiprocessor; each link begins when the one before has ended.
    Plain,
    /// Dependent launches that wait for the one before, then let the next one begin.
    WaitThenTrigger,
    /// Dependent launches that let the next one begin, then wait for the one before.
    TriggerThenWait,
}

/// What a chain costs, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainCost {
    /// Of the device, per kernel.
    pub(crate) kernel: f64,
    /// Of the host, per call: of a launch, or of the launch of the whole graph.
    pub(crate) call: f64,
}

/// A GPU with the kernels of the chains.
#[derive(Debug)]
pub(crate) struct Chains<'a> {
    lab: &'a Lab,
    blocks: u32,
    /// Null where launches cannot be dependent.
    wait_then_trigger: Handle,
    trigger_then_wait: Handle,
}

impl<'a> Chains<'a> {
    /// `blocks` is the number of multiprocessors. `dependent` loads the kernels that only GPUs of
    /// compute capability 9.0 can run; without it their links are refused.
    ///
    /// # Errors
    /// What the driver reports.
    pub(crate) fn new(lab: &'a Lab, blocks: u32, dependent: bool) -> Result<Self> {
        lab.enter()?;
        let (mut wait_then_trigger, mut trigger_then_wait) = (null_mut(), null_mut());
        if dependent {
            let module = lab.module(PTX)?;
            wait_then_trigger = lab.function(module, "wait_then_trigger")?;
            trigger_then_wait = lab.function(module, "trigger_then_wait")?;
        }
        Ok(Self { lab, blocks, wait_then_trigger, trigger_then_wait })
    }

    fn submit(&self, link: Link, kernels: u32) -> Result<()> {
        let (function, blocks, mut attributes) = match link {
            Link::Empty => (self.lab.pass, 1, Vec::new()),
            Link::Plain => (self.lab.tick, self.blocks, Vec::new()),
            Link::WaitThenTrigger => (self.wait_then_trigger, self.blocks, vec![DEPENDENT]),
            Link::TriggerThenWait => (self.trigger_then_wait, self.blocks, vec![DEPENDENT]),
        };
        if function.is_null() {
            return Err(Error::new(ErrorKind::Unsupported, "chain", "its kernel is not loaded"));
        }
        for _ in 0..kernels {
            self.lab.launch(function, blocks, self.lab.stream, &mut attributes)?;
        }
        Ok(())
    }

    /// Every block counted `kernels` links.
    fn verify(&self, link: Link, kernels: u32) -> Result<()> {
        let expected = if link == Link::Empty { 0 } else { kernels };
        let words = self.lab.words(usize::try_from(self.blocks).unwrap_or(usize::MAX))?;
        if words.iter().all(|word| *word == expected) {
            return Ok(());
        }
        let cause = format!("a chain of {kernels} kernels counted {words:?}");
        Err(Error::new(ErrorKind::InvalidValue, "chain", cause))
    }

    /// Launches the kernels one by one.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong count; what the driver reports.
    pub(crate) fn streamed(&self, link: Link, kernels: u32) -> Result<ChainCost> {
        self.lab.clear()?;
        let mut host = 0.0;
        let device = self.lab.device_ns(|| {
            let start = std::time::Instant::now();
            self.submit(link, kernels)?;
            host = start.elapsed().as_secs_f64() * 1e9;
            Ok(())
        })?;
        self.verify(link, kernels)?;
        let per = f64::from(kernels);
        Ok(ChainCost { kernel: device / per, call: host / per })
    }

    fn capture(&self, link: Link, kernels: u32) -> Result<Handle> {
        let (table, stream) = (&self.lab.table, self.lab.stream);
        ask!(table, capture_begin(stream, THREAD_LOCAL), "an own stream with nothing pending")?;
        let submitted = self.submit(link, kernels);
        let mut graph = null_mut();
        ask!(table, capture_end(stream, &raw mut graph), "the capture that was begun above")?;
        submitted.map(|()| graph)
    }

    /// Makes the chain a graph and takes `samples` after a warm-up, each of a few launches.
    ///
    /// # Errors
    /// `InvalidValue` for a wrong count; what the driver reports.
    pub(crate) fn graphed(&self, link: Link, kernels: u32, samples: u32) -> Result<Vec<ChainCost>> {
        let (table, stream) = (&self.lab.table, self.lab.stream);
        let graph = self.capture(link, kernels)?;
        let mut exec = null_mut();
        ask!(table, graph_instantiate(&raw mut exec, graph, 0), "a graph that capture gave")?;
        let mut costs = Vec::new();
        for _ in 0..=samples {
            self.lab.clear()?;
            let mut call = 0.0;
            let device = self.lab.device_ns(|| {
                let start = std::time::Instant::now();
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
        ask!(table, graph_destroy(graph), "nothing was made of it but the one above")?;
        costs.remove(0);
        Ok(costs)
    }
}
