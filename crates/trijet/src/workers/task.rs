//! A task of workers.
#![forbid(unsafe_code)]

/// The bits of a task that are its payload.
pub(super) const PAYLOAD: u64 = (1 << 56) - 1;

/// A task: the index of its kind in [`Kinds::KINDS`](super::Kinds::KINDS), and a payload of 56
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerTask(pub(super) u64);

impl WorkerTask {
    /// A task of the kind with index `kind`. Its payload is the lower 56 bits of `payload`.
    ///
    /// ```
    /// use trijet::workers::WorkerTask;
    /// assert_eq!(WorkerTask::new(1, 7).payload(), 7);
    /// ```
    #[must_use]
    pub const fn new(kind: u8, payload: u64) -> Self {
        Self((kind as u64 + 1) << 56 | payload & PAYLOAD)
    }

    /// The payload of the task.
    #[must_use]
    pub const fn payload(self) -> u64 {
        self.0 & PAYLOAD
    }

    /// The task as the word that the workers get.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }
}
