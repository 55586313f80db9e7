//! The streams of a ledger, and for each stream the set that its next entry follows.
//!
//! The *tail* of a stream is the set of everything that has passed when the last entry of the
//! stream has passed. For each entry the reader calls [`Streams::begin_entry`] and
//! [`Streams::follow_caller`]. After these calls, the tail is the set that the entry's start
//! follows. Then the reader adds the entry's end to the tail ([`Streams::tail_mut`]) and calls
//! [`Streams::end_entry`].
#![forbid(unsafe_code)]

use super::past::{Edge, Laws, Past};
use super::peers::BlockDevices;
use crate::base::hash::NumberMap;
use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{Engine, Op, OpKind, StreamClass, StreamMark, StreamWork};

/// How an entry takes part in the order with the legacy stream (laws A4, A13 and A14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An operation. In the legacy stream, the operation waits for all blocking streams, and later
    /// operations of the blocking streams wait for the operation.
    Work,
    /// A wait for an event that was recorded. In the legacy stream, the wait counts as an
    /// operation. In a blocking stream, the wait does not follow the legacy stream.
    Wait,
    /// A record. In the legacy stream, the record follows the work of the blocking streams, and
    /// does not hold back later work of these streams. In a blocking stream, the record does not
    /// follow the legacy stream.
    Record,
    /// A stream-ordered allocation. The allocation may put no work into the stream, and has no
    /// order with the legacy stream.
    Allocation,
}

impl Role {
    /// The role of an entry; `None` if the entry is in no stream.
    pub(crate) fn of(kind: &OpKind, laws: Laws) -> Option<Self> {
        let role = match kind {
            OpKind::Mark(StreamMark::Record { .. }) => Self::Record,
            OpKind::Mark(StreamMark::Wait { .. }) => Self::Wait,
            OpKind::Work(StreamWork::Alloc) => Self::Allocation,
            OpKind::Work(StreamWork::Copy | StreamWork::CopyNow | StreamWork::Batch(_))
            | OpKind::Work(StreamWork::Fill | StreamWork::FillNow)
            | OpKind::Work(StreamWork::Free | StreamWork::Kernel | StreamWork::HostFn) => {
                Self::Work
            }
            OpKind::Memory(_) | OpKind::Host(_) | OpKind::Signal(_) | OpKind::Note(_) => {
                return None;
            }
        };
        Some(if laws == Laws::Measured { Self::Work } else { role })
    }

    /// Whether an entry of this role in a blocking stream waits for earlier work of the legacy
    /// stream.
    fn is_held_back(self) -> bool {
        self == Self::Work
    }

    /// Whether an entry of this role in the legacy stream waits for the work of the blocking
    /// streams.
    fn joins(self) -> bool {
        self != Self::Allocation
    }

    /// Whether later work of the blocking streams waits for an entry of this role in the legacy
    /// stream.
    fn holds_back(self, laws: Laws) -> bool {
        match self {
            Self::Work | Self::Wait => true,
            Self::Record => laws == Laws::Observed,
            Self::Allocation => false,
        }
    }
}

/// The host thread of a call, and the set that the thread knows to be complete (law A2).
#[derive(Debug)]
pub(crate) struct Caller<'a, P> {
    pub(crate) thread: usize,
    /// The version of `known`. The version changes whenever `known` changes.
    pub(crate) version: u64,
    pub(crate) known: &'a P,
}

/// A call that has begun and may wait. The call holds no lock while it waits, so other threads may
/// enqueue in the stream of the call until the call returns. The operation of the call follows
/// everything that the stream held at the start of the call. The operation has no order with the
/// entries that came to the stream after that start (laws A17 and A18).
#[derive(Debug, Clone)]
pub(crate) struct Begun<P> {
    /// The number of the stream of the call.
    pub(crate) lane: usize,
    /// The set that the operation of the call follows, without the work of other devices.
    pub(crate) before: P,
    /// The set that a wait for the stream would have found complete when the call began.
    pub(crate) held: P,
    /// For each device other than the device of the call: the set that the blocking streams of that
    /// other device held when the call began.
    peers: Vec<(DeviceId, P)>,
}

