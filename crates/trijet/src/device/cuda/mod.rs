//! The binding to CUDA: symbol tables and the driver contract on top of them. The only foreign
//! function calls of the crate are in this folder.

mod allocs;
mod api;
mod context;
mod copies;
mod cupti;
mod devices;
mod driver;
mod error;
mod events;
mod interop;
mod modules;
mod nvrtc;
mod peers;
mod pools;
mod streams;

use crate::base::error::Result;
use crate::device::probe::{Library, open};
pub(in crate::device) use context::CudaDriver;
pub use cupti::record_this_process;
pub(crate) use nvrtc::compile;
use std::path::Path;

/// Opens a shared library for the rest of the process.
pub(in crate::device) fn open_library(
    path: &Path,
) -> std::result::Result<libloading::Library, String> {
    // SAFETY: the CUDA libraries' initialisers only set up their own state. A file named by the
    // user's override runs with the user's rights, as LD_PRELOAD would.
    unsafe { libloading::Library::new(path) }.map_err(|error| {
        use std::error::Error;
        // The loader's own words, which name the file, are in the source.
        error.source().map_or_else(|| error.to_string(), ToString::to_string)
    })
}

/// A shared library that this process has opened already, by its bare name.
pub(in crate::device) fn opened_library(name: &Path) -> Option<libloading::Library> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    /// Of `dlfcn.h`: look, and load nothing.
    const RTLD_NOLOAD: std::ffi::c_int = 4;
    // SAFETY: nothing is loaded, so no initialiser runs; the library was opened by the program.
    unsafe { Library::open(Some(name), RTLD_LAZY | RTLD_NOLOAD) }.ok().map(Into::into)
}

/// The symbols that an installed library lacks.
pub(in crate::device) fn missing_symbols(library: Library) -> Result<Vec<&'static str>> {
    match library {
        Library::Driver => api::open_driver().map(|api| api.missing()),
        Library::Nvrtc => nvrtc::missing(),
        Library::Nccl | Library::Cupti => open(library).map(|_| Vec::new()),
    }
}
