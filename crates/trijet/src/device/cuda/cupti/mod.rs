//! The recording of a whole process, also one of another program, by CUPTI's activity records.
//!
//! The CUDA driver loads the library named by `CUDA_INJECTION64_PATH` in its own initialisation and
//! calls `InitializeInjection`, which is [`record_this_process`]. From then on CUPTI asks for empty
//! buffers and returns full ones, usually on a thread of its own. Their records are written to a
//! file of the process in the folder that the environment names.
//!
//! The end of a recording depends on the process:
//!
//! - It returns from `main` or calls `exit`: an exit handler makes CUPTI return every buffer, and
//!   writes the end of the file. The handler is registered in the driver's initialisation, so it
//!   runs before the handlers of libraries that were loaded earlier.
//! - It is killed, aborts or calls `_exit`: the records of buffers that were not full are lost, and
//!   the file has no end, which its reader reports.
//! - It forks: the child has no CUDA and no thread of CUPTI. It writes nothing.
//! - It starts programs: each program that uses CUDA is recorded in a file of its own.
//! - It profiles itself with CUPTI's activity records, as PyTorch's profiler does: CUPTI has one
//!   set of callbacks, and the last one that is registered gets the records.
//!
//! A recorded program never fails because it is recorded: every refusal becomes a warning in the
//! file.

mod api;
mod buffers;
mod layout;
mod own;
mod record;
mod sink;
mod tagged;

pub use record::record_this_process;

use crate::base::panic::caught;

/// Runs `body`, and catches its panic, because the caller is not Rust code.
fn guarded(body: impl FnOnce()) {
    // After a panic records are missing and the file has no end, which its reader reports.
    drop(caught(body));
}
