//! Trijet: overlapped GPU pipelines.
//!
//! Buffers order themselves across streams. Pipelines keep upload, compute and download busy at the
//! same time, and every run reports how close it came to its bound. On a machine without a GPU, the
//! same program runs under the same ordering rules.
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
//! - [`Device`], [`Stream`], [`Event`], [`Signal`]: where work runs and in which order.
//! - [`Buffer`], [`PinnedBuffer`], [`View`]: memory that orders its own uses. The module [`memory`]
//!   has the other types of memory.
//! - [`Kernel`], [`kernels`]: your own kernels, and the kernels of the library.
//! - [`Pipeline`], [`pipeline`]: source, stages and sink over chunks, with a report.
//! - [`graph`]: operations that are recorded once and launched many times.
//! - [`staged`]: items of any sizes through stages that fan out and join again, each on its own
//!   streams.
//! - [`task`]: work that declares the data that it reads and writes. The library chooses its
//!   streams.
//! - [`workers`]: tasks that the device schedules itself, with queues and stealing.
//! - [`check`]: whether every conflict of a traced run is ordered.
//! - [`trace`]: the entries of a run, the figures that follow from them, timelines and files.
//! - [`comm`]: collectives, which combine the data of several devices.
//! - [`ranks`]: processes that work together.
//! - [`training`]: gradients in buckets, and models whose stages are on several devices.
//! - [`explore`]: runs a program in every order that its streams allow.
//! - [`sim`]: host devices, their executors, orders, faults and costs.
//! - [`probe`], [`testing`]: functions for tools and for tests of the library itself.
//!
//! # Features
//! All features are on by default. With `default-features = false`, the library has devices,
//! streams, buffers, kernels, graphs, pipelines and the checker, and compiles in less time.
//!
//! | feature | what it adds |
//! |---|---|
//! | `comm` | [`comm`], [`training`]; needs `ranks` |
//! | `ranks` | [`ranks`] |
//! | `staged` | [`staged`] |
//! | `task` | [`task`]; needs `workers` |
//! | `workers` | [`workers`] |
//!
//! # Laws
//! A number such as "law A18" names a row of [`laws`], which states the law and its tests.
//!
//! # Panics of a program's functions
//! A panic of a source, a stage, a sink, a task, a host function or a twin becomes an error
//! (`ErrorKind::Panicked`). The error has the message of the panic. The thread on which the
//! function ran makes no difference. Other functions run only within the call that gets them, for
//! example the functions of `Device::record` and `Tasks::region`. Such a call passes the panic on
//! to its caller, like `std::thread::scope`. After a panic, the objects of the library stay usable.

#![cfg_attr(
    not(all(feature = "comm", feature = "task")),
    expect(
        dead_code,
        reason = "modules have parts that only the features that are turned off use"
    )
)]

#[cfg(feature = "comm")]
pub mod comm;
mod device;
pub mod explore;
pub mod graph;
mod heap;
pub mod kernels;
mod launch;
mod log;
pub mod memory;
mod order;
pub mod pipeline;
pub mod probe;
#[cfg(feature = "ranks")]
pub mod ranks;
pub mod sim;
#[cfg(feature = "staged")]
pub mod staged;
mod stream;
#[cfg(feature = "task")]
pub mod task;
pub mod testing;
#[cfg(feature = "comm")]
pub mod training;
#[cfg(feature = "workers")]
pub mod workers;

use trijet_ledger::base;
pub use trijet_ledger::{check, laws, trace};

/// The crate `bytemuck`. Its derive macros make types of a program usable as elements of buffers;
/// see [`Element`].
pub use bytemuck;

pub use base::dtype::Dtype;
pub use base::error::{Error, ErrorKind, Result};
pub use base::ledger::SourceOrder;
pub use base::units::{Bytes, Nanos};
pub use device::driver::{Clock, Collective, DeviceInfo, ForeignWork, Readiness};
pub use device::{LaunchConfig, Occupancy};
pub use heap::HeapMode;
pub use launch::{Args, Kernel};
pub use log::Trace;
pub use memory::buffer::{AsView, AsViewMut, Buffer, Element, View, ViewMut};
pub use memory::copy::Batch;
pub use memory::pinned::{PageableBuffer, PinnedBuffer};
pub use memory::scope::Scope;
pub use memory::uses::Uses;
pub use pipeline::describe::builder::Pipeline;
pub use pipeline::describe::cancel::Cancel;
pub use pipeline::describe::sink::Sink;
pub use pipeline::describe::source::Source;
pub use pipeline::report::Report;
pub use stream::{
    Device, DeviceBuilder, Event, HeapStats, MemoryStats, PoolChoice, Ready, Select, Signal,
    Stream, StreamOptions, Ticket, TimedEvent,
};

/// The programs of the README and of pages of the documentation. They run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../../../docs/choose.md")]
#[doc = include_str!("../../../docs/tasks.md")]
#[doc = include_str!("../../../docs/workers.md")]
struct Readme;
