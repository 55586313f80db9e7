//! The calls that are made while the long kernel runs on stream a.

use crate::bare::step::BareStep;

/// A call that is made while the long kernel runs on stream a.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// No call. This is the control row.
    Nothing,
    /// A bare driver call.
    Bare(BareStep),
    /// A stream-ordered allocation on b. The memory pool already has the memory. The size is in
    /// MiB.
    Alloc(usize),
    /// A stream-ordered allocation on b. The memory pool is empty. The size is in MiB.
    Grow(usize),
    /// A stream-ordered free on b. The size of the allocation is in MiB.
    Free(usize),
    /// A trim of the memory pool.
    Trim,
    /// The creation and the drop of an event.
    Event,
    /// The creation and the drop of a stream.
    Stream,
    /// A page-locked upload of 16 MiB on b.
    Pinned,
    /// A pageable upload of 16 MiB on b.
    PageableOnB,
    /// A pageable upload of 4 KiB on a, enqueued after the long kernel.
    FewPagesOnA,
    /// A pageable upload of 1 MiB on a, enqueued after the long kernel. The upload is too large for
    /// a single command of the driver.
    PageableOnA,
    /// A host function on b.
    HostFn,
    /// A synchronous pageable upload, in the legacy stream.
    NowPageable,
    /// A synchronous copy on the device, in the legacy stream.
    NowOnDevice,
    /// A synchronous fill, in the legacy stream.
    NowFill,
    /// A kernel in the legacy stream.
    LegacyKernel,
    /// An event record in the legacy stream.
    LegacyRecord,
    /// The first launch of a kernel through the library. The launch loads the kernel.
    FirstLaunch,
}
