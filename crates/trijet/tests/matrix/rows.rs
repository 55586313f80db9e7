//! The answers that the laws demand.

use super::context::Context;
use trijet::ErrorKind;

/// The answer of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call succeeds and has its effect.
    Does,
    /// The call is refused with an error of this kind and has no effect.
    Is(ErrorKind),
    /// The call succeeds, or is refused with an error of this kind.
    May(ErrorKind),
}

pub(crate) use Answer::{Does, Is, May};

const CALLBACK: Answer = Is(ErrorKind::InCallback);
const CAPTURING: Answer = Is(ErrorKind::Capturing);
const FORKED: Answer = Is(ErrorKind::Forked);
const INVALID: Answer = Is(ErrorKind::InvalidValue);
const LOST: Answer = Is(ErrorKind::ContextLost);
const MAY_BE_LOST: Answer = May(ErrorKind::ContextLost);
const NO_TWIN: Answer = Is(ErrorKind::NoTwin);
const UNSUPPORTED: Answer = Is(ErrorKind::Unsupported);

/// The answers of a verb.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Anywhere else.
    plain: Answer,
    /// In a host function (law A28).
    host_fn: Answer,
    /// In the function of a task, on a stream or on the host.
    task: Answer,
    /// In a recording, with one of its streams (law A33).
    recording: Answer,
    /// In the function of a task of a region, with its stream.
    region: Answer,
    /// While another library captures another stream (law A33).
    beside_capture: Answer,
    /// With a stream that another library captures (law A33).
    captured: Answer,
    /// In the child of a fork.
    fork: Answer,
    /// After the loss of the device (law A40).
    lost: Answer,
    /// It waits for the device. During a capture this is refused and ends the capture (law A33).
    pub(crate) ends_captures: bool,
}

/// It reaches no driver, or only later.
pub(crate) const LOCAL: Row = Row {
    plain: Does,
    host_fn: Does,
    task: Does,
    recording: Does,
    region: Does,
    beside_capture: Does,
    captured: Does,
    fork: Does,
    lost: Does,
    ends_captures: false,
};
/// It waits for other processes, and reaches no driver.
pub(crate) const RANKS: Row = Row { fork: FORKED, ..LOCAL };
/// It joins other processes, which a child of a fork may do on its own.
pub(crate) const JOINS: Row = Row { fork: May(ErrorKind::Forked), ..LOCAL };

/// It reaches the driver, without a stream or in one that it makes.
pub(crate) const DEVICE: Row = Row { host_fn: CALLBACK, fork: FORKED, lost: LOST, ..LOCAL };
/// The same, and it waits for the device.
const fn device_wait(row: Row) -> Row {
    Row { beside_capture: CAPTURING, captured: CAPTURING, ends_captures: true, ..row }
}

/// It waits for the device.
pub(crate) const DEVICE_WAIT: Row = device_wait(DEVICE);
/// It reaches the driver, and may need nothing of a device that is lost.
pub(crate) const OBJECT: Row = Row { lost: MAY_BE_LOST, ..DEVICE };
/// It opens devices, or uses others.
pub(crate) const OTHER_DEVICE: Row = Row { lost: Does, ..DEVICE };
/// It enqueues in new streams, which are not streams of a region.
pub(crate) const OWN_STREAMS: Row = Row { region: CAPTURING, ..DEVICE };
/// The same on other devices.
pub(crate) const EXPLORES: Row = Row { lost: Does, ..OWN_STREAMS };
/// The same, and it waits for the device.
pub(crate) const OWN_STREAMS_WAIT: Row = device_wait(OWN_STREAMS);
/// It needs CUDA, which a machine may lack.
pub(crate) const CUDA: Row = {
    let may = May(ErrorKind::Unsupported);
    let beside_capture = may;
    let row = Row { plain: may, task: may, recording: may, region: may, captured: may, ..DEVICE };
    Row { beside_capture, lost: may, ..row }
};
/// It needs NCCL, which host devices do not have.
pub(crate) const NCCL: Row = Row {
    plain: NO_TWIN,
    task: NO_TWIN,
    recording: NO_TWIN,
    beside_capture: NO_TWIN,
    captured: NO_TWIN,
    ..OWN_STREAMS
};

/// An operation that can be a node of a graph. Its memory does not belong to the task of a region.
pub(crate) const NODE: Row = Row { region: INVALID, ..DEVICE };
/// The same with memory that is no argument of the graph, either.
pub(crate) const NODE_OF_OTHER_MEMORY: Row = Row { recording: INVALID, ..NODE };
/// A launch of a graph, which no graph of another library can have.
pub(crate) const LAUNCH: Row = Row { captured: CAPTURING, ..NODE };
/// A launch of a graph under a condition, which only another graph can have.
pub(crate) const CONDITION: Row = Row {
    plain: UNSUPPORTED,
    task: UNSUPPORTED,
    beside_capture: UNSUPPORTED,
    captured: UNSUPPORTED,
    lost: UNSUPPORTED,
    ..NODE
};
/// An operation that no graph has.
pub(crate) const NO_NODE: Row =
    Row { recording: UNSUPPORTED, region: UNSUPPORTED, captured: CAPTURING, ..DEVICE };
/// Work of another library, which a host device cannot run.
pub(crate) const FOREIGN: Row = Row {
    plain: May(ErrorKind::NoTwin),
    task: May(ErrorKind::NoTwin),
    beside_capture: May(ErrorKind::NoTwin),
    ..NO_NODE
};
/// An allocation: no graph of another library can have it.
pub(crate) const ALLOC: Row = Row { captured: CAPTURING, ..DEVICE };
/// A query, a wait or a record of the stream, or a copy whose caller gets or gives the bytes at the
/// call.
pub(crate) const WAITS: Row =
    Row { recording: CAPTURING, region: CAPTURING, captured: CAPTURING, ..DEVICE };
/// The same of a stream that may have no work.
pub(crate) const POINT: Row = Row { lost: MAY_BE_LOST, ..WAITS };
/// A note about work of other code, which makes no call of the driver.
pub(crate) const NOTE: Row = Row { captured: Does, ..POINT };

/// It asks the tasks, or describes some.
pub(crate) const TASKS: Row = Row { lost: Does, ..DEVICE };
/// It submits tasks, which fail later.
pub(crate) const SUBMITS: Row = OBJECT;
/// It waits for tasks, which functions of tasks may not do.
pub(crate) const WAITS_FOR_TASKS: Row = {
    let outside = May(ErrorKind::InvalidValue);
    Row { task: outside, region: outside, lost: MAY_BE_LOST, ..DEVICE }
};

/// The same, and it enqueues in a new stream afterwards.
pub(crate) const RESULTS: Row = Row { region: CAPTURING, ..WAITS_FOR_TASKS };

impl Row {
    /// The answer in a context.
    pub(crate) fn answer(&self, context: Context) -> Answer {
        match context {
            Context::HostFn => self.host_fn,
            Context::Task | Context::HostTask => self.task,
            Context::Recording => self.recording,
            Context::Region => self.region,
            Context::BesideCapture => self.beside_capture,
            Context::Captured => self.captured,
            Context::Fork => self.fork,
            Context::Lost => self.lost,
            Context::Plain
            | Context::BesideRecording
            | Context::ThreadEnd
            | Context::LateThreadEnd
            | Context::Unwinding => self.plain,
        }
    }
}
