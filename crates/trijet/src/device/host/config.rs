//! The configuration of host devices.
#![forbid(unsafe_code)]

use super::cost::CostModel;
use super::fault::Fault;
use super::order::Order;
use crate::base::units::Bytes;

/// How the host device runs operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executor {
    /// Real work on CPU threads, as fast as this machine can.
    Threads,
    /// A simulated GPU: real bytes, an order policy, and with `Order::Greedy` and `Order::Seeded`
    /// modelled time. Nothing happens beside the calls of the host.
    Virtual(Order),
}

/// What the host devices of a driver are like.
#[derive(Debug, Clone, PartialEq)]
pub struct HostConfig {
    /// How operations run.
    pub executor: Executor,
    /// The number of devices.
    pub devices: u32,
    /// The memory of each device. Bytes exist only when allocated.
    pub memory: Bytes,
    /// The times of the virtual executor.
    pub cost: CostModel,
    /// A kernel of this name never ends: a hung device, for testing that waits report it.
    pub never_ends: Option<String>,
    /// Faults to inject, for testing that they are reported and nothing hangs or leaks.
    pub faults: Vec<Fault>,
}

impl Default for HostConfig {
    /// One device on threads with 16 GiB, as much as a common GPU has.
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
