//! One operation to enqueue: its action, and the tracks of the memory that it uses.
#![forbid(unsafe_code)]

use super::host::host_fn::Slot;
use super::track::Use;
use crate::base::id::Position;
use crate::base::ledger::Accesses;
use crate::device::driver::{Action, AtReturn};
use std::ops::Range;
use std::panic::Location;

/// One operation to enqueue.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) action: Action<'a>,
    /// The results of [`Action::at_return`] and [`Action::may_wait`]. They are computed where the
    /// compiler knows the kind of the action.
    pub(crate) at_return: AtReturn,
    pub(crate) may_wait: bool,
    /// Whether the operation runs functions of the program, which may wait for the program.
    pub(crate) has_host_fn: bool,
    /// The tracks of the memory that the operation accesses, in the order of
    /// [`Action::each_access`]. An allocation uses the memory that it will return.
    pub(crate) uses: &'a [Use<'a>],
    /// The chunk of the pipeline to which the operation belongs; `None` outside of pipelines.
    pub(crate) chunk: Option<u64>,
    /// The source line of the program that enqueues the operation.
    pub(crate) site: &'static Location<'static>,
    /// The slot of a host function, which gets the sequence number before the driver has the
    /// function.
    pub(crate) slot: Option<&'a Slot>,
}

impl<'a> Submission<'a> {
    /// An operation that belongs to no pipeline.
    #[inline(always)]
    pub(crate) fn new(
        action: Action<'a>,
        uses: &'a [Use<'a>],
        site: &'static Location<'static>,
    ) -> Self {
        let (at_return, may_wait) = (action.at_return(), action.may_wait());
        Self {
            action,
            at_return,
            may_wait,
            has_host_fn: false,
            uses,
            chunk: None,
            site,
            slot: None,
        }
    }

    /// Whether the uses agree with the accesses of the action.
    pub(super) fn agrees(&self) -> bool {
        let mut uses = self.uses.iter();
        let mut same = true;
        self.action.each_access(|memory, range, mode| {
            same &= uses.next().is_some_and(|used| {
                let bytes = |range: &Range<u64>| range.end - range.start;
                used.mode == mode
                    && bytes(&used.range) == bytes(&range)
                    && range.end <= memory.bytes()
            });
        });
        let new = usize::from(matches!(self.action, Action::Alloc { .. }));
        same && uses.count() == new
    }
}

/// Stamps the accesses of an operation that can be stamped without a lock. Returns the other
/// accesses as bits: bit `i` is set for access `i`. An operation has at most 64 accesses, because a
/// full batch has that many.
#[inline(always)]
pub(super) fn stamp(uses: &[Use<'_>], position: Position, at_return: AtReturn) -> u64 {
    let mut late = 0;
    let read = matches!(at_return, AtReturn::SourcesRead | AtReturn::Staged);
    for (index, access) in uses.iter().enumerate() {
        if read && !access.mode.writes() {
            continue;
        }
        if !access.track.stamp(&access.range, access.mode, position) {
            late |= 1 << index;
        }
    }
    late
}

/// Stamps the accesses whose bits are set in `late`. Keeps in the tracks the positions `left_out`,
/// for which waits were left out on request. The caller holds no lock of a lane.
#[inline(always)]
pub(super) fn stamp_late(uses: &[Use<'_>], position: Position, late: u64, left_out: &[Position]) {
    if late != 0 || !left_out.is_empty() {
        stamp_rest(uses, position, late, left_out);
    }
}

#[inline(never)]
fn stamp_rest(uses: &[Use<'_>], position: Position, late: u64, left_out: &[Position]) {
    for (index, access) in uses.iter().enumerate() {
        if !left_out.is_empty() {
            access.track.keep_unstamped(left_out);
        }
        if late & 1 << index != 0 {
            access.track.stamp_ranged(&access.range, access.mode, position);
        }
    }
}

/// The accesses of an operation, for its ledger entry.
pub(super) fn accesses(uses: &[Use<'_>]) -> Accesses {
    let mut accesses = Accesses::new();
    for used in uses {
        accesses.push(used.track.access(used.range.clone(), used.mode));
    }
    accesses
}
