//! The parts of a call other than enqueuing: its turn, its injected fault, the objects that it
//! touches, and the waits of the host that the laws require (A16 to A19, A41).
#![forbid(unsafe_code)]

use super::graphs::launches_graph;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{
    CopySpans, EventHandle, Readiness, SourceOrder, StreamHandle, StreamKind,
};
use crate::device::host::HostDriver;
use crate::device::host::cost::CostModel;
use crate::device::host::engine::ids::{NodeId, Point, Points, SlotId};
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::refuse;
use crate::device::host::engine::slot::{Barrier, Kind};
use crate::device::host::engine::touches::Object;
use crate::device::host::engine::work::OpWork;
use crate::device::host::fault::{self, FaultKind, Verb};
use crate::device::host::order::May;
use crate::device::host::run::HostRun;
use crate::device::host::run::clock::WallClock;
use crate::device::host::run::turn::Switch;
use crate::device::host::shared::Guard;
use crate::device::host::state::State;
use crate::device::memory::{Memory, Space, Span};

/// Law A41: maximum number of pending operations of a stream (1021 measured). If a stream has this
/// many, the next enqueue call waits until an operation is complete.
const DEPTH: u64 = 1024;

/// A call on a stream. The call has begun, and holds the lock of the state.
pub(in crate::device::host) struct Call<'a> {
    pub(in crate::device::host) state: Guard<'a>,
    pub(in crate::device::host) slot: SlotId,
    op: &'static str,
    /// The injected fault of the operation that the call enqueues.
    fault: Option<FaultKind>,
}

impl State {
    /// Advances the time of the host by the duration of a call, and returns the time at the end of
    /// the call.
    pub(super) fn call_time(&mut self, wall: &WallClock, cost: fn(&CostModel) -> Nanos) -> Nanos {
        match &mut self.run {
            HostRun::Threads(_) => wall.now(),
            HostRun::Timed(simulation) => {
                let time = cost(simulation.cost());
                simulation.host_call(time)
            }
            HostRun::Stepped(stepper) => stepper.tick(),
        }
    }

    /// Notes that the running step touches an object.
    pub(in crate::device::host) fn touch(&self, object: Object, write: bool) {
        let HostRun::Stepped(stepper) = &self.run else { return };
        // Objects that streams do not touch matter only if there are several host threads.
        if self.baton.has_script() || object.is_of_streams() {
            stepper.touch(object, write);
        }
    }

    /// Notes that the running step enqueues an operation in a stream. The step touches the queue of
    /// the stream, and the barrier of the legacy stream.
    pub(super) fn touch_queue(&self, slot: SlotId) {
        if !self.explores() || !self.baton.has_script() {
            return;
        }
        let found = &self.queues.slots[slot.index()];
        self.touch(Object::Queue(slot.0), true);
        match found.kind {
            Kind::NonBlocking => {}
            Kind::Blocking => self.touch(Object::Legacy(found.device.0), false),
            Kind::Legacy => self.touch(Object::Legacy(found.device.0), true),
        }
    }
}

