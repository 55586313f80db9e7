//! The binding to CUDA: symbol tables and the driver contract on top of them. The only foreign
//! function calls of the crate are in this folder.
#![deny(clippy::wildcard_enum_match_arm)]

mod allocs;
mod api;
mod arguments;
mod captures;
mod conditions;
mod context;
mod copies;
mod cupti;
mod devices;
mod driver;
mod error;
mod events;
mod graph;
mod graphs;
mod interop;
mod library;
mod locked;
mod mapped;
mod modules;
mod nccl;
#[cfg(feature = "comm")]
mod nccl_group;
mod nvrtc;
mod nvtx;
mod owned;
mod peers;
mod pools;
mod ranges;
mod relaxed;
mod streams;

use crate::base::error::Result;
pub(in crate::device) use context::CudaDriver;
pub use library::Library;
use library::open;
#[cfg(feature = "comm")]
pub(crate) use nccl_group::{Call as NcclCall, NcclGroup, NcclVerb};
pub(crate) use nvrtc::compile;
pub(crate) use nvtx::named_range;

/// The symbols that a library of this machine lacks.
pub(in crate::device) fn missing_symbols(library: Library) -> Result<Vec<&'static str>> {
    match library {
        Library::Driver => api::open_driver().map(|api| api.missing()),
        Library::Nvrtc => nvrtc::missing(),
        Library::Nccl => nccl::missing(),
        Library::Cupti => open(library).map(|_| Vec::new()),
    }
}
