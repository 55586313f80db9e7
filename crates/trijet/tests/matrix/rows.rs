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
    /// The call is refused with an error of one of these kinds, which depends on the device.
    Either(ErrorKind, ErrorKind),
}

pub(crate) use Answer::{Does, Either, Is, May};

const CALLBACK: Answer = Is(ErrorKind::InCallback);
const CAPTURING: Answer = Is(ErrorKind::Capturing);
const FORKED: Answer = Is(ErrorKind::Forked);
const INVALID: Answer = Is(ErrorKind::InvalidValue);
const LOST: Answer = Is(ErrorKind::ContextLost);
const MAY_BE_LOST: Answer = May(ErrorKind::ContextLost);
const NO_TWIN: Answer = Is(ErrorKind::NoTwin);
const UNSUPPORTED: Answer = Is(ErrorKind::Unsupported);

/// The answers of a verb, by context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// In every context that has no field of its own.
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
    /// The verb waits for the device. During a capture this is refused and ends the capture (law
    /// A33).
    pub(crate) ends_captures: bool,
}

/// The verb calls the driver not at all, or only later.
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
/// The verb waits for other processes, and calls no function of the driver.
pub(crate) const RANKS: Row = Row { fork: FORKED, ..LOCAL };
/// The verb joins other processes. A child of a fork may do this by itself.
pub(crate) const JOINS: Row = Row { fork: May(ErrorKind::Forked), ..LOCAL };

/// The verb calls the driver, without a stream or in a stream that it makes.
pub(crate) const DEVICE: Row = Row { host_fn: CALLBACK, fork: FORKED, lost: LOST, ..LOCAL };
/// The row of a verb that also waits for the device.
const fn device_wait(row: Row) -> Row {
    Row { beside_capture: CAPTURING, captured: CAPTURING, ends_captures: true, ..row }
}

/// The verb calls the driver and waits for the device.
pub(crate) const DEVICE_WAIT: Row = device_wait(DEVICE);
/// The verb calls the driver. It may succeed on a device that is lost.
pub(crate) const OBJECT: Row = Row { lost: MAY_BE_LOST, ..DEVICE };
/// The verb opens devices, or uses other devices.
pub(crate) const OTHER_DEVICE: Row = Row { lost: Does, ..DEVICE };
/// The verb enqueues in new streams, which are not streams of a region.
pub(crate) const OWN_STREAMS: Row = Row { region: CAPTURING, ..DEVICE };
/// The verb enqueues in new streams of other devices.
pub(crate) const EXPLORES: Row = Row { lost: Does, ..OWN_STREAMS };
/// The verb enqueues in new streams and waits for the device.
pub(crate) const OWN_STREAMS_WAIT: Row = device_wait(OWN_STREAMS);
/// The verb needs CUDA, which a machine may lack.
pub(crate) const CUDA: Row = {
    let may = May(ErrorKind::Unsupported);
    let beside_capture = may;
    let row = Row { plain: may, task: may, recording: may, region: may, captured: may, ..DEVICE };
    Row { beside_capture, lost: may, ..row }
};
/// The verb needs NCCL, which host devices do not have.
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
/// An operation that can be a node of a graph, with memory that is neither of the task nor an
/// argument of the graph.
pub(crate) const NODE_OF_OTHER_MEMORY: Row = Row { recording: INVALID, ..NODE };
/// A launch of a graph. A graph of another library cannot contain it.
pub(crate) const LAUNCH: Row = Row { captured: CAPTURING, ..NODE };
/// A launch of a graph under a condition. Only another graph can contain it.
pub(crate) const CONDITION: Row = Row {
    plain: UNSUPPORTED,
    task: UNSUPPORTED,
    beside_capture: UNSUPPORTED,
    captured: UNSUPPORTED,
    lost: UNSUPPORTED,
    ..NODE
};
/// An operation that no graph can contain.
pub(crate) const NO_NODE: Row =
    Row { recording: UNSUPPORTED, region: UNSUPPORTED, captured: CAPTURING, ..DEVICE };
/// Work of another library, which a host device cannot run.
pub(crate) const FOREIGN: Row = Row {
    plain: May(ErrorKind::NoTwin),
    task: May(ErrorKind::NoTwin),
    beside_capture: May(ErrorKind::NoTwin),
    ..NO_NODE
};
/// The verb follows all work of the device. During a capture the driver refuses this and ends the
/// capture (law A33). A host device has no work of other libraries.
pub(crate) const FOLLOWS: Row = Row {
    beside_capture: Either(ErrorKind::NoTwin, ErrorKind::Capturing),
    ends_captures: true,
    ..FOREIGN
};
/// An allocation. A graph of another library cannot contain it.
pub(crate) const ALLOC: Row = Row { captured: CAPTURING, ..DEVICE };
/// A query, a wait or a record of the stream, or a copy whose caller provides or gets the bytes
/// during the call.
pub(crate) const WAITS: Row =
    Row { recording: CAPTURING, region: CAPTURING, captured: CAPTURING, ..DEVICE };
/// A query, a wait or a record of a stream that may have no work.
pub(crate) const POINT: Row = Row { lost: MAY_BE_LOST, ..WAITS };
/// A note about work of other code, which makes no call of the driver.
pub(crate) const NOTE: Row = Row { captured: Does, ..POINT };

/// The verb reads the state of tasks, or describes tasks.
pub(crate) const TASKS: Row = Row { lost: Does, ..DEVICE };
/// The verb submits tasks, which fail later.
pub(crate) const SUBMITS: Row = OBJECT;
/// The verb waits for tasks. Functions of tasks may not do this.
pub(crate) const WAITS_FOR_TASKS: Row = {
    let outside = May(ErrorKind::InvalidValue);
    Row { task: outside, region: outside, lost: MAY_BE_LOST, ..DEVICE }
};

/// The verb waits for tasks, and then enqueues in a new stream.
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
