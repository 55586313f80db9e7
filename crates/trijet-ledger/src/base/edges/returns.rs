//! The point of an operation that has passed when the call that enqueued it returns (laws A16 to
//! A18).
#![forbid(unsafe_code)]

use super::past::{Laws, Point};
use crate::base::ledger::{Op, OpKind, Place};

/// The point of an operation that its call is guaranteed to wait for; `None` if there is no
/// guarantee.
pub(crate) fn passed_at_return(op: &Op, laws: Laws) -> Option<Point> {
    let place = |writes: bool| {
        let access = op.accesses.iter().find(|access| access.mode.writes() == writes);
        access.map_or(Place::Device, |access| access.place)
    };
    let is_of_host = |place: Place| place != Place::Device;
    let (from, to) = (place(false), place(true));
    match op.kind {
        OpKind::Copy if is_of_host(from) && is_of_host(to) => Some(Point::End),
        OpKind::Copy if laws == Laws::Observed => match (from, to) {
            (Place::Pageable, _) => Some(Point::Trigger),
            (_, Place::Pageable) => Some(Point::End),
            _ => None,
        },
        OpKind::CopyNow if from == Place::Pageable && to == Place::Device => Some(Point::Trigger),
        OpKind::CopyNow if is_of_host(from) || is_of_host(to) => Some(Point::End),
        OpKind::FillNow if to == Place::Pinned => Some(Point::End),
        OpKind::Copy
        | OpKind::CopyNow
        | OpKind::FillNow
        | OpKind::Alloc
        | OpKind::Free
        | OpKind::Batch(_)
        | OpKind::Fill
        | OpKind::Kernel
        | OpKind::HostFn
        | OpKind::AllocNow
        | OpKind::FreeNow
        | OpKind::FromHeap { .. }
        | OpKind::ToHeap
        | OpKind::Fault { .. }
        | OpKind::Record { .. }
        | OpKind::Sync { .. }
        | OpKind::Host
        | OpKind::Call(_)
        | OpKind::Gone { .. }
        | OpKind::Open
        | OpKind::Wait { .. }
        | OpKind::Signal { .. }
        | OpKind::Begin
        | OpKind::Ran
        | OpKind::Settled { .. }
        | OpKind::Name { .. }
        | OpKind::ThreadGone
        | OpKind::Lent
        | OpKind::Handle { .. } => None,
    }
}

/// Whether the laws allow the call to wait for the operation, whether or not they guarantee it.
pub(crate) fn may_wait(op: &Op) -> bool {
    let pageable = || op.accesses.iter().any(|access| access.place == Place::Pageable);
    match op.kind {
        OpKind::CopyNow | OpKind::FillNow => true,
        OpKind::Copy | OpKind::Batch(_) => pageable(),
        OpKind::Alloc
        | OpKind::Free
        | OpKind::Fill
        | OpKind::Kernel
        | OpKind::HostFn
        | OpKind::AllocNow
        | OpKind::FreeNow
        | OpKind::FromHeap { .. }
        | OpKind::ToHeap
        | OpKind::Fault { .. }
        | OpKind::Record { .. }
        | OpKind::Sync { .. }
        | OpKind::Host
        | OpKind::Call(_)
        | OpKind::Gone { .. }
        | OpKind::Open
        | OpKind::Wait { .. }
        | OpKind::Signal { .. }
        | OpKind::Begin
        | OpKind::Ran
        | OpKind::Settled { .. }
        | OpKind::Name { .. }
        | OpKind::ThreadGone
        | OpKind::Lent
        | OpKind::Handle { .. } => false,
    }
}
