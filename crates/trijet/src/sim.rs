//! The configuration of host devices: executors, orders, faults, and the cost model.
//!
//! A host device obeys the laws of streams (docs/semantics.md). It runs on CPU threads or on a
//! simulated clock. [`Device::host`](crate::Device::host) opens a host device.
#![forbid(unsafe_code)]

pub use crate::device::{CostModel, Executor, Fault, FaultKind, HostConfig, Order, Verb};
