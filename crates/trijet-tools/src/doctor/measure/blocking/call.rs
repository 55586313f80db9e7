//! The calls that are made while a kernel runs.

use crate::bare::step::BareStep;

/// A call that is made while a kernel runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// No call: the control.
    Nothing,
    /// A bare driver call.
    Bare(BareStep),
    /// A stream-ordered allocation on b, from memory that the pool already has. The size is in MiB.
    Alloc(usize),
    /// A stream-ordered allocation on b, from an empty pool. The size is in MiB.
    Grow(usize),
    /// The free of a stream-ordered allocation, on b. The size is in MiB.
    Free(usize),
    /// A trim of the pool.
    Trim,
    /// The creation and the drop of an event.
    Event,
    /// The creation and the drop of a stream.
    Stream,
    /// A page-locked upload of 16 MiB on b.
    Pinned,
    /// A pageable upload of 16 MiB on b.
    PageableOnB,
    /// A pageable upload of 4 KiB on a, after the kernel.
    FewPagesOnA,
    /// A pageable upload of 1 MiB on a, after the kernel. The upload is too large for a single
    /// command of the driver.
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
