//! The virtual executor of single steps, in an order that a decider chooses: at random (PCT), for
//! an exhaustive search, or as listed.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::prng::Prng;
use crate::base::units::Nanos;
use crate::device::host::engine::exec;
use crate::device::host::engine::ids::{NodeId, SlotId};
use crate::device::host::engine::node::Node;
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::touches::Object;
use crate::device::host::engine::trail::Trail;
use crate::device::host::engine::work::{HostFnCall, OpWork};
use crate::device::host::explore::races::Actor;
use crate::device::host::explore::search::{Choice, Search};
use crate::device::host::fault::Faults;
use crate::device::host::order::May;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Maximum number of parts of an operation under PCT. The number is at least 4, so that other
/// operations can run in the middle of a copy.
const PARTS: u64 = 4;

/// The actors that can take the next step.
pub(in crate::device::host) type Actors = SmallVec<[Actor; 8]>;

/// The decider of the next step.
pub(super) enum Decider {
    Pct(Pct),
    List { steps: Arc<[u32]>, at: usize },
    Search(Arc<Mutex<Search>>),
}

/// Probabilistic concurrency testing.
pub(in crate::device::host) struct Pct {
    prng: Prng,
    priorities: BTreeMap<Actor, u64>,
    /// The numbers of the steps at which the most urgent actor becomes the least urgent actor.
    changes: Vec<u64>,
    taken: u64,
}

impl Pct {
    pub(in crate::device::host) fn new(seed: u64, depth: u32, steps: u32) -> Self {
        let mut prng = Prng::new(seed);
        let mut changes: Vec<u64> =
            (1..depth).map(|_| prng.below(u64::from(steps.max(1)))).collect();
        changes.sort_unstable();
        Self { prng, priorities: BTreeMap::new(), changes, taken: 0 }
    }

    fn choose(&mut self, enabled: &[Actor]) -> usize {
        for actor in enabled {
            // Drawn priorities are above the priorities of actors that became less urgent.
            let drawn = self.prng.next_u64() | 1 << 63;
            self.priorities.entry(*actor).or_insert(drawn);
        }
        let priorities = &self.priorities;
        let most = (0..enabled.len()).max_by_key(|index| priorities[&enabled[*index]]).unwrap_or(0);
        self.taken += 1;
        if self.changes.contains(&self.taken) {
            // The new priority is below the priorities of all earlier changes, and below every
            // drawn priority.
            let least = (1 << 62) - self.taken;
            self.priorities.insert(enabled[most], least);
        }
        most
    }
}

pub(in crate::device::host) struct Stepper {
    decider: Decider,
    /// The next operation of each stream that can take a step, sorted by slot.
    ready: Vec<(SlotId, NodeId)>,
    /// Whether the search needs to know which objects the running step touches.
    listens: bool,
    /// Whether the last step belonged to the thread that runs the program. Then the next call of
    /// this thread may join the step. Always false under PCT, because the bound of PCT is for steps
    /// that are as short as possible.
    pub(super) joins_next_call: bool,
    /// Whether the program has ended. The drops of the program's objects are not explored.
    pub(super) program_ended: bool,
    /// For each operation that has begun, the numbers of the parts that have not run. The next part
    /// to run is the last element.
    begun: BTreeMap<NodeId, Vec<u64>>,
    /// An operation that is half done while another operation runs, and the outcome of its first
    /// half.
    torn: Option<(SlotId, NodeId, Result<()>)>,
    /// The clock of this executor. It advances by 1 us at each step and each call.
    now: Nanos,
    threads: usize,
}

/// The result of one step of a stream.
pub(in crate::device::host) enum Stepped {
    Moved,
    /// A host function is due. The caller runs it without the lock, and then completes the
    /// operation.
    Call(NodeId, HostFnCall),
}

impl Stepper {
    pub(super) fn new(decider: Decider, threads: usize) -> Self {
        Self {
            decider,
            ready: Vec::new(),
            listens: false,
            joins_next_call: false,
            program_ended: false,
            begun: BTreeMap::new(),
            torn: None,
            now: Nanos(0),
            threads,
        }
    }

    /// The search, if it is the decider.
    pub(in crate::device::host) fn search(&self) -> Option<&Arc<Mutex<Search>>> {
        match &self.decider {
            Decider::Search(search) => Some(search),
            Decider::Pct(_) | Decider::List { .. } => None,
        }
    }

    pub(in crate::device::host) fn now(&self) -> Nanos {
        self.now
    }

    /// Advances the clock, and returns the new time. Each call and each step has its own time.
    pub(in crate::device::host) fn tick(&mut self) -> Nanos {
        self.now = Nanos(self.now.0 + 1_000);
        self.now
    }