impl HostDriver {
    /// Begins a call that names no stream.
    pub(super) fn begin(&self, verb: Verb, device: DeviceId) -> Result<Guard<'_>> {
        self.check_device(fault::name(verb), device)?;
        let mut state = self.enter();
        self.count_call(&mut state, verb, device)?;
        state.queues.check_lost(device)?;
        Ok(state)
    }

    /// Begins a call on a stream.
    pub(super) fn begin_on(&self, verb: Verb, stream: StreamHandle) -> Result<Call<'_>> {
        let op = fault::name(verb);
        // An allocation and a query depend on the progress of the device. The other verbs do not.
        let mut state = match verb {
            Verb::Alloc | Verb::Query => self.turn(),
            Verb::StreamCreate
            | Verb::EventCreate
            | Verb::EventRecord
            | Verb::StreamWait
            | Verb::Synchronize
            | Verb::HostFn
            | Verb::Free
            | Verb::DeviceAlloc
            | Verb::RangeMap
            | Verb::PinnedAlloc
            | Verb::Copy
            | Verb::Fill
            | Verb::ModuleLoad
            | Verb::Launch
            | Verb::PoolQuery
            | Verb::GraphLaunch
            | Verb::GraphUpdate => self.enter(),
        };
        let found = &mut *state;
        let slot = found.queues.resolve(op, stream, || found.baton.thread_key())?;
        let device = state.queues.slots[slot.index()].device;
        let fault = self.count_call(&mut state, verb, device)?;
        state.queues.check_lost(device)?;
        Ok(Call { state, slot, op, fault })
    }

    /// Counts the call, and injects its fault if there is one. Returns the fault that must be
    /// attached to the operation that the call enqueues, if any.
    #[inline]
    pub(super) fn count_call(
        &self,
        state: &mut State,
        verb: Verb,
        device: DeviceId,
    ) -> Result<Option<FaultKind>> {
        match state.faults.count(verb) {
            None => Ok(None),
            Some(FaultKind::Refused | FaultKind::RefusedFrom) if launches_graph() => Ok(None),
            Some(kind) => self.inject(state, verb, device, kind),
        }
    }

    /// Injects a fault into the call. Returns the fault if it must be attached to the operation
    /// that the call enqueues.
    #[cold]
    fn inject(
        &self,
        state: &mut State,
        verb: Verb,
        device: DeviceId,
        kind: FaultKind,
    ) -> Result<Option<FaultKind>> {
        match kind {
            FaultKind::Refused | FaultKind::RefusedFrom => Err(fault::refusal(verb).on(device)),
            FaultKind::DeviceLost => {
                let cause = "the device was lost (injected fault)";
                let error = Error::new(ErrorKind::ContextLost, fault::name(verb), cause);
                let now = state.call_time(&self.shared.clock, |cost| cost.event_call);
                state.queues.lose(device, error.with_code(721).on(device), now);
                // Other threads may wait for operations that are complete now.
                self.shared.changed.notify_all();
                state.queues.check_lost(device)?;
                Ok(None)
            }
            FaultKind::Faults | FaultKind::Slow(_) | FaultKind::NeverCompletes => Ok(Some(kind)),
        }
    }

    /// Enqueues `work`, which comes after `waits`.
    pub(in crate::device::host) fn push<'a>(
        &'a self,
        call: Call<'a>,
        work: OpWork,
        waits: &[NodeId],
    ) -> Result<(Guard<'a>, NodeId)> {
        let Call { mut state, slot, op, fault } = call;
        let found = &state.queues.slots[slot.index()];
        if found.submitted - found.done >= DEPTH {
            let room = Point { slot, seq: found.submitted + 1 - DEPTH };
            state = self.wait_until(op, state, &Points::from_slice(&[room]), Switch::Never)?;
        }
        let now = state.call_time(&self.shared.clock, |cost| cost.enqueue);
        state.touch_queue(slot);
        let id = state.queues.push(op, slot, now, work, waits)?;
        if let Some(kind) = fault {
            state.attach_fault(id, kind);
        }
        self.wake(&mut state);
        Ok((state, id))
    }

    /// Makes later operations of the stream wait for `waits`. The call enqueues no operation of the
    /// stream.
    pub(super) fn push_hold(&self, call: Call<'_>, waits: &[NodeId]) -> Result<()> {
        let Call { mut state, slot, op, fault } = call;
        let now = state.call_time(&self.shared.clock, |cost| cost.enqueue);
        let id = state.queues.hold(op, slot, now, OpWork::Mark, waits)?;
        if let Some(kind) = fault {
            state.attach_fault(id, kind);
        }
        self.wake(&mut state);
        Ok(())
    }

    /// Wakes the workers, so that they take the arrived operations.
    pub(super) fn wake(&self, state: &mut State) {
        if matches!(state.run, HostRun::Threads(_)) {
            state.retire(self.shared.clock.now());
            self.shared.changed.notify_all();
        }
    }

    /// Waits for everything that was enqueued in `slot` so far.
    pub(super) fn wait_slot<'a>(
        &'a self,
        op: &'static str,
        state: Guard<'a>,
        slot: SlotId,
        switch: Switch,
    ) -> Result<Guard<'a>> {
        let points = state.queues.points_of(slot);
        let clock = state.queues.clock_of(&points);
        let device = state.queues.slots[slot.index()].device;
        let state = self.wait_for(op, state, &points, &clock, switch)?;
        state.queues.check_lost(device)?;
        Ok(state)
    }

    /// Waits for all work of a device (law A10).
    pub(super) fn wait_device<'a>(
        &'a self,
        op: &'static str,
        state: Guard<'a>,
        device: DeviceId,
    ) -> Result<Guard<'a>> {
        state.queues.check_lost(device)?;
        let points = state.queues.points_of_device(device);
        let clock = state.queues.clock_of(&points);
        let state = self.wait_for(op, state, &points, &clock, Switch::Threads)?;
        state.queues.check_lost(device)?;
        Ok(state)
    }

    /// Blocks the caller until all work that a device has now is complete. This is no
    /// synchronisation (laws A20, A24 and A42): the call makes no free count as seen complete.
    pub(super) fn block_for_device<'a>(
        &'a self,
        op: &'static str,
        state: Guard<'a>,
        device: DeviceId,
    ) -> Result<Guard<'a>> {
        state.queues.check_lost(device)?;
        let points = state.queues.points_of_device(device);
        let state = self.wait_until(op, state, &points, Switch::Never)?;
        state.queues.check_lost(device)?;
        Ok(state)
    }

    /// Queries an event (law A8). Returns the point that the event stands for, or `None` if
    /// everything up to this point is complete.
    pub(super) fn query_event(&self, event: EventHandle) -> Result<(Guard<'_>, Option<Point>)> {
        let op = "event query";
        let state = self.turn();
        let mut state = self.catch_up(state)?;
        let device = state.queues.device_of_event(op, event)?;
        self.count_call(&mut state, Verb::Query, device)?;
        state.touch(Object::Event(event.0), false);
        let Some((point, clock)) = state.queues.snapshot(op, event)? else {
            return Ok((state, None));
        };
        let readiness = state.observe(&[point], &clock);
        Ok((state, (readiness == Readiness::NotReady).then_some(point)))
    }

    /// Laws A16 and A17: an asynchronous copy. For pageable memory, the host also waits.
    pub(in crate::device::host) fn copy_async(
        &self,
        stream: StreamHandle,
        dst: &Span,
        src: &Span,
    ) -> Result<()> {
        let mut call = self.begin_on(Verb::Copy, stream)?;
        call.check_ranges([dst, src])?;
        let (from, to) = (src.memory().space(), dst.memory().space());
        let (op, slot) = (call.op, call.slot);
        let pageable = from == Space::Pageable || to == Space::Pageable;
        let work = OpWork::Copy(CopySpans { dst: dst.clone(), src: src.clone() });
        if from.is_host() && to.is_host() {
            let (state, _) = self.push(call, work, &[])?;
            return self.wait_slot(op, state, slot, Switch::Never).map(drop);
        }
        if !pageable || !call.state.may(May::PageableStages) {
            return self.push(call, work, &[]).map(drop);
        }
        if to.is_host() {
            // The driver copies from a staging buffer to pageable memory before the call returns.
            let (state, _) = self.push(call, work, &[])?;
            return self.wait_slot(op, state, slot, Switch::Never).map(drop);
        }
        let waits = call.state.may(May::PageableWaits);
        let (state, _) = self.copy_staged(call, dst, src)?;
        if waits { self.wait_slot(op, state, slot, Switch::Never).map(drop) } else { Ok(()) }
    }

    /// Waits for the stream, reads the source into a staging buffer, and enqueues a copy from the
    /// buffer. When this function returns, the source has been read.
    fn copy_staged<'a>(
        &'a self,
        call: Call<'a>,
        dst: &Span,
        src: &Span,
    ) -> Result<(Guard<'a>, NodeId)> {
        let (op, slot, fault) = (call.op, call.slot, call.fault);
        let staged = Memory::pageable(Bytes(src.bytes()))?.span(0..src.bytes());
        let read = OpWork::Copy(CopySpans { dst: staged.clone(), src: src.clone() });
        let (state, _) = self.push(Call { fault: None, ..call }, read, &[])?;
        let state = self.wait_slot(op, state, slot, Switch::Never)?;
        let write = OpWork::Copy(CopySpans { dst: dst.clone(), src: staged });
        self.push(Call { state, slot, op, fault }, write, &[])
    }

    /// Law A18: a synchronous copy. The copy is enqueued in the legacy stream, and the host waits.
    pub(in crate::device::host) fn copy_sync(
        &self,
        legacy: StreamHandle,
        dst: &Span,
        src: &Span,
    ) -> Result<()> {
        let call = self.begin_on(Verb::Copy, legacy)?;
        call.check_ranges([dst, src])?;
        let (op, slot, device) = (call.op, call.slot, call.device());
        match (src.memory().space(), dst.memory().space()) {
            (Space::Pageable, Space::Device(_)) => self.copy_staged(call, dst, src).map(drop),
            (Space::Device(a), Space::Device(b)) => {
                let work = OpWork::Copy(CopySpans { dst: dst.clone(), src: src.clone() });
                // Law A38: a copy between two devices is in order with the work of both devices.
                // The stream of the copy can belong to a third device.
                let both = if a == b { &[][..] } else { &[a, b][..] };
                let others = || both.iter().copied().filter(|other| *other != device);
                let queues = &call.state.queues;
                let waits: Vec<_> = others().flat_map(|other| queues.tails(other)).collect();
                let (mut state, id) = self.push(call, work, &waits)?;
                others().for_each(|other| state.queues.hold_back(other, slot, id));
                Ok(())
            }
            (Space::Pinned, Space::Device(_))
            | (
                Space::Device(_) | Space::Pinned | Space::Pageable,
                Space::Pinned | Space::Pageable,
            ) => {
                let work = OpWork::Copy(CopySpans { dst: dst.clone(), src: src.clone() });
                let (state, _) = self.push(call, work, &[])?;
                self.wait_slot(op, state, slot, Switch::Never).map(drop)
            }
        }
    }

    /// Law A19: a batch is one operation of the stream, but its sources may be read earlier.
    pub(super) fn copy_many(
        &self,
        stream: StreamHandle,
        copies: &[CopySpans],
        order: SourceOrder,
    ) -> Result<()> {
        let mut call = self.begin_on(Verb::Copy, stream)?;
        if copies.is_empty() {
            return Err(refuse::value("copy batch", "a batch needs at least one copy"));
        }
        copies.iter().try_for_each(|copy| call.check_ranges([&copy.dst, &copy.src]))?;
        let early = match order {
            SourceOrder::Stream => false,
            SourceOrder::DuringCall => true,
            SourceOrder::Any => call.state.may(May::BatchReadsAtOnce),
        };
        if !early {
            return self.push(call, OpWork::Batch(copies.into()), &[]).map(drop);
        }
        // The sources are read out of stream order, into staging buffers.
        let device = call.state.queues.slots[call.slot.index()].device;
        let staging = call.state.queues.staging_stream(device);
        let mut staged = Vec::with_capacity(copies.len());
        let mut reads = Vec::with_capacity(copies.len());
        for copy in copies {
            let place = Memory::pageable(Bytes(copy.src.bytes()))?.span(0..copy.src.bytes());
            staged.push(CopySpans { dst: copy.dst.clone(), src: place.clone() });
            reads.push(CopySpans { dst: place, src: copy.src.clone() });
        }
        let now = call.state.call_time(&self.shared.clock, |cost| cost.enqueue);
        let read =
            call.state.queues.push(call.op, staging, now, OpWork::Batch(reads.into()), &[])?;
        if order == SourceOrder::DuringCall {
            self.wake(&mut call.state);
            call.state = self.wait_slot(call.op, call.state, staging, Switch::Never)?;
        }
        self.push(call, OpWork::Batch(staged.into()), &[read]).map(drop)
    }

    /// Law A18: a synchronous fill waits only for page-locked memory.
    pub(in crate::device::host) fn fill_sync(
        &self,
        legacy: StreamHandle,
        dst: &Span,
        value: u8,
    ) -> Result<()> {
        let call = self.begin_on(Verb::Fill, legacy)?;
        call.check_reach(call.device(), dst)?;
        let (op, slot) = (call.op, call.slot);
        let (state, _) = self.push(call, OpWork::Fill { dst: dst.clone(), value }, &[])?;
        if dst.memory().space() == Space::Pinned {
            return self.wait_slot(op, state, slot, Switch::Never).map(drop);
        }
        Ok(())
    }
}

