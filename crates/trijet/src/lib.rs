//! Trijet: overlapped GPU pipelines.

pub mod base;
pub mod device;
pub mod kernels;
pub mod launch;
pub mod memory;
pub mod pipeline;
pub mod stream;
pub mod trace;

pub use base::error::{Error, ErrorKind, Result};
pub use base::units::{Bytes, Nanos};
pub use device::driver::{DeviceInfo, PoolStats, Readiness};
pub use device::{CostModel, Executor, HostConfig, Order};
pub use memory::{
    AsView, AsViewMut, Buffer, Element, PinnedBuffer, ReadGuard, Scope, View, ViewMut, WriteGuard,
};
pub use stream::{Device, Event, Select, Stream, Ticket, TimedEvent};
