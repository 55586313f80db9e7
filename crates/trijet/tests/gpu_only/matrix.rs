//! The matrix of contexts on a GPU. These contexts are left to host devices:
//!
//! - the child of a fork: CUDA does not support it, and a call that is wrongly let through may corrupt the parent;
//! - the loss of a device: it costs the process its context, so each cell would need a process of its own;
//! - destructors of thread-local storage: the driver has storage of its own, whose end the library does not see.

#[path = "../matrix/mod.rs"]
mod cells;

use cells::Context;

#[test]
fn every_verb_has_the_answer_of_the_laws_in_every_context() {
    let _alone = crate::alone();
    let contexts = [
        Context::Plain,
        Context::HostFn,
        Context::Task,
        Context::HostTask,
        Context::Region,
        Context::Recording,
        Context::BesideRecording,
        Context::BesideCapture,
        Context::Captured,
        Context::Unwinding,
    ];
    cells::demand("gpu_only::matrix::cells_of_a_context", &contexts);
}

/// What a process of the test above runs.
#[test]
#[ignore = "run in processes of their own by every_verb_has_the_answer_of_the_laws_in_every_context"]
fn cells_of_a_context() {
    cells::run_cells(cells::Open::Cuda);
}