impl Call<'_> {
    pub(in crate::device::host) fn device(&self) -> DeviceId {
        self.state.queues.slots[self.slot.index()].device
    }

    /// Whether an injected fault keeps the operation of this call from completing.
    pub(super) fn never_completes(&self) -> bool {
        self.fault == Some(FaultKind::NeverCompletes)
    }

    /// Refuses a copy if it uses memory of a range to which the device has no access. Copies of
    /// other memory without access go through the host (measured).
    pub(super) fn check_ranges(&self, spans: [&Span; 2]) -> Result<()> {
        let device = self.device();
        for span in spans {
            let pools = &self.state.pools;
            if pools.ranges.has(span.memory()) && !pools.reaches(device, span.memory()) {
                let cause =
                    format!("{span} is in a range of addresses, to which {device} has no access");
                return Err(refuse::value("copy", cause));
            }
        }
        Ok(())
    }

    /// Law A39: refuses a fill of memory that the device cannot use.
    pub(super) fn check_reach(&self, device: DeviceId, dst: &Span) -> Result<()> {
        if self.state.pools.reaches(device, dst.memory()) {
            return Ok(());
        }
        Err(refuse::value(
            "fill",
            format!(
                "{device} cannot access {dst}; enable peer access, or fill memory of {device} and \
                 copy it"
            ),
        ))
    }
}

