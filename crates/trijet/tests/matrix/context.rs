//! The contexts that a program can make calls from.

/// A context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// Any place of the program.
    Plain,
    /// A host function.
    HostFn,
    /// The function of a task, with its stream.
    Task,
    /// The function of a task on the host.
    HostTask,
    /// The function of a task of a region, with its stream.
    Region,
    /// The closure of a recording, with one of its streams.
    Recording,
    /// The closure of a recording, with a stream that does not belong to the recording.
    BesideRecording,
    /// Between the start and the end of a capture of another stream, in the strictest mode.
    BesideCapture,
    /// Between the start and the end of a capture, with the captured stream.
    Captured,
    /// The child process of a fork.
    Fork,
    /// After the loss of the device.
    Lost,
    /// A destructor of thread-local storage, before the destructors of the library.
    ThreadEnd,
    /// A destructor of thread-local storage, after the destructors of the library.
    LateThreadEnd,
    /// A drop while a panic unwinds.
    Unwinding,
}

/// All contexts of a host device.
pub(crate) const ALL: [Context; 14] = [
    Context::Plain,
    Context::HostFn,
    Context::Task,
    Context::HostTask,
    Context::Region,
    Context::Recording,
    Context::BesideRecording,
    Context::BesideCapture,
    Context::Captured,
    Context::Fork,
    Context::Lost,
    Context::ThreadEnd,
    Context::LateThreadEnd,
    Context::Unwinding,
];

/// The contexts that are tried on a GPU. The other contexts are tried only on host devices:
///
/// - the child of a fork: CUDA does not support it, and a call that is wrongly let through may harm
///   the parent;
/// - the loss of a device: it costs the process its context, so each cell would need a separate
///   process;
/// - destructors of thread-local storage: the driver has such storage too, and the library does not
///   see its end.
pub(crate) const ON_CUDA: [Context; 10] = [
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

impl Context {
    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn named(name: &str) -> Self {
        *ALL.iter().find(|context| context.name() == name).expect("a context of this name")
    }
}
