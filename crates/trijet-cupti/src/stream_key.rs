//! The stream that a handle stands for in a call.

/// The handles of the two default streams.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;
/// `CU_STREAM_NON_BLOCKING`, a flag of a stream that is created.
pub const NON_BLOCKING: u64 = 1;

/// The stream that a handle stands for in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamKey {
    /// The legacy stream of a context.
    Legacy(u32),
    /// The default stream of a thread in a context.
    OfThread(u32, u32),
    /// A stream that the program created.
    Created(u64),
}

impl StreamKey {
    /// The stream of a handle, in a call of a thread with a current context. `per_thread` states
    /// whether the default stream of the call is the one of the thread.
    #[must_use]
    pub fn new(handle: u64, context: u32, thread: u32, per_thread: bool) -> Self {
        match handle {
            PER_THREAD => Self::OfThread(context, thread),
            0 if per_thread => Self::OfThread(context, thread),
            0 | LEGACY => Self::Legacy(context),
            handle => Self::Created(handle),
        }
    }

    /// Whether it is the legacy stream of a context.
    #[must_use]
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Legacy(_))
    }
}
