//! The cost model: how long operations take on the GPU that the virtual executor stands for.
//!
//! The numbers are medians measured on an NVIDIA H200 behind PCIe 5 x16. The model gives times,
//! never results, and whatever prints them says that they are the model's.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use crate::device::twin::Cost;

/// Rates in bytes or operations per second, fixed costs in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    /// One direction of the link while the other is idle.
    pub link_rate: f64,
    /// Each direction while both are busy.
    pub duplex_rate: f64,
    /// The part of a copy that does not depend on its size.
    pub copy_latency: Nanos,
    /// Device memory, reads and writes counted together.
    pub memory_rate: f64,
    /// Simple operations of all multiprocessors together.
    pub op_rate: f64,
    /// A kernel without work.
    pub kernel_latency: Nanos,
    /// A host function.
    pub host_fn: Nanos,
    /// Host time of one enqueue call.
    pub enqueue: Nanos,
    /// Host time of one event call.
    pub event_call: Nanos,
}

impl Default for CostModel {
    fn default() -> Self {
        Self {
            link_rate: 55.5e9,
            duplex_rate: 50.8e9,
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
    /// The time of a kernel that does `cost`.
    #[must_use]
    pub fn kernel(&self, cost: Cost) -> Nanos {
        let memory = cost.bytes as f64 / self.memory_rate;
        let ops = cost.ops as f64 / self.op_rate;
        Nanos(self.kernel_latency.0 + Nanos::from_seconds(memory.max(ops)).0)
    }

    /// The time to move `bytes` over the link, without the latency.
    #[must_use]
    pub fn link(&self, bytes: u64, other_direction_busy: bool) -> Nanos {
        let rate = if other_direction_busy { self.duplex_rate } else { self.link_rate };
        Nanos::from_seconds(bytes as f64 / rate)
    }

    /// The time to copy or set `bytes` within the device.
    #[must_use]
    pub fn on_device(&self, bytes: u64) -> Nanos {
        Nanos(self.kernel_latency.0 + Nanos::from_seconds(bytes as f64 / self.memory_rate).0)
    }
}
