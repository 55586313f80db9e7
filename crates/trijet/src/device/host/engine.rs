//! The engine of the host device: streams as queues, events as snapshots, and which operation may
//! run next. One law per function; no time passes and no bytes move here. The executors drive it:
//! `simulate` with a model's clock, `threads` with real work.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Engine as Role;
use crate::base::units::Nanos;
use crate::device::args::ArgBlock;
use crate::device::driver::{EventHandle, HostFn, Readiness, StreamHandle, Timing};
use crate::device::memory::{Memory, Space, Span};
use crate::device::twin::{Cost, Twin};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A kernel with its arguments, ready to run tile by tile.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) name: Arc<str>,
    pub(super) twin: Twin,
    pub(super) args: ArgBlock,
    /// What the twin said of these arguments at the launch.
    pub(super) tile_elements: u64,
    pub(super) cost: Cost,
}

/// What a queue entry does.
pub(super) enum Work {
    /// Hold everything after it back until the other stream has completed its entry `seq`.
    Wait {
        stream: StreamHandle,
        seq: u64,
    },
    /// Note the time for a timed event.
    Record {
        event: EventHandle,
        generation: u64,
    },
    /// Give the bytes back to the device.
    Free(Memory),
    Copy {
        dst: Span,
        src: Span,
    },
    Fill {
        dst: Span,
        value: u8,
    },
    Kernel(Arc<Kernel>),
    HostFn(Option<HostFn>),
}

/// One entry of a stream's queue.
pub(super) struct Entry {
    pub(super) seq: u64,
    /// Its place among all enqueue calls of the driver.
    pub(super) order: u64,
    pub(super) enqueued: Nanos,
    pub(super) work: Work,
}

pub(super) struct Stream {
    pub(super) device: DeviceId,
    pub(super) priority: i32,
    pub(super) queue: VecDeque<Entry>,
    pub(super) submitted: u64,
    pub(super) done: u64,
    /// When the last completed entry was done: the head can begin no earlier.
    pub(super) clock: Nanos,
    pub(super) running: bool,
    destroyed: bool,
}

struct Event {
    device: DeviceId,
    timing: Timing,
    /// What it stands for: everything of the stream up to the number (law A4).
    snapshot: Option<(StreamHandle, u64)>,
    generation: u64,
    time: Option<Nanos>,
}

/// All queues of one host driver.
#[derive(Default)]
pub(super) struct Engine {
    pub(super) streams: BTreeMap<u64, Stream>,
    events: BTreeMap<u64, Event>,
    next_handle: u64,
    next_order: u64,
    /// Memory freed by retired entries, for the pools to account.
    pub(super) freed: Vec<Memory>,
    /// The first error of each device; everything after it fails the same way (law A40).
    lost: BTreeMap<DeviceId, Error>,
    /// Kernels of this name never end: a hung device, for tests of waits.
    pub(super) never_ends: Option<String>,
}

fn unknown(op: &'static str, what: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, op, format!("the {what} does not exist"))
}

impl Engine {
    pub(super) fn fresh_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    pub(super) fn stream_create(&mut self, device: DeviceId, priority: i32) -> StreamHandle {
        let handle = self.fresh_handle();
        let stream = Stream {
            device,
            priority,
            queue: VecDeque::new(),
            submitted: 0,
            done: 0,
            clock: Nanos(0),
            running: false,
            destroyed: false,
        };
        self.streams.insert(handle, stream);
        StreamHandle(handle)
    }

    /// Law A12: a destroyed stream still runs what was enqueued.
    pub(super) fn stream_destroy(&mut self, handle: StreamHandle) -> Result<()> {
        self.live_stream("stream destroy", handle)?.destroyed = true;
        self.drop_drained(handle);
        Ok(())
    }

    fn drop_drained(&mut self, handle: StreamHandle) {
        let drained = |s: &Stream| s.destroyed && s.queue.is_empty();
        // Events and waits compare against `done`, so a drained stream counts as complete.
        if self.streams.get(&handle.0).is_some_and(drained) {
            self.streams.remove(&handle.0);
        }
    }

    pub(super) fn live_stream(
        &mut self,
        op: &'static str,
        handle: StreamHandle,
    ) -> Result<&mut Stream> {
        match self.streams.get_mut(&handle.0) {
            Some(stream) if !stream.destroyed => Ok(stream),
            _ => Err(unknown(op, "stream")),
        }
    }

    pub(super) fn device_of(&self, handle: StreamHandle) -> Result<DeviceId> {
        self.streams.get(&handle.0).map(|s| s.device).ok_or_else(|| unknown("stream", "stream"))
    }

