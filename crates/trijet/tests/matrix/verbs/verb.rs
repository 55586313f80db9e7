//! A verb of the public API, and how to call it.

use super::super::held::{BEFORE, Held, WRITTEN};
use super::super::rows::Row;
use std::task::{Context, Poll, Waker};
use trijet::{Result, Stream};

/// A call that was prepared outside of the context. It gets the handles and the stream of the
/// context.
pub(crate) type Call = Box<dyn FnOnce(&mut Held, &Stream) -> Result<()> + Send>;

/// A verb of the public API.
pub(crate) struct Verb {
    /// The type and the name of the verb, as `scan` finds them.
    pub(crate) name: &'static str,
    pub(crate) row: Row,
    /// The bytes of `x`, `y` and `h` after a call that was refused, and after a call that
    /// succeeded.
    pub(crate) bytes: [[u8; 3]; 2],
    /// The verb is tried on host devices only, because its call or its answer is different on a
    /// GPU.
    pub(crate) is_of_host: bool,
    /// Prepares a call.
    pub(crate) make: fn(&mut Held) -> Result<Call>,
}

impl Verb {
    pub(crate) const fn new(
        name: &'static str,
        row: Row,
        make: fn(&mut Held) -> Result<Call>,
    ) -> Self {
        Self { name, row, bytes: [BEFORE; 2], is_of_host: false, make }
    }

    /// Sets the bytes after a refusal and after a success.
    pub(crate) const fn leaves(self, refused: [u8; 3], done: [u8; 3]) -> Self {
        Self { bytes: [refused, done], ..self }
    }

    /// Marks a verb that is not tried on one GPU, where it has nothing to do, makes no call, or has
    /// a different answer.
    pub(crate) const fn on_host(self) -> Self {
        Self { is_of_host: true, ..self }
    }

    /// Marks a verb that writes all of `x`.
    pub(crate) const fn x(self) -> Self {
        self.leaves(BEFORE, [WRITTEN, BEFORE[1], BEFORE[2]])
    }

    /// Marks a verb that writes all of `h`.
    pub(crate) const fn h(self) -> Self {
        self.leaves(BEFORE, [BEFORE[0], BEFORE[1], WRITTEN])
    }
}

pub(crate) fn call(
    call: impl FnOnce(&mut Held, &Stream) -> Result<()> + Send + 'static,
) -> Result<Call> {
    Ok(Box::new(call))
}

/// Polls a future until it ends.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            break output;
        }
        std::thread::yield_now();
    }
}
