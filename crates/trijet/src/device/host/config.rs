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
#[derive(Debug, Clone, PartialEq)]
pub struct HostConfig {
    /// The executor.
    pub executor: Executor,
    /// The number of devices.
    pub devices: u32,
    /// The memory of each device. It is taken from the system when it is allocated.
    pub memory: Bytes,
    /// Whether memory can be mapped into ranges of addresses. Otherwise the library has no heap,
    /// and allocates from a pool of the driver, as with
    /// [`DeviceBuilder::pool`](crate::DeviceBuilder::pool).
    pub ranges: bool,
    /// Whether each device can have access to the memory of the others. Many GPUs without NVLink
    /// have no such access.
    pub links: bool,
    /// The cost model of the virtual executor.
    pub cost: CostModel,
    /// The number of hardware queues of each device, for the virtual executor with modelled time.
    /// If there are more streams, they share the queues: an operation that waits for earlier work
    /// of its stream may hold back other streams of its queue (law A47). If the number is `None`,
    /// no stream is held back in `Order::Greedy`. In `Order::Seeded`, half of the seeds then assign
    /// the streams to 8 queues, the default of CUDA.
    pub hardware_queues: Option<NonZeroU32>,
    /// Kernels with this name never end. For tests that a wait for a hung device returns an error.
    pub never_ends: Option<String>,
    /// Faults to inject. For tests that errors are reported and nothing hangs or leaks.
    pub faults: Vec<Fault>,
}

impl Default for HostConfig {
    /// One device on CPU threads with 16 GiB, the memory of a common GPU.
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
