//! The cost model: the durations of operations on the GPU that the virtual executor simulates.
//!
//! The numbers are medians, measured on an NVIDIA H200 with PCIe 5 x16. Every output that contains
//! times of the model states that they are modelled.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::device::twin::Cost;

/// The cost model of a GPU. Rates are in bytes per second or operations per second, fixed costs in
/// nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// The rate of the link in one direction while the other direction is idle, in bytes per
    /// second.
    pub link_rate: f64,
    /// The rate of each direction of the link while both directions are busy, in bytes per second.
    pub duplex_rate: f64,
    /// The rate at which a kernel reads host memory while it writes the same number of bytes, in
    /// bytes per second.
    pub kernel_link_rate: f64,
    /// The part of the duration of a copy that does not depend on the size of the copy.
    pub copy_latency: Nanos,
    /// The rate of device memory in bytes per second. Bytes that are read and bytes that are
    /// written both count.
    pub memory_rate: f64,
    /// The number of simple operations per second of all multiprocessors together.
    pub op_rate: f64,
    /// The duration of a kernel without work.
    pub kernel_latency: Nanos,
    /// The duration of a host function.
    pub host_fn: Nanos,
    /// The time of the host in one enqueue call.
    pub enqueue: Nanos,
    /// The time of the host in one event call.
    pub event_call: Nanos,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            link_rate: 55.5e9,
            duplex_rate: 50.8e9,
            kernel_link_rate: 42e9,
            copy_latency: Nanos(2_800),
            memory_rate: 4.27e12,
            op_rate: 14.0e12,
            kernel_latency: Nanos(2_400),
            host_fn: Nanos(1_800),
            enqueue: Nanos(1_000),
            event_call: Nanos(120),
        }
    }
}

impl CostModel {
    /// The duration of a kernel that has this cost.
    #[must_use]
    pub fn kernel(&self, cost: Cost) -> Nanos {
        let memory = cost.bytes as f64 / self.memory_rate;
        let ops = cost.ops as f64 / self.op_rate;
        Nanos(self.kernel_latency.0 + Nanos::from_seconds(memory.max(ops)).0)
    }

    /// The duration of a kernel that reads up to `bytes` bytes of host memory, and writes up to
    /// `bytes` bytes of host memory. The duration includes the latency of a kernel.
    #[must_use]
    pub fn kernel_link(&self, bytes: u64) -> Nanos {
        Nanos(self.kernel_latency.0 + Nanos::from_seconds(bytes as f64 / self.kernel_link_rate).0)
    }

    /// The time to move `bytes` over the link, without the latency of a copy.
    #[must_use]
    pub fn link(&self, bytes: u64, other_direction_busy: bool) -> Nanos {
        let rate = if other_direction_busy { self.duplex_rate } else { self.link_rate };
        Nanos::from_seconds(bytes as f64 / rate)
    }

    /// The time to copy or set `bytes` within the device, with the latency of a kernel.
    #[must_use]
    pub fn on_device(&self, bytes: u64) -> Nanos {
        Nanos(self.kernel_latency.0 + Nanos::from_seconds(bytes as f64 / self.memory_rate).0)
    }
}
