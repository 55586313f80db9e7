//! Streams: what each holds, what holds it back, and which numbers it has in the clocks.
//!
//! A stream is a component of the clocks, or the continuation of one: a stream that takes a lane after
//! another one does not follow that one's work by itself. Its numbers may go on from those of a former
//! stream only if the thread that creates it knows all work of that one to be complete, or if nothing
//! that is kept names that work any more.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::{Clock, Components, Stamp};
use super::seen::Seen;
use super::threads::Threads;
use crate::base::id::{BlockId, DeviceId, LaneId};
use crate::base::ledger::{Op, OpKind, Place, StreamClass};
use crate::base::vector_clock::VectorClock;
use crate::check::hash::NumberMap;
use std::collections::BTreeSet;

/// Former streams, the last ones, whose numbers a new one tries to continue.
const TRIED_MAX: usize = 8;

/// The calls of one thread that waited while other work was enqueued in the stream: that work is not
/// ordered with them, so that they have numbers of their own.
#[derive(Debug, Clone)]
struct Side {
    thread: usize,
    last: Stamp,
}

/// A stream.
#[derive(Debug, Clone)]
pub(in crate::check) struct Lane {
    pub(in crate::check) id: LaneId,
    component: LaneId,
    pub(in crate::check) class: StreamClass,
    pub(super) device: DeviceId,
    /// What is complete when its last call is.
    pub(super) tail: Clock,
    pub(super) seq: u64,
    /// What to add to a number here for the one in the record.
    pub(in crate::check) offset: u64,
    /// The thread that enqueued last, and the version of what it knew.
    taught: (usize, u64),
    /// The version of the legacy barrier that the tail includes.
    barrier_seen: u64,
    pub(in crate::check) waits: Vec<Seen>,
    sides: Vec<Side>,
}

/// The streams of a device.
#[derive(Debug, Clone, Default)]
pub(super) struct Around {
    members: Vec<usize>,
    /// What streams held whose lanes passed to others, and those of them that were blocking.
    gone: Clock,
    gone_blocking: Clock,
    /// What the legacy stream holds back the blocking ones for.
    barrier: Clock,
    barrier_version: u64,
}

impl Lane {
    fn new(op: &Op, component: LaneId) -> Self {
        Self {
            id: op.position.lane,
            component,
            class: op.stream,
            device: op.device,
            tail: Clock::new(),
            seq: 0,
            offset: 0,
            taught: (usize::MAX, 0),
            barrier_seen: 0,
            waits: Vec::new(),
            sides: Vec::new(),
        }
    }

    /// The stamp of a number of the stream.
    pub(super) fn stamp(&self, seq: u64) -> Stamp {
        Stamp { lane: self.component, seq }
    }

    fn components(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.sides.iter().map(|side| side.last.lane).chain([self.component])
    }

    pub(super) fn has(&self, component: LaneId) -> bool {
        self.component == component || self.sides.iter().any(|side| side.last.lane == component)
    }

    /// Whether `known` has all work that was ever enqueued under its numbers.
    fn is_known(&self, known: &VectorClock) -> bool {
        known.covers(self.stamp(self.seq)) && self.sides.iter().all(|side| known.covers(side.last))
    }

    /// Counts an operation.
    pub(super) fn count(&mut self, op: &Op) -> Stamp {
        self.seq += 1;
        self.offset = op.position.seq.saturating_sub(self.seq);
        self.stamp(self.seq)
    }
}

impl Around {
    /// What the legacy stream of the device comes after (laws A13 and A14).
    fn blocking(&self, lanes: &[Lane], into: &mut Clock) {
        into.join(&self.gone_blocking);
        for member in &self.members {
            let other = &lanes[*member];
            if other.class != StreamClass::NonBlocking {
                into.join(&other.tail);
            }
        }
    }

    fn hold_back(&mut self, tail: &Clock) -> u64 {
        self.barrier.join(tail);
        self.barrier_version += 1;
        self.barrier_version
    }
}

/// All streams.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct Lanes {
    pub(in crate::check) list: Vec<Lane>,
    pub(super) of: NumberMap<LaneId, usize>,
    /// Streams whose lanes passed to others, and those whose numbers any other may continue.
    former: Vec<usize>,
    vacant: Vec<usize>,
    pub(super) devices: NumberMap<DeviceId, Around>,
    /// Where blocks of devices lie.
    pub(super) homes: NumberMap<BlockId, DeviceId>,
}

