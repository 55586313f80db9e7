//! Devices: the driver contract and its two implementations, CUDA and the host device.
//!
//! [`driver::Driver`] is the contract, at the level of the CUDA driver API. `cuda` is a thin
//! binding that opens the driver library at run time; `host` executes the same rules in software.
//! The layers above never ask which of the two they use.

mod arg_type;
pub(crate) mod args;
pub(crate) mod asked;
pub(crate) mod code;
pub(crate) mod conform;
pub(crate) mod cuda;
pub(crate) mod culprit;
pub(crate) mod driver;
pub(crate) mod fork;
mod graph_table;
pub(crate) mod host;
pub(crate) mod image;
pub(crate) mod launch_config;
pub(crate) mod loaded;
pub(crate) mod memory;
pub(crate) mod probe;
pub(crate) mod ptx;
pub(crate) mod region;
pub(crate) mod thread_end;
pub(crate) mod tiling;
pub(crate) mod twin;

pub use host::cost::CostModel;
pub use host::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
pub use launch_config::{LaunchConfig, Occupancy};

use crate::base::error::Result;
use driver::Driver;
use std::sync::{Arc, Mutex};

/// Opens CUDA.
///
/// # Errors
/// `Unsupported` without a usable driver; `NoDevice` without a GPU; `Forked` in a child of `fork`.
pub(crate) fn open_cuda() -> Result<Arc<dyn Driver>> {
    fork::watch()?;
    Ok(Arc::new(cuda::CudaDriver::open()?))
}

/// Opens host devices.
///
/// # Errors
/// `Unsupported` when the system does not start the threads; `Forked` in a child of `fork`.
pub(crate) fn open_host(config: HostConfig) -> Result<Arc<dyn Driver>> {
    fork::watch()?;
    Ok(Arc::new(host::HostDriver::open(config)?))
}

/// Opens host devices for one run of an exploration: `search` makes every choice.
///
/// # Errors
/// `Forked` in a child of `fork`.
pub(crate) fn open_explored(
    config: HostConfig,
    search: &Arc<Mutex<Search>>,
) -> Result<Arc<dyn Driver>> {
    fork::watch()?;
    Ok(Arc::new(host::HostDriver::with_search(config, Some(Arc::clone(search)))?))
}

pub(crate) use cuda::{compile, named_range};
pub(crate) use host::Search;
