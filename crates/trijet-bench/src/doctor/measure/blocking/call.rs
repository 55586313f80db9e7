//! The calls that are made beside a kernel.

use crate::bare::step::Step;

/// A call that is made beside a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Nothing: the control.
    Nothing,
    /// Past the library.
    Bare(Step),
    /// A stream-ordered allocation of so many MiB on b from memory that the pool holds.
    Alloc(usize),
    /// The same when the pool is empty.
    Grow(usize),
    /// The free of one, on b.
    Free(usize),
    /// Trimming the pool.
    Trim,
    /// An event made and dropped.
    Event,
    /// A stream made and dropped.
    Stream,
    /// A page-locked upload of 16 MiB on b.
    Pinned,
    /// A pageable upload of 16 MiB on b.
    PageableOnB,
    /// A pageable upload of 4 KiB on a, behind the kernel.
    FewPagesOnA,
    /// The same of 1 MiB, more than fits into a command.
    PageableOnA,
    /// A host function on b.
    HostFn,
    /// The synchronous copies and fill of the legacy stream.
    NowPageable,
    NowOnDevice,
    NowFill,
    /// A kernel of the legacy stream.
    LegacyKernel,
    /// An event record of the legacy stream.
    LegacyRecord,
    /// The first launch of a kernel through the library, which loads it.
    FirstLaunch,
}