impl Lanes {
    /// The stream that has the lane of the record.
    pub(super) fn of(&mut self, op: &Op, components: &mut Components) -> usize {
        if let Some(lane) = self.of.get(&op.position.lane) {
            return *lane;
        }
        let number = self.list.len();
        self.list.push(Lane::new(op, components.next()));
        self.enter(number, op);
        number
    }

    fn enter(&mut self, number: usize, op: &Op) {
        self.of.insert(op.position.lane, number);
        self.devices.entry(op.device).or_default().members.push(number);
    }

    /// The stream of the lane has nothing left to do, but may be waited for.
    pub(super) fn close(&mut self, id: LaneId) -> Option<usize> {
        let before = self.of.remove(&id)?;
        let lane = &mut self.list[before];
        let around = self.devices.entry(lane.device).or_default();
        around.members.retain(|member| *member != before);
        around.gone.join(&lane.tail);
        if lane.class != StreamClass::NonBlocking {
            around.gone_blocking.join(&lane.tail);
        }
        lane.waits.clear();
        lane.tail = Clock::new();
        self.former.push(before);
        Some(before)
    }

    /// A stream takes a lane. It follows the call that creates it, and nothing else: that call knows
    /// `known`.
    pub(super) fn open(&mut self, op: &Op, known: &Clock, components: &mut Components) {
        let number = self.vacant(known).unwrap_or(self.list.len());
        if number == self.list.len() {
            self.list.push(Lane::new(op, components.next()));
        }
        let lane = &mut self.list[number];
        lane.tail.copy_from(known);
        *lane = Lane {
            tail: std::mem::take(&mut lane.tail),
            seq: lane.seq,
            sides: std::mem::take(&mut lane.sides),
            ..Lane::new(op, lane.component)
        };
        lane.offset = op.position.seq.saturating_sub(lane.seq);
        self.enter(number, op);
    }

    /// A former stream whose numbers one may continue whose creator knows `known`.
    fn vacant(&mut self, known: &Clock) -> Option<usize> {
        if let Some(number) = self.vacant.pop() {
            return Some(number);
        }
        let first = self.former.len().saturating_sub(TRIED_MAX);
        let is_known = |number: &usize| self.list[*number].is_known(&known.sure);
        let found = self.former[first..].iter().rposition(is_known)?;
        Some(self.former.remove(first + found))
    }

    /// Frees the numbers of former streams that nothing names, and returns their components. `named`
    /// has the components of all stamps that are kept elsewhere, and `forget` says whether nothing
    /// else holds on to a stream.
    pub(super) fn retire(
        &mut self,
        known: &VectorClock,
        named: &BTreeSet<LaneId>,
        mut forget: impl FnMut(usize) -> bool,
    ) -> BTreeSet<LaneId> {
        let Self { list, former, vacant, .. } = self;
        let mut freed = BTreeSet::new();
        former.retain(|number| {
            let lane = &list[*number];
            let is_named = || lane.components().any(|component| named.contains(&component));
            let is_free = lane.is_known(known) || !is_named();
            if is_free && forget(*number) {
                freed.extend(lane.components());
                vacant.push(*number);
                return false;
            }
            true
        });
        self.list.iter_mut().for_each(|lane| lane.waits.retain(|seen| !seen.names(&freed)));
        freed
    }

    /// What the stream holds, as a record in it or a wait for it finds it: laws A1, A13 and A14.
    pub(super) fn held(&mut self, lane: usize) {
        if self.list[lane].class == StreamClass::Legacy {
            let mut tail = std::mem::take(&mut self.list[lane].tail);
            self.blocking_of(self.list[lane].device, &mut tail);
            self.list[lane].tail = tail;
        }
    }

    /// Adds what the blocking streams of the device hold, and its legacy stream.
    pub(super) fn blocking_of(&self, device: DeviceId, into: &mut Clock) {
        if let Some(around) = self.devices.get(&device) {
            around.blocking(&self.list, into);
        }
    }

    /// What the next work of the stream comes after.
    pub(super) fn reach(&mut self, threads: &Threads, thread: usize, lane: usize) {
        self.held(lane);
        let Lane { class, device, tail, barrier_seen, .. } = &mut self.list[lane];
        if *class != StreamClass::NonBlocking
            && let Some(around) = self.devices.get(device)
            && around.barrier_version != *barrier_seen
        {
            *barrier_seen = around.barrier_version;
            tail.join(&around.barrier);
        }
        self.teach(threads, thread, lane);
    }