/// A stream, with the set of everything that has passed in it.
#[derive(Debug, Clone)]
struct StreamEdges<P> {
    class: StreamClass,
    device: DeviceId,
    /// The set of everything that has passed when the last entry of the stream has passed.
    tail: P,
    /// The last thread that enqueued in the stream, and the version of [`Caller::known`] at that
    /// call. The tail includes that `known`.
    last_caller: (usize, u64),
    /// The version of the barrier of the stream's device that the tail includes.
    barrier_seen: u64,
    /// Whether `all` of the stream's device includes the present tail.
    is_joined: bool,
    /// Whether `blocking` of the stream's device includes the present tail.
    is_joined_blocking: bool,
}

/// The union of the tails of several streams. A tail is added again only after it has changed.
#[derive(Debug, Clone, Default)]
struct Joined<P> {
    past: P,
    /// The numbers of the streams whose tails have changed since the tails were added to `past`.
    changed: Vec<usize>,
}

/// The streams of a device.
#[derive(Debug, Clone, Default)]
struct StreamsOfDevice<P> {
    /// The numbers of the streams that have a lane.
    members: Vec<usize>,
    /// The union of the tails of all streams.
    all: Joined<P>,
    /// The union of the tails of the blocking streams, the default streams of threads and the
    /// legacy stream.
    blocking: Joined<P>,
    /// The set that later work of blocking streams waits for because of the legacy stream.
    barrier: P,
    /// The version of the barrier. The version changes whenever the barrier changes.
    barrier_version: u64,
}

/// All streams, after the entries that were read.
#[derive(Debug, Clone)]
pub(crate) struct Streams<P> {
    laws: Laws,
    list: Vec<StreamEdges<P>>,
    by_lane: NumberMap<LaneId, usize>,
    devices: NumberMap<DeviceId, StreamsOfDevice<P>>,
    block_devices: BlockDevices,
    /// For each graph, by its number: the set of everything that has passed when the last launch of
    /// the graph has passed (law A31).
    launches: NumberMap<u64, P>,
}

impl<P: Past> StreamEdges<P> {
    fn new(op: &Op) -> Self {
        Self {
            class: op.stream,
            device: op.device,
            tail: P::default(),
            last_caller: (usize::MAX, 0),
            barrier_seen: 0,
            is_joined: true,
            is_joined_blocking: true,
        }
    }

    fn is_blocking(&self) -> bool {
        match self.class {
            StreamClass::Legacy | StreamClass::PerThread | StreamClass::Blocking => true,
            StreamClass::NonBlocking => false,
        }
    }
}

impl<P: Past> Streams<P> {
    pub(crate) fn new(laws: Laws) -> Self {
        Self {
            laws,
            list: Vec::new(),
            by_lane: NumberMap::default(),
            devices: NumberMap::default(),
            block_devices: BlockDevices::default(),
            launches: NumberMap::default(),
        }
    }

    /// The number of streams, which is the next unused number.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The edges that the reader relies on.
    pub(crate) fn laws(&self) -> Laws {
        self.laws
    }

    /// The number of the stream that has the lane.
    #[inline]
    pub(crate) fn find(&self, lane: LaneId) -> Option<usize> {
        self.by_lane.get(&lane).copied()
    }

    /// Adds an empty stream with this number: the next unused number, or the number of a former
    /// stream.
    pub(crate) fn enter(&mut self, number: usize, op: &Op) {
        match self.list.get_mut(number) {
            Some(stream) => *stream = StreamEdges::new(op),
            None => self.list.push(StreamEdges::new(op)),
        }
        self.by_lane.insert(op.position.lane, number);
        self.devices.entry(op.device).or_default().members.push(number);
    }

    /// Opens a stream in the lane of `op`. The stream follows only the call that creates the
    /// stream. The thread of that call knows `known` to be complete.
    pub(crate) fn open(&mut self, number: usize, op: &Op, known: &P) {
        self.enter(number, op);
        self.tail_mut(number).follow(known, Edge::Call);
    }

