//! Waits that come too late: after a finding, a wait that would have ordered the pair had it come
//! before the second of the two.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::explain::Context;
use super::hazard::Finding;
use super::order::{Moment, Order, Stamp, Step};
use crate::base::ledger::{Asked, Op, OpKind, Outcome};
use std::collections::VecDeque;

/// Findings that a later wait is compared with, the last ones.
const RECENT_MAX: usize = 4;

#[derive(Debug, Clone)]
struct OpenPair {
    /// The place of the finding in the verdict.
    finding: usize,
    /// What has to be known to follow the first of the pair.
    at: Stamp,
    second: Step,
    moment: Moment,
}

/// The last pairs that no wait after them has ordered.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent(VecDeque<OpenPair>);

/// What the record lets wait, work of a stream or a thread, and whether the program asked for it.
///
/// That a thread waits some time later is no remark on two operations of streams: every program does
/// in the end.
fn wait_of(op: &Op) -> Option<(Moment, Asked)> {
    if let OpKind::Wait { by, .. } = op.kind {
        return Some((Moment::Work, by));
    }
    let is_sync = matches!(op.kind, OpKind::Sync { outcome: Outcome::Complete, .. });
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

    /// The findings that the wait of this record would have prevented.
    pub(super) fn prevented(&mut self, op: &Op, order: &Order) -> Vec<usize> {
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
    /// Says that the wait at `op` comes too late.
    pub(super) fn too_late(&self, finding: &mut Finding, op: u64) {
        let second = finding.second.op;
        finding.known += &format!("; the wait {} comes after #{second}: too late", self.place(op));
        finding.fix = format!("move the wait at #{op} before #{second}");
    }
}