    /// Takes the operations that no longer wait for another operation.
    pub(super) fn settle(&mut self, queues: &mut Queues) {
        let (now, ready) = (self.now, &mut self.ready);
        queues.settle(now, |node| {
            match ready.binary_search_by_key(&node.slot, |(slot, _)| *slot) {
                Ok(at) => ready[at].1 = node.id,
                Err(at) => ready.insert(at, (node.slot, node.id)),
            }
        });
    }

    fn head(&self, slot: SlotId) -> Option<NodeId> {
        self.ready.iter().find(|(other, _)| *other == slot).map(|(_, id)| *id)
    }

    fn forget(&mut self, slot: SlotId) {
        self.ready.retain(|(other, _)| *other != slot);
    }

    /// Adds the streams that can take a step to `actors`.
    pub(in crate::device::host) fn streams(&mut self, queues: &Queues, actors: &mut Actors) {
        // Operations of a lost device were completed at the loss.
        self.ready.retain(|(_, id)| queues.node(*id).is_some());
        for (slot, _) in &self.ready {
            actors.push(Actor::Stream(slot.0));
        }
    }

    /// Chooses the actor that takes the next step.
    pub(super) fn choose(&mut self, enabled: &[Actor], queues: &mut Queues) -> Choice {
        let choice = self.decide(enabled, queues);
        self.joins_next_call =
            enabled[choice.index] == Actor::Thread(0) && !matches!(self.decider, Decider::Pct(_));
        choice
    }

    fn decide(&mut self, enabled: &[Actor], queues: &mut Queues) -> Choice {
        let whole = |index| Choice { index, torn_by: None };
        match &mut self.decider {
            Decider::Pct(pct) => whole(pct.choose(enabled)),
            Decider::List { .. } if enabled.len() == 1 => whole(0),
            Decider::List { steps, at } => {
                let number = steps.get(*at).copied().unwrap_or(0);
                *at += 1;
                Choice::from_number(number, enabled.len())
            }
            Decider::Search(search) => {
                let mut search = search.lock().expect("no thread panicked while it held this lock");
                let choice = search.choose(enabled);
                (self.listens, self.program_ended) = (search.listens(), search.is_over());
                if let Some(trail) = &mut queues.trail {
                    trail.step = search.step();
                }
                choice
            }
        }
    }

    /// Whether the driver behaves as the choice `what` describes. The decider is asked only about
    /// choices that can change results. Other choices only delay operations.
    pub(super) fn may(&mut self, what: May) -> bool {
        let matters =
            matches!(what, May::ReuseFinished | May::ReuseFollowing | May::BatchReadsAtOnce);
        if !matters {
            // A choice that only delays an operation makes no new outcome possible.
            return what == May::TrimKeepsUnseen;
        }
        match &mut self.decider {
            Decider::Pct(pct) => pct.prng.below(2) == 0,
            Decider::List { steps, at } => {
                *at += 1;
                steps.get(*at - 1).is_some_and(|step| *step != 0)
            }
            Decider::Search(search) => {
                search.lock().expect("no thread panicked while it held this lock").flip()
            }
        }
    }

    /// Notes that the running step touches an object.
    pub(in crate::device::host) fn touch(&self, object: Object, write: bool) {
        if let Decider::Search(search) = &self.decider
            && self.listens
        {
            search.lock().expect("no thread panicked while it held this lock").touch(object, write);
        }
    }

    /// Notes that the running step comes after the steps `causes`.
    pub(super) fn follow(&self, causes: &[u32]) {
        if let Decider::Search(search) = &self.decider
            && self.listens
            && !causes.is_empty()
        {
            search.lock().expect("no thread panicked while it held this lock").follow(causes);
        }
    }

    fn note_touches(&self, node: &Node, trail: Option<&Trail>) {
        if !self.listens {
            return;
        }
        self.follow(&node.causes);
        self.touch(Object::Progress(node.slot.0), true);
        if matches!(node.work, OpWork::HostFn(_)) {
            self.touch(Object::Host, true);
        }
        if let Some(trail) = trail {
            trail.touches(&node.work, |object, write| self.touch(object, write));
        }
    }