    /// Closes the stream that has the lane, because the lane passes to another stream. The closed
    /// stream has no work left, but a wait for its device still includes the stream. Returns the
    /// number of the closed stream.
    pub(crate) fn close(&mut self, lane: LaneId) -> Option<usize> {
        let number = self.by_lane.remove(&lane)?;
        let stream = &mut self.list[number];
        let device = self.devices.entry(stream.device).or_default();
        device.members.retain(|member| *member != number);
        let joined = [(&mut device.all, Edge::Lane), (&mut device.blocking, Edge::Legacy)];
        for (Joined { past, changed }, edge) in joined {
            if let Some(at) = changed.iter().position(|changed| *changed == number) {
                changed.remove(at);
                past.follow(&stream.tail, edge);
            }
        }
        stream.tail = P::default();
        (stream.is_joined, stream.is_joined_blocking) = (true, true);
        Some(number)
    }

    /// Notes the devices of the blocks that an entry allocates or frees. This adds no order.
    pub(crate) fn note_block(&mut self, op: &Op) {
        self.block_devices.note(op);
    }

    pub(crate) fn device(&self, lane: usize) -> DeviceId {
        self.list[lane].device
    }

    pub(crate) fn class(&self, lane: usize) -> StreamClass {
        self.list[lane].class
    }

    /// The streams of the device that have a lane.
    pub(crate) fn members(&self, device: DeviceId) -> &[usize] {
        self.devices.get(&device).map_or(&[], |device| &device.members)
    }

    /// The tail of the stream: the set of everything that has passed when the stream's last entry
    /// has passed. After [`Streams::begin_entry`] and [`Streams::follow_caller`], the tail is the
    /// set that the next entry follows.
    #[inline]
    pub(crate) fn tail(&self, lane: usize) -> &P {
        &self.list[lane].tail
    }

    /// The tail of the stream, for changes by the caller.
    #[inline]
    pub(crate) fn tail_mut(&mut self, lane: usize) -> &mut P {
        let stream = &self.list[lane];
        if stream.is_joined || stream.is_joined_blocking && stream.is_blocking() {
            self.mark_changed(lane);
        }
        &mut self.list[lane].tail
    }

    /// Notes that the tail of the stream changes.
    fn mark_changed(&mut self, lane: usize) {
        let stream = &mut self.list[lane];
        let device = self.devices.entry(stream.device).or_default();
        if std::mem::take(&mut stream.is_joined) {
            device.all.changed.push(lane);
        }
        if stream.is_blocking() && std::mem::take(&mut stream.is_joined_blocking) {
            device.blocking.changed.push(lane);
        }
    }

    /// The set that the blocking streams and the legacy stream of the device hold.
    fn blocking(&mut self, device: DeviceId) -> Option<&P> {
        let Joined { past, changed } = &mut self.devices.get_mut(&device)?.blocking;
        for lane in changed.drain(..) {
            let stream = &mut self.list[lane];
            stream.is_joined_blocking = true;
            past.follow(&stream.tail, Edge::Legacy);
        }
        Some(past)
    }

    /// Adds to the tail of the stream what the blocking streams of the device hold.
    fn join_blocking(&mut self, lane: usize, device: DeviceId) {
        self.blocking(device);
        if let Some(device) = self.devices.get(&device) {
            self.list[lane].tail.follow(&device.blocking.past, Edge::Legacy);
        }
        self.mark_changed(lane);
    }

    /// The set that is complete when a wait for the stream ends. A staged copy in the stream finds
    /// the same set complete (laws A9, A13 and A14).
    pub(crate) fn held(&mut self, lane: usize) -> &P {
        if self.list[lane].class == StreamClass::Legacy {
            self.join_blocking(lane, self.list[lane].device);
        }
        &self.list[lane].tail
    }

