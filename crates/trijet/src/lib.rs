//! Trijet: overlapped GPU pipelines.
//!
//! Buffers order themselves across streams, pipelines keep upload, compute and download busy at
//! once, and every run says how close it came to its bound. On a machine without a GPU the same
//! program runs under the same ordering rules.
//!
//! ```
//! use trijet::kernels::AXPY;
//! use trijet::{Device, Select};
//!
//! let device = Device::open(Select::Auto)?;
//! let (a, b) = (device.stream()?, device.stream()?);
//! let mut h = device.pinned::<f32>(1000)?;
//! h.write()?.fill(1.0);
//! let (mut x, mut y) = (a.alloc(1000)?, a.alloc(1000)?);
//! a.copy(&h, &mut x)?;
//! a.copy(&h, &mut y)?;
//! b.launch(&AXPY, (2.0f32, &x, &mut y))?; // another stream: the waits are inserted
//! a.copy(&y, &mut h)?;
//! assert!(h.read()?.iter().all(|v| *v == 3.0));
//! # Ok::<(), trijet::Error>(())
//! ```
//!
//! - [`Device`], [`Stream`], [`Event`]: where work goes and in which order.
//! - [`Buffer`], [`PinnedBuffer`]: memory whose use orders itself.
//! - [`launch`], [`kernels`]: kernels, your own and those that come along.
//! - [`pipeline`]: source, stages, sink over chunks, with a report.
//! - [`check`]: whether every conflict of a recorded run is ordered.
//! - [`trace`]: what the records of a run say.
//! - [`explore`]: a program under every order that its streams leave open.

pub mod base;
pub mod check;
pub mod device;
pub mod explore;
pub mod kernels;
pub mod launch;
pub mod log;
pub mod memory;
pub(crate) mod order;
pub mod pipeline;
pub mod stream;
pub mod trace;

pub use base::error::{Error, ErrorKind, Result};
pub use base::units::{Bytes, Nanos};
pub use device::driver::{DeviceInfo, PoolStats, Readiness};
pub use device::{CostModel, Executor, Fault, FaultKind, HostConfig, LaunchConfig, Order, Verb};
pub use launch::{Args, Kernel};
pub use log::{TimesFrom, Trace};
pub use memory::{
    AsView, AsViewMut, Batch, Buffer, Element, PageableBuffer, PinnedBuffer, ReadGuard, ReadReady,
    Scope, View, ViewMut, WriteGuard,
};
pub use stream::{
    Device, Event, PoolChoice, Ready, Select, Signal, Stream, StreamOptions, Ticket, TimedEvent,
};

/// The program of the README, kept honest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