    /// Takes a step of a stream. Under PCT, this is one part of the stream's operation, otherwise
    /// the whole operation.
    pub(super) fn step(&mut self, queues: &mut Queues, faults: &Faults, slot: SlotId) -> Stepped {
        let now = self.tick();
        let Some(id) = self.head(slot) else { return Stepped::Moved };
        let Some(node) = queues.node(id) else { return Stepped::Moved };
        self.note_touches(node, queues.trail.as_ref());
        if matches!(node.work, OpWork::HostFn(_)) {
            let Some(OpWork::HostFn(called)) = queues.lend(id) else { return Stepped::Moved };
            self.forget(slot);
            return Stepped::Call(id, called);
        }
        let units = node.work.units();
        let count = if matches!(self.decider, Decider::Pct(_)) { units.min(PARTS) } else { 1 };
        let (part, last) = if count == 1 {
            (0, true)
        } else {
            let parts = self.begun.entry(id).or_insert_with(|| (0..count).rev().collect());
            (parts.pop().unwrap_or(0), parts.is_empty())
        };
        let range = part * units / count..(part + 1) * units / count;
        let outcome =
            faults.outcome(node).and_then(|()| exec::run(&node.work, range, self.threads));
        self.finish(queues, slot, id, last, outcome, now);
        Stepped::Moved
    }

    /// Runs the next operation of the stream `inner` in the middle of the next operation of
    /// `outer`.
    pub(super) fn step_torn(
        &mut self,
        queues: &mut Queues,
        faults: &Faults,
        outer: SlotId,
        inner: SlotId,
    ) -> Stepped {
        let now = self.tick();
        let (Some(a), Some(b)) = (self.head(outer), self.head(inner)) else {
            return Stepped::Moved;
        };
        let threads = self.threads;
        let run = |id: NodeId, cut: fn(u64) -> Range<u64>| match queues.node(id) {
            Some(node) => faults
                .outcome(node)
                .and_then(|()| exec::run(&node.work, cut(node.work.units()), threads)),
            None => Ok(()),
        };
        let first = run(a, |units| 0..units / 2);
        let middle = run(b, |units| 0..units);
        self.torn = Some((outer, a, first));
        if queues.node(b).is_some_and(|node| matches!(node.work, OpWork::HostFn(_)))
            && let Some(OpWork::HostFn(called)) = queues.lend(b)
        {
            self.forget(inner);
            return Stepped::Call(b, called);
        }
        self.finish(queues, inner, b, true, middle, now);
        self.end_torn(queues);
        Stepped::Moved
    }

    /// Runs the second half of a torn operation, after the operation that ran in its middle.
    pub(super) fn end_torn(&mut self, queues: &mut Queues) {
        let Some((slot, id, first)) = self.torn.take() else { return };
        let second = queues.node(id).map_or(Ok(()), |node| {
            let units = node.work.units();
            exec::run(&node.work, units / 2..units, self.threads)
        });
        let now = self.tick();
        self.finish(queues, slot, id, true, first.and(second), now);
    }

    fn finish(
        &mut self,
        queues: &mut Queues,
        slot: SlotId,
        id: NodeId,
        last: bool,
        outcome: Result<()>,
        now: Nanos,
    ) {
        if last || outcome.is_err() {
            self.forget(slot);
            self.begun.remove(&id);
        }
        if let Err(error) = outcome {
            queues.fail(id, error, now);
        } else if last {
            queues.complete(id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two actors take five steps each. Returns the number of runs in which the second actor starts
    /// between the third and the fourth step of the first actor. This needs two orderings.
    fn hits(depth: u32) -> usize {
        let is_hit = |seed: &u64| {
            let mut pct = Pct::new(*seed, depth, 10);
            let (mut at, mut order) = ([0; 2], Vec::new());
            while at != [5, 5] {
                let enabled: Vec<usize> = (0..2).filter(|actor| at[*actor] < 5).collect();
                let actors: Vec<Actor> = enabled
                    .iter()
                    .map(|actor| Actor::Stream(u32::try_from(*actor).expect("two")))
                    .collect();
                let actor = enabled[pct.choose(&actors)];
                at[actor] += 1;
                order.push(actor);
            }
            order.starts_with(&[0, 0, 0, 1])
        };
        (0..2000).filter(is_hit).count()
    }

    /// The bound of Burckhardt et al. 2010: at least 1 in n * k^(d-1), here 1 in 20.
    #[test]
    fn a_fault_of_depth_two_is_found_as_often_as_promised_and_never_with_depth_one() {
        assert_eq!(hits(1), 0);
        assert!(hits(2) >= 100, "{} of 2000", hits(2));
    }

    #[test]
    fn a_run_may_be_longer_than_any_number_of_steps_that_was_expected() {
        let mut pct = Pct::new(1, 2, u32::MAX);
        pct.changes = vec![3_000_000];
        pct.taken = 2_999_999;
        assert_eq!(pct.choose(&[Actor::Stream(0)]), 0);
        assert!(pct.priorities[&Actor::Stream(0)] < 1 << 63);
    }
}