impl State {
    /// Notes that the running step depends on whether everything up to `point` is complete.
    pub(super) fn touch_progress(&self, point: Point) {
        self.touch(Object::Progress(point.slot.0), false);
        let Some(trail) = &self.queues.trail else { return };
        for slot in trail.streams_before(point) {
            self.touch(Object::Progress(slot.0), false);
        }
    }

    /// Laws A8 and A9: whether everything up to `points` is complete. If so, these operations count
    /// as seen complete by the host from now on.
    pub(super) fn observe(&mut self, points: &[Point], clock: &VectorClock) -> Readiness {
        points.iter().for_each(|point| self.touch_progress(*point));
        if !points.iter().all(|point| self.queues.completed(*point)) {
            return Readiness::NotReady;
        }
        self.queues.see(points, clock);
        Readiness::Ready
    }

    /// Attaches a fault to an operation. The fault takes effect when the operation runs.
    pub(super) fn attach_fault(&mut self, node: NodeId, kind: FaultKind) {
        match kind {
            FaultKind::NeverCompletes => self.queues.stuck.push(node),
            FaultKind::Refused
            | FaultKind::RefusedFrom
            | FaultKind::Faults
            | FaultKind::DeviceLost
            | FaultKind::Slow(_) => self.faults.attach(node, kind),
        }
    }
}

