//! Collectives by NCCL, as operations of the streams of a communicator.
//!
//! One call enqueues work in the streams of all devices. Each of these is an operation with the memory of its device, so it is
//! ordered as all others. NCCL sees the parts when all streams have done what comes before: the innermost of nested operations
//! enqueues them.

use super::member::Member;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::cuda::{NcclGroup, Part};
use crate::device::driver::Readiness;
use crate::kernels::Reduction;
use crate::memory::{Element, Uses, ViewMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The communicators of NCCL, which one thread at a time uses.
#[derive(Debug)]
pub(super) struct Nccl(Mutex<NcclGroup>);

impl Nccl {
    pub(super) fn new(members: &[Member]) -> Result<Self> {
        for member in members {
            // SAFETY: the function enqueues nothing; it only shows that the device runs the work of other libraries.
            let allowed = unsafe { member.kernels.foreign("NCCL", Uses::new(), |_| Ok(())) };
            allowed.map_err(|error| error.context("`Communicator::over` needs no NCCL"))?;
        }
        let devices: Vec<u32> = members.iter().map(|member| member.device.id().0).collect();
        NcclGroup::new(&devices).map(|group| Self(Mutex::new(group)))
    }

    fn lock(&self) -> MutexGuard<'_, NcclGroup> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    pub(super) fn all_reduce<T: Element, R: Reduction<T>>(
        &self,
        members: &[Member],
        data: &mut [ViewMut<'_, T>],
    ) -> Result<()> {
        let Some(names) = R::NCCL else {
            let cause = "it has no such combination of these elements; `Communicator::over` has";
            return Err(Error::new(ErrorKind::Unsupported, "NCCL", cause));
        };
        let mut group = self.lock();
        group.demand_well()?;
        let (count, names) = (data[0].len(), (names.element, names.operation));
        let mut parts = Vec::with_capacity(members.len());
        enqueue(members, data, &mut parts, &mut |parts| {
            // SAFETY: there is a part for each member, in their order. Each has `count` elements, because `Communicator` compared
            // the lengths, and each operation around this call has declared them: false if a view were declared by another
            // operation than that of its stream. The streams live as long as `members`.
            unsafe { group.all_reduce(parts, count, names) }
        })
    }

    /// Ends the communicators of NCCL unless work is pending, which their end would wait for. Then they leak.
    pub(super) fn close(&self, members: &[Member]) {
        let is_done = |member: &Member| matches!(member.kernels.query(), Ok(Readiness::Ready));
        if members.iter().all(is_done) {
            self.lock().destroy();
        }
    }
}

/// Enqueues an operation in the stream of each member, each within the one before, and calls `run` in the last one.
#[track_caller]
fn enqueue<T: Element>(
    members: &[Member],
    data: &mut [ViewMut<'_, T>],
    parts: &mut Vec<Part>,
    run: &mut dyn FnMut(&[Part]) -> Result<()>,
) -> Result<()> {
    let (Some((member, members)), Some((own, data))) =
        (members.split_first(), data.split_first_mut())
    else {
        return run(parts);
    };
    let address = own.address();
    let uses = Uses::new().read_write(own);
    let inner = |stream| {
        parts.push(Part { address, stream });
        enqueue(members, data, parts, run)
    };
    // SAFETY: the innermost call enqueues the part of this stream in it, and NCCL accesses the memory of `uses` only, of this
    // library's: false for a datum without a declared use.
    unsafe { member.kernels.foreign("all_reduce", uses, inner) }
}