    /// Law A38: and after what the blocking streams of another device hold, and its legacy stream.
    pub(super) fn reach_far(&mut self, device: DeviceId, lane: usize) {
        let mut tail = std::mem::take(&mut self.list[lane].tail);
        self.blocking_of(device, &mut tail);
        self.list[lane].tail = tail;
    }

    /// The same, where it is not sure yet that there will be work.
    pub(super) fn would_reach(&self, known: &Clock, lane: usize) -> Clock {
        let this = &self.list[lane];
        let mut before = this.tail.clone();
        if this.class == StreamClass::Legacy {
            self.blocking_of(this.device, &mut before);
        }
        if this.class != StreamClass::NonBlocking
            && let Some(around) = self.devices.get(&this.device)
        {
            before.join(&around.barrier);
        }
        before.join(known);
        before
    }

    /// Law A2.
    pub(super) fn teach(&mut self, threads: &Threads, thread: usize, lane: usize) {
        let caller = &threads.list[thread];
        let lane = &mut self.list[lane];
        if lane.taught != (thread, caller.version) {
            lane.taught = (thread, caller.version);
            lane.tail.join(&caller.known);
        }
    }

    /// Law A13: blocking streams wait for the legacy one from now on.
    pub(super) fn hold_back(&mut self, lane: usize) {
        let lane = &mut self.list[lane];
        if lane.class == StreamClass::Legacy
            && let Some(around) = self.devices.get_mut(&lane.device)
        {
            lane.barrier_seen = around.hold_back(&lane.tail);
        }
    }

    /// Law A38: so do the blocking streams and the legacy stream of another device.
    pub(super) fn hold_back_on(&mut self, device: DeviceId, lane: usize) {
        self.devices.entry(device).or_default().hold_back(&self.list[lane].tail);
    }

    /// A number for a call of the thread that waited while other work was enqueued in the stream.
    pub(super) fn beside(
        &mut self,
        lane: usize,
        thread: usize,
        components: &mut Components,
    ) -> Stamp {
        let of_thread = |side: &&mut Side| side.thread == thread;
        if let Some(side) = self.list[lane].sides.iter_mut().find(of_thread) {
            side.last.seq += 1;
            return side.last;
        }
        let last = Stamp { lane: components.next(), seq: 1 };
        self.list[lane].sides.push(Side { thread, last });
        last
    }

    /// Adds what a wait for the stream finds complete in the end: laws A9 and A14.
    pub(super) fn prefix(&self, lane: usize, known: &mut Clock) {
        let lane = &self.list[lane];
        known.join(&lane.tail);
        if lane.class == StreamClass::Legacy {
            self.blocking_of(lane.device, known);
        }
    }

    /// The same for the device: law A10.
    pub(super) fn all_of(&self, device: DeviceId, known: &mut Clock) {
        if let Some(around) = self.devices.get(&device) {
            known.join(&around.gone);
            around.members.iter().for_each(|lane| known.join(&self.list[*lane].tail));
        }
    }

    /// Per stream of the device, the number in the record up to which `known` has it complete.
    pub(super) fn in_flight(&self, device: DeviceId, known: &VectorClock) -> Vec<(LaneId, u64)> {
        let done = |lane: &Lane| known.get(lane.component);
        let members = self.devices.get(&device).into_iter().flat_map(|around| &around.members);
        let open = members.map(|lane| &self.list[*lane]).filter(|lane| done(lane) < lane.seq);
        open.map(|lane| (lane.id, done(lane).saturating_add(lane.offset))).collect()
    }

    /// Learns on which devices blocks lie.
    pub(super) fn dwell(&mut self, op: &Op) {
        if !matches!(op.kind, OpKind::Alloc | OpKind::AllocNow | OpKind::Free | OpKind::FreeNow) {
            return;
        }
        let on_device = op.accesses.iter().filter(|access| access.place == Place::Device);
        for access in on_device {
            match op.kind {
                OpKind::Alloc | OpKind::AllocNow => self.homes.insert(access.block, op.device),
                OpKind::Free | OpKind::FreeNow => self.homes.remove(&access.block),
                _ => return,
            };
        }
    }
}
