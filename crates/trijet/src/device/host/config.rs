//! The configuration of host devices.
#![forbid(unsafe_code)]

use super::cost::CostModel;
use super::fault::Fault;
use super::order::Order;
use crate::base::units::Bytes;

/// The executor of a host device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// Operations run on CPU threads, as fast as possible.
    Threads,
    /// A simulated GPU: the bytes are real, and an order policy makes every choice. With
    /// `Order::Greedy` and `Order::Seeded` time is modelled. Operations run inside of the calls of
    /// the host only.
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
    /// The cost model of the virtual executor.
    pub cost: CostModel,
    /// Kernels of this name never end. For tests that a wait for a hung device returns an error.
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
            cost: CostModel::default(),
            never_ends: None,
            faults: Vec::new(),
        }
    }
}