    /// Begins an entry. After this call, the tail of the stream is the set that the entry follows,
    /// without the knowledge of its caller. This set includes everything that the stream holds (law
    /// A1), and everything that the order with the legacy stream adds (laws A13, A14 and A38). For
    /// a wait, the set includes the set `on` that the wait waits for (law A7). For a launch of a
    /// graph, the set includes the previous launch of the graph (law A31).
    pub(crate) fn begin_entry(&mut self, lane: usize, op: &Op, role: Role, on: Option<&P>) {
        let StreamEdges { class, device, .. } = self.list[lane];
        if role.joins() && class == StreamClass::Legacy {
            self.join_blocking(lane, device);
        }
        if role.is_held_back()
            && self.list[lane].is_blocking()
            && let Some(of_device) = self.devices.get(&device)
            && of_device.barrier_version != self.list[lane].barrier_seen
        {
            let stream = &mut self.list[lane];
            stream.barrier_seen = of_device.barrier_version;
            stream.tail.follow(&of_device.barrier, Edge::Legacy);
            self.mark_changed(lane);
        }
        for other in self.peer_devices(lane, op) {
            self.join_blocking(lane, other);
        }
        if let Some(on) = on {
            self.tail_mut(lane).follow(on, Edge::Event);
        }
        if let Some(launch) = op.graph.and_then(|graph| self.launches.get(&graph)) {
            self.list[lane].tail.follow(launch, Edge::Graph);
            self.mark_changed(lane);
        }
    }

    /// Adds to the tail of the stream the call of the next entry, and everything that the thread of
    /// the call knew (law A2).
    #[inline]
    pub(crate) fn follow_caller(&mut self, lane: usize, by: &Caller<'_, P>) {
        let now = (by.thread, by.version);
        if self.list[lane].last_caller != now {
            self.list[lane].last_caller = now;
            self.tail_mut(lane).follow(by.known, Edge::Call);
        }
    }

    /// Ends an entry. The tail already includes the end of the entry. From now on, later work of
    /// the streams that the entry holds back waits for the entry.
    pub(crate) fn end_entry(&mut self, lane: usize, op: &Op, role: Role) {
        if let Some(graph) = op.graph {
            self.launches.entry(graph).or_default().copy_from(&self.list[lane].tail);
        }
        if self.list[lane].class != StreamClass::Legacy {
            return;
        }
        self.hold_back(lane, op, role);
        if role.joins() {
            // The entry follows everything that the blocking streams hold, so its tail can replace
            // their union.
            let StreamEdges { device, tail, is_joined_blocking, .. } = &mut self.list[lane];
            if let Some(device) = self.devices.get_mut(device) {
                device.blocking.past.copy_from(tail);
                device.blocking.changed.retain(|changed| *changed != lane);
                *is_joined_blocking = true;
            }
        }
    }

    /// Adds the tail of the legacy stream to the barrier of each device whose blocking streams wait
    /// for an entry of this role.
    fn hold_back(&mut self, lane: usize, op: &Op, role: Role) {
        if self.list[lane].class != StreamClass::Legacy || !role.holds_back(self.laws) {
            return;
        }
        let others = self.peer_devices(lane, op);
        let stream = &mut self.list[lane];
        for (number, device) in [stream.device].into_iter().chain(others).enumerate() {
            let device = self.devices.entry(device).or_default();
            device.barrier.follow(&stream.tail, Edge::Legacy);
            device.barrier_version += 1;
            if number == 0 {
                stream.barrier_seen = device.barrier_version;
            }
        }
    }

    /// The other devices of a copy between devices in the legacy stream (law A38).
    fn peer_devices(&self, lane: usize, op: &Op) -> Vec<DeviceId> {
        let StreamEdges { class, device, .. } = &self.list[lane];
        if *class != StreamClass::Legacy {
            return Vec::new();
        }
        self.block_devices.peers_of_copy(op, *device, self.devices.keys().copied())
    }

