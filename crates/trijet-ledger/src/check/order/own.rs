//! The order between host threads that follows from ownership of memory (law A44).
//!
//! Rust lets a thread use a tracked block exclusively only after every earlier use has ended. A
//! thread may share the block only after every earlier exclusive use has ended. So the call of the
//! thread follows the calls of those uses, and everything that their threads knew to be complete at
//! those calls. Work of those calls that the device has not finished is not included.
//!
//! For each such block, a map from byte ranges keeps the last exclusive use, and for each thread
//! its last shared use after that. A use is a snapshot of what its thread knew. All uses of a
//! thread share one snapshot until the thread learns more.
#![forbid(unsafe_code)]

use super::clock::Stamp;
use super::snapshot::{Snapshot, Use};
use super::threads::HostThreads;
use crate::base::hash::NumberMap;
use crate::base::id::BlockId;
use crate::base::interval::RangeMap;
use crate::base::ledger::{Access, Effect, HostStep, Op, OpKind, OrderedBy};
use crate::base::vector_clock::VectorClock;
use smallvec::SmallVec;
use std::sync::Arc;

/// The uses of bytes that a later use may follow.
#[derive(Debug, Clone, Default, PartialEq)]
struct ByteUsers {
    /// The last exclusive use.
    exclusive: Option<Use>,
    /// For each thread, its last shared use after the last exclusive use.
    shared: Vec<Use>,
    /// If a future of the bytes was made: everything that the maker of the future knew to be
    /// complete. The future does not wait for that work again.
    lent: Option<Use>,
}

impl ByteUsers {
    /// Adds a use. The first branch is the frequent case: the thread has learned nothing since its
    /// last use.
    #[inline]
    fn add(&mut self, used: &Use, exclusively: bool) {
        if self.exclusive.as_ref() == Some(used) {
            if exclusively && !self.shared.is_empty() {
                self.shared.clear();
            }
        } else if exclusively {
            self.exclusive = Some(used.clone());
            self.shared.clear();
            self.lent = None;
        } else {
            match self.shared.iter_mut().find(|other| other.0.thread == used.0.thread) {
                Some(other) if other == used => {}
                Some(other) => *other = used.clone(),
                None => self.shared.push(used.clone()),
            }
        }
    }
}

/// The last uses of the blocks that the library orders.
#[derive(Debug, Clone, Default)]
pub(super) struct Owned {
    blocks: NumberMap<BlockId, RangeMap<ByteUsers>>,
}

impl Owned {
    pub(super) fn retire(&mut self, known: &VectorClock) {
        self.blocks.retain(|_, block| {
            block.retain(|users| {
                users.exclusive = users.exclusive.take().filter(|used| !known.covers(used.0.at));
                users.shared.retain(|used| !known.covers(used.0.at));
                users.lent = users.lent.take().filter(|used| !known.covers(used.0.at));
                *users != ByteUsers::default()
            });
            !block.is_empty()
        });
    }

    pub(super) fn held_state(&self) -> usize {
        self.blocks.values().map(RangeMap::len).sum()
    }

    /// Makes the call of the thread follow the earlier uses of the memory that the call uses.
    pub(super) fn follow_earlier_uses(&self, threads: &mut HostThreads, thread: usize, op: &Op) {
        if threads.list.len() == 1 {
            return;
        }
        let mut news: SmallVec<[Use; 4]> = SmallVec::new();
        let mut lent: SmallVec<[Use; 1]> = SmallVec::new();
        for access in owned(op) {
            let Some(block) = self.blocks.get(&access.block) else { continue };
            let known = &threads.list[thread].known.sure;
            for (_, users) in block.overlapping(access.range.clone()) {
                let shared = if access.mode.writes() { &users.shared[..] } else { &[] };
                let earlier = users.exclusive.iter().chain(shared);
                let new =
                    earlier.filter(|used| used.0.thread != thread && !known.covers(used.0.at));
                news.extend(new.cloned());
                let of_others = users.lent.iter().filter(|used| used.0.thread != thread);
                lent.extend(of_others.cloned());
            }
        }
        for used in &news {
            threads.learn(thread, &used.0.clock);
        }
        for used in &lent {
            threads.learn_as_seen(thread, &used.0.clock);
        }
    }

    /// Adds the uses of the call, so that later uses follow the call.
    pub(super) fn note_uses(&mut self, threads: &mut HostThreads, thread: usize, op: &Op) {
        let mut accesses = owned(op).peekable();
        if accesses.peek().is_none() {
            return;
        }
        let used = snapshot(threads, thread);
        for access in accesses {
            if op.kind.effect() == Effect::Frees {
                self.blocks.remove(&access.block);
                continue;
            }
            let block = self.blocks.entry(access.block).or_default();
            let exclusively = access.mode.writes();
            let is_lent = op.kind == OpKind::Host(HostStep::Lent);
            block.update(access.range.clone(), ByteUsers::default, |users| {
                users.add(&used, exclusively);
                if is_lent {
                    users.lent = Some(used.clone());
                }
            });
        }
        let this = &mut threads.list[thread];
        this.used = Some((this.version, used));
    }
}

/// A snapshot of what the thread knows: the snapshot of the thread's last use, if the thread has
/// learned nothing since then.
fn snapshot(threads: &mut HostThreads, thread: usize) -> Use {
    let this = &mut threads.list[thread];
    if let Some((version, used)) = this.used.take()
        && version == this.version
    {
        return used;
    }
    // The stamp must come after everything that the thread has learned. If the thread has learned
    // something since its last counted call, a new call is counted.
    let has_number = this.call_version == this.version && this.seq > 0;
    let last = Stamp { lane: this.component, seq: this.seq };
    let at = if has_number { last } else { threads.call(thread) };
    let clock = threads.list[thread].known.clone();
    Use(Arc::new(Snapshot { thread, at, clock }))
}

fn owned(op: &Op) -> impl Iterator<Item = &Access> {
    let is_owned = |access: &&Access| {
        access.ordered == OrderedBy::Library && access.range.start < access.range.end
    };
    op.accesses.iter().filter(is_owned)
}
