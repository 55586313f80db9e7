//! The point of an operation that has passed when the call that enqueued it returns (laws A16 to
//! A18).
#![forbid(unsafe_code)]

use super::past::{Laws, Point};
use crate::base::ledger::{Op, OpKind, Place, StreamWork};

/// The point of an operation that its call is guaranteed to wait for; `None` if there is no
/// guarantee.
pub(crate) fn passed_at_return(op: &Op, laws: Laws) -> Option<Point> {
    let place = |writes: bool| {
        let access = op.accesses.iter().find(|access| access.mode.writes() == writes);
        access.map_or(Place::Device, |access| access.place)
    };
    let is_of_host = |place: Place| place != Place::Device;
    let (from, to) = (place(false), place(true));
    let OpKind::Work(work) = op.kind else { return None };
    match work {
        StreamWork::Copy if is_of_host(from) && is_of_host(to) => Some(Point::End),
        StreamWork::Copy if laws == Laws::Observed => match (from, to) {
            (Place::Pageable, _) => Some(Point::Trigger),
            (_, Place::Pageable) => Some(Point::End),
            _ => None,
        },
        StreamWork::CopyNow if from == Place::Pageable && to == Place::Device => {
            Some(Point::Trigger)
        }
        StreamWork::CopyNow if is_of_host(from) || is_of_host(to) => Some(Point::End),
        StreamWork::FillNow if to == Place::Pinned => Some(Point::End),
        StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_) => None,
        StreamWork::Fill | StreamWork::FillNow | StreamWork::Kernel | StreamWork::HostFn => None,
        StreamWork::Alloc | StreamWork::Free => None,
    }
}

/// Whether, by the laws, the call may wait for the operation. The wait need not be guaranteed.
pub(crate) fn may_wait(op: &Op) -> bool {
    let pageable = || op.accesses.iter().any(|access| access.place == Place::Pageable);
    let OpKind::Work(work) = op.kind else { return false };
    match work {
        StreamWork::CopyNow | StreamWork::FillNow => true,
        StreamWork::Copy | StreamWork::Batch(_) => pageable(),
        StreamWork::Fill | StreamWork::Kernel | StreamWork::HostFn => false,
        StreamWork::Alloc | StreamWork::Free => false,
    }
}