    /// Begins a call that may wait.
    pub(crate) fn begin_call(&mut self, lane: usize, op: &Op, by: &Caller<'_, P>) -> Begun<P> {
        let device = self.list[lane].device;
        let mut held = P::default();
        self.wait_for_stream(lane, &mut held);
        let mut before = held.clone();
        if self.list[lane].is_blocking()
            && let Some(device) = self.devices.get(&device)
        {
            before.follow(&device.barrier, Edge::Legacy);
        }
        before.follow(by.known, Edge::Call);
        let mut peers = Vec::new();
        if op.engine == Engine::Peer {
            let others: Vec<DeviceId> = self.devices.keys().copied().collect();
            for other in others.into_iter().filter(|other| *other != device) {
                peers.extend(self.blocking(other).map(|past| (other, past.clone())));
            }
        }
        Begun { lane, before, held, peers }
    }

    /// Ends a call that had begun. Returns the set that the operation of the call follows. The
    /// reader adds this set and the end of the operation to the tail, and then calls
    /// [`Streams::end_call`].
    pub(crate) fn return_call(&self, begun: Begun<P>, op: &Op) -> P {
        let Begun { lane, mut before, peers, .. } = begun;
        let others = self.peer_devices(lane, op);
        for (_, past) in peers.iter().filter(|(device, _)| others.contains(device)) {
            before.follow(past, Edge::Legacy);
        }
        if let Some(launch) = op.graph.and_then(|graph| self.launches.get(&graph)) {
            before.follow(launch, Edge::Graph);
        }
        before
    }

    /// Ends an operation whose call had begun. The tail includes the end of the operation.
    /// Operations that came to other streams while the call waited may come before or after this
    /// operation. `passed` is the set of everything that has passed when this operation has passed.
    pub(crate) fn end_call(&mut self, lane: usize, op: &Op, passed: &P) {
        if let Some(graph) = op.graph {
            self.launches.entry(graph).or_default().copy_from(passed);
        }
        self.hold_back(lane, op, Role::Work);
    }

    /// Adds to `into` what is complete when a wait for the stream ends (laws A9 and A14).
    pub(crate) fn wait_for_stream(&mut self, lane: usize, into: &mut P) {
        let StreamEdges { class, device, .. } = self.list[lane];
        into.follow(&self.list[lane].tail, Edge::Lane);
        if class == StreamClass::Legacy
            && let Some(past) = self.blocking(device)
        {
            into.follow(past, Edge::Legacy);
        }
    }

    /// Adds to `into` what is complete when a wait for the device ends (law A10).
    pub(crate) fn wait_for_device(&mut self, device: DeviceId, into: &mut P) {
        let Some(device) = self.devices.get_mut(&device) else { return };
        let Joined { past, changed } = &mut device.all;
        for lane in changed.drain(..) {
            let stream = &mut self.list[lane];
            stream.is_joined = true;
            past.follow(&stream.tail, Edge::Lane);
        }
        into.follow(past, Edge::Lane);
    }

    /// Replaces the union of the tails of all streams of the device by `by`. The set `by` follows
    /// everything in that union. Call this function directly after [`Streams::wait_for_device`].
    pub(crate) fn stand_for_device(&mut self, device: DeviceId, by: &P) {
        self.devices.entry(device).or_default().all.past.copy_from(by);
    }

    /// Replaces the union of the tails of the blocking streams of the device by `by`. The set `by`
    /// follows everything in that union. Call this function directly after
    /// [`Streams::wait_for_stream`] for the legacy stream.
    pub(crate) fn stand_for_legacy(&mut self, device: DeviceId, by: &P) {
        self.devices.entry(device).or_default().blocking.past.copy_from(by);
    }

    /// Forgets the launches of graphs for which `is_known` returns true. Every later entry follows
    /// these launches anyway.
    pub(crate) fn forget_launches(&mut self, is_known: impl Fn(&P) -> bool) {
        self.launches.retain(|_, launch| !is_known(launch));
    }

    /// The number of blocks with known devices, plus the number of graphs whose last launch is
    /// kept.
    pub(crate) fn held_state(&self) -> usize {
        self.block_devices.len() + self.launches.len()
    }
}
