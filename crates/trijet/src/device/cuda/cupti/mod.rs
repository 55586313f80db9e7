//! Recording a program that need not be ours, from inside of it, through CUPTI's activity records.
//!
//! The CUDA driver loads the library named by `CUDA_INJECTION64_PATH` in its own initialisation
//! and calls `InitializeInjection`, which is [`record_this_process`]. From then on CUPTI asks for
//! empty buffers and hands full ones back, mostly on a thread of its own; their records go to a
//! file of the process in the folder that the environment names.
//!
//! What a process can do to its recording:
//!
//! - It returns from `main` or calls `exit`: an exit handler has CUPTI hand over everything, and
//!   the file gets its end. The handler was registered in the driver's initialisation, so it runs
//!   before those of whatever was loaded earlier.
//! - It is killed, aborts or calls `_exit`: the records of buffers that were not full are lost,
//!   and the file has no end, which its reader says.
//! - It forks: the child has no CUDA and no thread of CUPTI. It writes nothing and ends nothing.
//! - It starts programs: each that uses CUDA is recorded in a file of its own.
//! - It profiles itself with CUPTI's activity records (PyTorch's profiler does): the interface has
//!   one set of callbacks, so whoever comes last gets the records.
//!
//! The recorded program never fails for being recorded: every refusal becomes words in the file.

mod api;
mod buffers;
mod layout;
mod own;
mod record;
mod sink;
mod tagged;

pub use record::record_this_process;

use crate::base::panic::caught;

/// Runs `body`; a panic ends here, because the caller is no Rust code.
fn guarded(body: impl FnOnce()) {
    // A panic leaves records unwritten, and so the file without its end, which its reader says.
    drop(caught(body));
}
