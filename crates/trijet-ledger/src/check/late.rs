//! Waits that come too late: after the second access of a conflict. Such a wait would have ordered
//! the two accesses of the conflict if it had come before the second access.
#![forbid(unsafe_code)]

use super::explain::Context;
use super::hazard::Finding;
use super::order::{EntryOrder, Moment, Stamp, Step};
use crate::base::ledger::{Asked, HostStep, Op, OpKind, StreamMark, WaitOutcome};
use std::collections::VecDeque;

/// A wait is compared with this many of the latest conflicts.
const RECENT_MAX: usize = 4;

/// A conflict that no later wait has ordered.
#[derive(Debug, Clone)]
struct OpenPair {
    /// The index of the finding in the verdict.
    finding: usize,
    /// The stamp that a clock must cover to follow the first access.
    at: Stamp,
    second: Step,
    moment: Moment,
}

/// The last conflicts that no later wait has ordered.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent(VecDeque<OpenPair>);

/// Returns [`Moment::Work`] if a stream waits in this entry, and [`Moment::Call`] if a host thread
/// waits. Also returns whether the program or the library asked for the wait. `None` if the entry
/// is no wait.
///
/// A later wait of a thread tells nothing about a conflict of two operations in streams: in the
/// end, the threads of every program wait for the device. So the two kinds of waits are
/// distinguished.
fn wait_of(op: &Op) -> Option<(Moment, Asked)> {
    if let OpKind::Mark(StreamMark::Wait { by, .. }) = op.kind {
        return Some((Moment::Work, by));
    }
    let is_sync =
        matches!(op.kind, OpKind::Host(HostStep::Sync { outcome: WaitOutcome::Complete, .. }));
    is_sync.then_some((Moment::Call, Asked::User))
}

impl Recent {
    pub(super) fn add(&mut self, finding: usize, at: Stamp, second: Step, moment: Moment) {
        if self.0.len() == RECENT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(OpenPair { finding, at, second, moment });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The findings that the wait in this entry would have prevented if it had come earlier.
    pub(super) fn prevented(&mut self, op: &Op, order: &EntryOrder) -> Vec<usize> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let Some((waits, by)) = wait_of(op) else { return Vec::new() };
        let mut found = Vec::new();
        self.0.retain(|open| {
            let OpenPair { finding, at, second, moment } = open;
            let fits = (*moment == Moment::Work) == (waits == Moment::Work);
            let is_ordered = fits && order.before_now(second, *moment).covers(*at);
            if is_ordered && by == Asked::User {
                found.push(*finding);
            }
            !is_ordered
        });
        found
    }
}

impl Context<'_> {
    /// Adds to a finding that the wait at `op` comes too late.
    pub(super) fn too_late(&self, finding: &mut Finding, op: u64) {
        let second = finding.second.op;
        finding.known += &format!("; the wait {} comes after #{second}: too late", self.place(op));
        finding.fix = format!("move the wait at #{op} before #{second}");
    }
}
