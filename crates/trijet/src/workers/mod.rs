//! Tasks that the device schedules itself: persistent workers take tasks from queues, make new
//! tasks, and steal tasks from each other.
//!
//! One launch fills the device with blocks that stay until all tasks have run. A worker is a warp
//! or a block of this launch. For regular work, kernels in a stream are the better choice. Workers
//! are for tasks whose lengths differ, for tasks that make other tasks, and for tasks that wait for
//! each other in a graph. A kernel for each of these tasks would cost more than the task.
//!
//! A [`Program`] has a body for each kind of its tasks, in CUDA C++ and in Rust. The CUDA C++ is
//! compiled at run time or shipped as PTX; the Rust is for the host device.
//! [`Stream::run_workers`](crate::Stream::run_workers) runs a program with a [`Policy`] and the
//! initial [`Work`]: a range of payloads, a list of tasks, or a [`TaskGraph`].
//!
//! ```
//! use trijet::kernels::Update;
//! use trijet::workers::{Body, Kinds, Program, ProgramSpec, RunOptions, Work, Worker};
//! use trijet::{Device, Select};
//!
//! const BODIES: &str = "
//! // Adds its payload, and makes a task with half of it.
//! DEV void halve(Worker& w, const Args& args, u64 payload) {
//!   if (lane_id() == 0) atomicAdd(args.sum, payload);
//!   must_spawn(w, lane_id() == 0 && payload > 1, HALVE, payload / 2);
//! }";
//! struct Halves;
//! impl Kinds for Halves {
//!     const KINDS: &'static [(&'static str, Body)] = &[("halve", |w, payload| {
//!         w.shared::<u64>(0).update(0, |sum| sum + payload);
//!         if payload > 1 {
//!             w.must_spawn(0, payload / 2);
//!         }
//!     })];
//! }
//! static HALVES: Program<Halves, (Update<u64>,)> = {
//!     let spec = ProgramSpec::new("halves", BODIES, "u64* sum, u64 length")
//!         .check(|args| match args.spans()[0].elements {
//!             0 => Err("no sum".to_owned()),
//!             _ => Ok(()),
//!         });
//!     // SAFETY: the body adds to the first element only, atomically, and the check demands one.
//!     unsafe { Program::declare(spec) }
//! };
//!
//! let device = Device::open(Select::Host(0))?;
//! let s = device.stream()?;
//! let mut sum = s.alloc_zeroed::<u64>(1)?;
//! let work = Work::Range { kind: 0, count: 5 };
//! let report = s.run_workers(&HALVES, work, &RunOptions::default(), (&mut sum,))?.wait()?;
//! assert_eq!(s.download(&sum)?, [0 + 1 + (2 + 1) + (3 + 1) + (4 + 2 + 1)]);
//! assert_eq!((report.ran, report.spawned), (9, 4));
//! # Ok::<(), trijet::Error>(())
//! ```

mod chooser;
mod end;
mod feed;
mod graph;
mod options;
mod program;
pub mod queens;
mod run;
mod run_report;
mod setup;
mod task;
mod twin;

pub use chooser::{Chooser, Chosen};
pub use feed::Feed;
#[cfg(feature = "task")]
pub(crate) use graph::FIELDS;
pub use graph::{LoadedGraph, TaskGraph, TaskNode};
pub use options::{Policy, RunOptions};
pub use program::{Program, ProgramSpec};
pub use run::{Run, Work};
pub use run_report::{RunReport, TaskSpan, WorkerReport};
pub use task::WorkerTask;
pub use twin::{Body, Kinds, Shared, Worker};
