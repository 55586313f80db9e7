//! The configuration of host devices.
#![forbid(unsafe_code)]

use super::cost::CostModel;
use super::fault::Fault;
use super::order::Order;
use crate::base::units::Bytes;
use std::num::NonZeroU32;

/// The executor of a host device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// Operations run on CPU threads, as fast as possible.
    Threads,
    /// A simulated GPU: the bytes are real, and an order policy makes every choice. With
    /// `Order::Greedy` and `Order::Seeded` time is modelled. Operations run only inside calls of
    /// the host.
    Virtual(Order),
}

/// The configuration of the host devices of a driver.
///
/// ```
/// use trijet::sim::{Executor, HostConfig, Order};
/// use trijet::{Bytes, Device};
/// let executor = Executor::Virtual(Order::Greedy);
/// let config = HostConfig::new().executor(executor).devices(2).memory(Bytes(1 << 20));
/// assert_eq!(Device::host(config)?[1].memory()?.1, Bytes(1 << 20));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "no device is opened yet"]
pub struct HostConfig {
    pub(crate) executor: Executor,
    pub(crate) devices: u32,
    pub(crate) memory: Bytes,
    pub(crate) ranges: bool,
    pub(crate) links: bool,
    pub(crate) cost: CostModel,
    pub(crate) hardware_queues: Option<NonZeroU32>,
    pub(crate) never_ends: Option<String>,
    pub(crate) faults: Vec<Fault>,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            executor: Executor::Threads,
            devices: 1,
            memory: Bytes(16 << 30),
            ranges: true,
            links: true,
            cost: CostModel::default(),
            hardware_queues: None,
            never_ends: None,
            faults: Vec::new(),
        }
    }
}

impl HostConfig {
    /// One device on CPU threads with 16 GiB, the memory of a common GPU.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the executor.
    pub fn executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// Sets the number of devices.
    pub fn devices(mut self, devices: u32) -> Self {
        self.devices = devices;
        self
    }

    /// Sets the memory of each device. The system provides this memory only when the program
    /// allocates it.
    pub fn memory(mut self, memory: Bytes) -> Self {
        self.memory = memory;
        self
    }

    /// Makes devices that cannot map memory into ranges of addresses. So the library has no heap,
    /// and allocates from a pool of the driver, as with
    /// [`DeviceBuilder::pool`](crate::DeviceBuilder::pool).
    pub fn without_ranges(mut self) -> Self {
        self.ranges = false;
        self
    }

    /// Makes devices that have no access to each other's memory. Many GPUs without NVLink have no
    /// such access.
    pub fn without_links(mut self) -> Self {
        self.links = false;
        self
    }

    /// Sets the cost model of the virtual executor.
    pub fn cost(mut self, cost: CostModel) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the number of hardware queues of each device, for the virtual executor with modelled
    /// time. If there are more streams than queues, the streams share the queues. Then an operation
    /// that waits for earlier work of its stream may hold back other streams of its queue (law
    /// [A47](crate::laws#a47)). Without a number, `Order::Greedy` has no queues, and
    /// `Order::Seeded` has 8, the default of CUDA. In `Order::Seeded`, the streams share queues
    /// only for half of the seeds.
    pub fn hardware_queues(mut self, queues: impl Into<Option<NonZeroU32>>) -> Self {
        self.hardware_queues = queues.into();
        self
    }

    /// Makes kernels with this name never end. Tests use this to check that a wait for a hung
    /// device returns an error.
    pub fn never_ends(mut self, kernel: impl Into<String>) -> Self {
        self.never_ends = Some(kernel.into());
        self
    }

    /// Sets the faults to inject. Tests inject faults to check that errors are reported, and that
    /// nothing hangs or leaks.
    pub fn faults(mut self, faults: Vec<Fault>) -> Self {
        self.faults = faults;
        self
    }
}