    /// Law A1: entries of one stream run in the order of the enqueue calls.
    pub(super) fn push(
        &mut self,
        op: &'static str,
        handle: StreamHandle,
        enqueued: Nanos,
        work: Work,
    ) -> Result<u64> {
        let device = self.live_stream(op, handle)?.device;
        self.check_lost(device)?;
        self.next_order += 1;
        let order = self.next_order;
        let stream = self.live_stream(op, handle)?;
        stream.submitted += 1;
        let seq = stream.submitted;
        stream.queue.push_back(Entry { seq, order, enqueued, work });
        Ok(seq)
    }

    pub(super) fn event_create(&mut self, device: DeviceId, timing: Timing) -> EventHandle {
        let handle = self.fresh_handle();
        let event = Event { device, timing, snapshot: None, generation: 0, time: None };
        self.events.insert(handle, event);
        EventHandle(handle)
    }

    /// Law A12: waits that were enqueued hold a snapshot of their own.
    pub(super) fn event_destroy(&mut self, event: EventHandle) -> Result<()> {
        match self.events.remove(&event.0) {
            Some(_) => Ok(()),
            None => Err(unknown("event destroy", "event")),
        }
    }

    /// Law A4: the event stands for everything enqueued so far; a second record overwrites.
    /// Law A6: event and stream are of one device.
    pub(super) fn event_record(
        &mut self,
        event: EventHandle,
        stream: StreamHandle,
        now: Nanos,
    ) -> Result<()> {
        let device = self.live_stream("event record", stream)?.device;
        let found = self.events.get(&event.0).ok_or_else(|| unknown("event record", "event"))?;
        if found.device != device {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "event record",
                format!("the event is of {} and the stream of {device}", found.device),
            ));
        }
        let generation = found.generation + 1;
        let seq = self.push("event record", stream, now, Work::Record { event, generation })?;
        if let Some(event) = self.events.get_mut(&event.0) {
            event.snapshot = Some((stream, seq));
            event.generation = generation;
            event.time = None;
        }
        Ok(())
    }

    /// Law A7: the snapshot at the call holds back all future work of the stream.
    /// Law A5: an event that was never recorded holds nothing back.
    pub(super) fn stream_wait(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
        now: Nanos,
    ) -> Result<()> {
        let found = self.events.get(&event.0).ok_or_else(|| unknown("stream wait", "event"))?;
        let Some((on, seq)) = found.snapshot else {
            return self.live_stream("stream wait", stream).map(|_| ());
        };
        self.push("stream wait", stream, now, Work::Wait { stream: on, seq }).map(|_| ())
    }

    /// Whether the stream has completed everything up to `seq`.
    pub(super) fn completed(&self, stream: StreamHandle, seq: u64) -> bool {
        self.streams.get(&stream.0).is_none_or(|s| s.done >= seq)
    }

    /// What an event stands for (law A8); `None` is the empty set of law A5.
    pub(super) fn snapshot(&self, event: EventHandle) -> Result<Option<(StreamHandle, u64)>> {
        let found = self.events.get(&event.0).ok_or_else(|| unknown("event", "event"))?;
        // By the event's device: the stream may be gone, and a worker still busy with its bytes.
        if found.snapshot.is_some() {
            self.check_lost(found.device)?;
        }
        Ok(found.snapshot)
    }

    pub(super) fn query(&self, target: Option<(StreamHandle, u64)>) -> Readiness {
        match target {
            Some((stream, seq)) if !self.completed(stream, seq) => Readiness::NotReady,
            _ => Readiness::Ready,
        }
    }

    /// Law A5: no time without timing, or before a record.
    pub(super) fn event_time(&self, event: EventHandle) -> Result<Nanos> {
        let op = "event elapsed";
        let found = self.events.get(&event.0).ok_or_else(|| unknown(op, "event"))?;
        if found.timing == Timing::Off {
            return Err(Error::new(ErrorKind::InvalidValue, op, "the event keeps no time"));
        }
        found.time.ok_or_else(|| {
            Error::new(ErrorKind::InvalidValue, op, "the event was not recorded or is not complete")
        })
    }

    /// Completes every head that needs no engine and was enqueued by `now`: satisfied waits,
    /// records, frees. Returns whether anything changed.
    pub(super) fn retire(&mut self, now: Nanos) -> bool {
        let mut any = false;
        loop {
            let next = self.streams.iter().find_map(|(handle, stream)| {
                let entry = stream.queue.front()?;
                let ready = entry.enqueued <= now
                    && !stream.running
                    && match &entry.work {
                        Work::Wait { stream, seq } => self.completed(*stream, *seq),
                        Work::Record { .. } | Work::Free(_) => true,
                        _ => false,
                    };
                let blocked_until_now = matches!(entry.work, Work::Wait { .. });
                ready.then_some((StreamHandle(*handle), blocked_until_now))
            });
            let Some((handle, waited)) = next else { return any };
            any = true;
            let Some(stream) = self.streams.get_mut(&handle.0) else { return any };
            let Some(entry) = stream.queue.front() else { return any };
            let mut time = stream.clock.max(entry.enqueued);
            if waited {
                time = time.max(now);
            }
            self.complete(handle, time);
        }
    }

    /// The head of the stream is done at `time`.
    pub(super) fn complete(&mut self, handle: StreamHandle, time: Nanos) {
        let Some(stream) = self.streams.get_mut(&handle.0) else { return };
        let Some(entry) = stream.queue.pop_front() else { return };
        stream.done = entry.seq;
        stream.clock = stream.clock.max(time);
        stream.running = false;
        let clock = stream.clock;
        match entry.work {
            Work::Record { event, generation } => {
                if let Some(event) = self.events.get_mut(&event.0)
                    && event.generation == generation
                {
                    event.time = Some(clock);
                }
            }
            Work::Free(memory) => self.freed.push(memory),
            _ => {}
        }
        self.drop_drained(handle);
    }

    /// The engine an entry needs.
    pub(super) fn role(work: &Work) -> Role {
        match work {
            Work::Copy { dst, src } => match (src.memory().space(), dst.memory().space()) {
                (Space::Pinned, Space::Device(_)) => Role::Upload,
                (Space::Device(_), Space::Pinned) => Role::Download,
                (Space::Device(a), Space::Device(b)) if a != b => Role::Peer,
                (Space::Pinned, Space::Pinned) => Role::Host,
                _ => Role::Compute,
            },
            Work::Fill { .. } | Work::Kernel(_) => Role::Compute,
            Work::HostFn(_) => Role::Host,
            Work::Wait { .. } | Work::Record { .. } | Work::Free(_) => Role::None,
        }
    }

    /// Streams whose head needs an engine and may start, the most urgent and oldest first.
    pub(super) fn startable(&self, now: Nanos) -> Vec<(StreamHandle, DeviceId, Role)> {
        let mut found: Vec<_> = self
            .streams
            .iter()
            .filter_map(|(handle, stream)| {
                let entry = stream.queue.front()?;
                let role = Self::role(&entry.work);
                let free = !stream.running && entry.enqueued <= now && role != Role::None;
                (free && !self.hangs(&entry.work)).then_some((
                    (stream.priority, entry.order),
                    (StreamHandle(*handle), stream.device, role),
                ))
            })
            .collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, item)| item).collect()
    }

    fn hangs(&self, work: &Work) -> bool {
        match (work, &self.never_ends) {
            (Work::Kernel(kernel), Some(name)) => *kernel.name == **name,
            _ => false,
        }
    }

    /// The earliest moment after `now` at which a head becomes visible to the device.
    pub(super) fn next_enqueue(&self, now: Nanos) -> Option<Nanos> {
        let heads = self.streams.values().filter_map(|s| s.queue.front());
        heads.map(|entry| entry.enqueued).filter(|time| *time > now).min()
    }

    /// Law A40: the device's context is lost. Its queues end; host functions in them are dropped
    /// without being called (law A29).
    pub(super) fn lose(&mut self, device: DeviceId, error: Error) {
        self.lost.entry(device).or_insert(error);
        for stream in self.streams.values_mut().filter(|s| s.device == device) {
            stream.queue.clear();
            stream.done = stream.submitted;
            stream.running = false;
        }
    }

    pub(super) fn check_lost(&self, device: DeviceId) -> Result<()> {
        match self.lost.get(&device) {
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }

    /// Why waiting for `target` would never end: the chain of heads that hold each other back.
    pub(super) fn stalled(&self, op: &'static str, target: StreamHandle) -> Error {
        let mut chain = Vec::new();
        let mut at = target;
        while let Some(stream) = self.streams.get(&at.0) {
            let Some(entry) = stream.queue.front() else { break };
            match &entry.work {
                Work::Wait { stream: on, seq } => {
                    chain.push(format!("stream {} waits for stream {} #{seq}", at.0, on.0));
                    at = *on;
                }
                Work::Kernel(kernel) => {
                    chain.push(format!("kernel `{}` in stream {} never ends", kernel.name, at.0));
                    break;
                }
                _ => {
                    chain.push(format!("stream {} cannot start its #{}", at.0, entry.seq));
                    break;
                }
            }
            if chain.len() > self.streams.len() {
                break;
            }
        }
        Error::new(ErrorKind::Stalled, op, chain.join("; "))
    }
}