impl Queues {
    /// The operations of a device that other work has to follow. These are the last operations of
    /// its blocking streams and of its legacy stream, and the operation of its barrier. The
    /// operation of the barrier may be a copy between this device and another device.
    fn tails(&self, device: DeviceId) -> Vec<NodeId> {
        let of_device = &self.devices[device.0 as usize];
        let streams = of_device.blocking.iter().chain(&of_device.legacy);
        let last = streams.filter_map(|slot| self.last_of(*slot));
        last.chain(of_device.barrier.last).collect()
    }

    /// Law A38: later operations in the legacy stream of `device` and in its blocking streams wait
    /// for the operation `id` of another device.
    fn hold_back(&mut self, device: DeviceId, slot: SlotId, id: NodeId) {
        let earlier = self.barrier_of(device);
        let mut clock = self.snapshot_clock(slot);
        clock.join(&earlier.clock);
        let version = earlier.version + 1;
        let barrier = Barrier { last: Some(id), clock: std::sync::Arc::new(clock), version };
        self.set_barrier(device, barrier);
    }

    /// The internal stream of a device in which the sources of batches are read.
    fn staging_stream(&mut self, device: DeviceId) -> SlotId {
        if let Some(slot) = self.devices[device.0 as usize].staging {
            return slot;
        }
        let handle = self.stream_create(device, StreamKind::NonBlocking, 0);
        let slot = self.resolve("copy", handle, || 0).expect("the stream was created just now");
        self.devices[device.0 as usize].staging = Some(slot);
        slot
    }
}
