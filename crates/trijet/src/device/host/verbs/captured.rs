//! The captures of a driver, and their effect on calls (law A33). Refused calls return the codes
//! that an H200 returns.
//!
//! The calls on a captured stream are collected with their edges. A call that a capture does not
//! allow is refused and makes the capture invalid.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{
    Action, CaptureMode, CaptureState, EventHandle, NodeAction, OwnedNode,
};
use crate::device::host::engine::ids::SlotId;
use crate::device::host::engine::slot::Kind;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// `CUDA_ERROR_INVALID_VALUE`, `CUDA_ERROR_ILLEGAL_STATE`, and the codes about captures.
const INVALID_VALUE: i32 = 1;
const ILLEGAL_STATE: i32 = 401;
const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const MERGE: i32 = 902;
const UNMATCHED: i32 = 903;
const UNJOINED: i32 = 904;
const ISOLATION: i32 = 905;
const IMPLICIT: i32 = 906;
const CAPTURED_EVENT: i32 = 907;
const WRONG_THREAD: i32 = 908;

/// The captures of a driver.
#[derive(Debug, Default)]
pub(in crate::device::host) struct AllCaptures {
    /// Whether there ever was a capture. In a program without captures, calls check only this flag.
    any: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(in crate::device::host) struct State {
    /// The number of the last capture.
    last: u64,
    going_on: BTreeMap<u64, OpenCapture>,
    /// The events whose last record was in a capture. For each event: the number of the capture,
    /// and the indices of the nodes that the event stands for.
    events: HashMap<EventHandle, (u64, Vec<usize>)>,
}

/// A capture that has not ended.
#[derive(Debug)]
pub(in crate::device::host) struct OpenCapture {
    origin: SlotId,
    pub(super) device: DeviceId,
    mode: CaptureMode,
    /// The thread that began the capture.
    thread: u64,
    is_invalid: bool,
    /// The operations of the capture. Each operation has the indices of the nodes that it follows.
    pub(super) nodes: Vec<(OwnedNode, Vec<usize>)>,
    streams: BTreeMap<SlotId, CapturedStream>,
}

/// A stream in a capture.
#[derive(Debug)]
struct CapturedStream {
    /// Whether the stream is a blocking stream.
    blocks: bool,
    /// The indices of the nodes that the next operation of the stream follows.
    after: Vec<usize>,
}

/// The stream of a call, and the thread that makes the call.
#[derive(Debug, Clone, Copy)]
pub(in crate::device::host) struct At {
    pub(super) slot: SlotId,
    pub(super) device: DeviceId,
    pub(super) kind: Kind,
    pub(super) thread: u64,
}

fn error(op: &'static str, code: i32, cause: &'static str) -> Error {
    let kind = match code {
        INVALID_VALUE => ErrorKind::InvalidValue,
        ILLEGAL_STATE => ErrorKind::Driver,
        _ => ErrorKind::Capturing,
    };
    Error::new(kind, op, cause).with_code(code)
}

fn invalidated(op: &'static str) -> Error {
    error(
        op,
        INVALIDATED,
        "the capture of the stream is invalid, because a call was refused; end the capture",
    )
}

impl OpenCapture {
    /// Whether the legacy stream of the device would wait for a stream of this capture.
    fn holds_legacy(&self, device: DeviceId) -> bool {
        self.device == device && self.streams.values().any(|stream| stream.blocks)
    }

    /// Whether every operation of the other streams comes before the next operation of the stream
    /// in which the capture was begun.
    fn is_joined(&self) -> bool {
        let mut before = vec![false; self.nodes.len()];
        let mut next = self.streams[&self.origin].after.clone();
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut before[node], true) {
                next.extend(&self.nodes[node].1);
            }
        }
        self.streams.values().flat_map(|stream| &stream.after).all(|node| before[*node])
    }
}

impl State {
    fn of(&self, slot: SlotId) -> Option<u64> {
        let has = |capture: &&OpenCapture| capture.streams.contains_key(&slot);
        self.going_on.iter().find(|(_, capture)| has(capture)).map(|(number, _)| *number)
    }

    fn invalidate(&mut self, captures: impl Fn(&OpenCapture) -> bool) -> bool {
        let mut all = self.going_on.values_mut().filter(|capture| captures(capture)).peekable();
        let found = all.peek().is_some();
        all.for_each(|capture| capture.is_invalid = true);
        found
    }

    /// Refuses the use of the legacy stream if the legacy stream would wait for a captured stream.
    fn refuse_legacy(&mut self, op: &'static str, at: At) -> Result<()> {
        let holds = |capture: &OpenCapture| capture.holds_legacy(at.device);
        if at.kind == Kind::Legacy && self.invalidate(holds) {
            let cause = "the legacy stream would wait for a blocking stream that is captured";
            return Err(error(op, IMPLICIT, cause));
        }
        Ok(())
    }

    /// The valid capture of a stream; `None` if the stream is not captured. Fails if the capture is
    /// invalid.
    fn valid(&mut self, op: &'static str, slot: SlotId) -> Result<Option<(u64, &mut OpenCapture)>> {
        let Some(number) = self.of(slot) else { return Ok(None) };
        let capture = self.going_on.get_mut(&number).filter(|capture| !capture.is_invalid);
        capture.map(|capture| Some((number, capture))).ok_or_else(|| invalidated(op))
    }

    pub(super) fn add(&mut self, at: At, action: &Action<'_>) -> Result<bool> {
        let op = action.label();
        self.refuse_legacy(op, at)?;
        let Some((_, capture)) = self.valid(op, at.slot)? else { return Ok(false) };
        let node = action.as_node().ok().filter(|node| !matches!(node, NodeAction::HostFn(_)));
        let Some(node) = node else {
            capture.is_invalid = true;
            let cause = "a capture on a host device can contain only copies, fills and launches";
            return Err(error(op, UNSUPPORTED, cause));
        };
        let number = capture.nodes.len();
        let stream = capture.streams.get_mut(&at.slot).expect("`valid` has found it");
        let after = std::mem::replace(&mut stream.after, vec![number]);
        capture.nodes.push((OwnedNode::of(node), after));
        Ok(true)
    }

    pub(super) fn record(&mut self, at: At, event: EventHandle) -> Result<bool> {
        let op = "event record";
        self.refuse_legacy(op, at)?;
        match self.valid(op, at.slot)? {
            None => {
                self.events.remove(&event);
                Ok(false)
            }
            Some((number, capture)) => {
                let after = capture.streams[&at.slot].after.clone();
                self.events.insert(event, (number, after));
                Ok(true)
            }
        }
    }

    pub(in crate::device::host) fn wait(
        &mut self,
        at: At,
        event: EventHandle,
        was_recorded: bool,
    ) -> Result<bool> {
        let op = "stream wait";
        self.refuse_legacy(op, at)?;
        let of_stream = self.valid(op, at.slot)?.map(|(number, _)| number);
        match (of_stream, self.events.get(&event).cloned()) {
            (None, None) => Ok(false),
            (Some(_), None) if !was_recorded => Ok(true),
            (Some(number), None) => {
                self.invalidate_one(number);
                let cause = "the event was recorded before the capture of the stream";
                Err(error(op, ISOLATION, cause))
            }
            (of_stream, Some((number, nodes))) => {
                let known = self.going_on.get(&number).filter(|capture| !capture.is_invalid);
                if known.is_none() {
                    let cause = "the event was recorded in a capture that has ended";
                    return Err(error(op, INVALID_VALUE, cause));
                }
                if let Some(other) = of_stream.filter(|other| *other != number) {
                    self.invalidate_one(number);
                    self.invalidate_one(other);
                    return Err(error(
                        op,
                        MERGE,
                        "the stream and the event belong to different captures",
                    ));
                }
                let capture = self.going_on.get_mut(&number).expect("found above");
                let blocks = at.kind == Kind::Blocking;
                let joined = CapturedStream { blocks, after: Vec::new() };
                let stream = capture.streams.entry(at.slot).or_insert(joined);
                stream.after.extend(nodes);
                stream.after.sort_unstable();
                stream.after.dedup();
                Ok(true)
            }
        }
    }

    fn invalidate_one(&mut self, number: u64) {
        if let Some(capture) = self.going_on.get_mut(&number) {
            capture.is_invalid = true;
        }
    }

    /// Refuses a query or a synchronisation of a captured stream.
    pub(super) fn refuse_stream(&mut self, op: &'static str, at: At) -> Result<()> {
        self.refuse_legacy(op, at)?;
        let Some(number) = self.of(at.slot) else { return Ok(()) };
        self.invalidate_one(number);
        Err(error(op, UNSUPPORTED, "the stream is captured, so its work does not run"))
    }

    /// Refuses to wait for a device that has a stream in a capture.
    pub(super) fn refuse_device(&mut self, device: DeviceId) -> Result<()> {
        if self.invalidate(|capture| capture.device == device) {
            let cause = "a stream of the device is captured, so its work does not run";
            return Err(error("synchronize", UNSUPPORTED, cause));
        }
        Ok(())
    }

    /// Forgets an event that is destroyed, because a later event may get the same number.
    pub(super) fn forget(&mut self, event: EventHandle) {
        self.events.remove(&event);
    }

    /// Refuses a query or a synchronisation of an event that was recorded in a capture.
    pub(super) fn refuse_event(&mut self, op: &'static str, event: EventHandle) -> Result<()> {
        let Some((number, _)) = self.events.get(&event) else { return Ok(()) };
        let capture = self.going_on.get_mut(number).filter(|capture| !capture.is_invalid);
        let Some(capture) = capture else {
            let cause = "the event was recorded in a capture that has ended";
            return Err(error(op, INVALID_VALUE, cause));
        };
        capture.is_invalid = true;
        Err(error(op, CAPTURED_EVENT, "the event was recorded in a capture"))
    }

    pub(super) fn begin(&mut self, at: At, mode: CaptureMode) -> Result<()> {
        let op = "capture begin";
        if at.kind == Kind::Legacy {
            return Err(error(op, UNSUPPORTED, "the legacy stream cannot be captured"));
        }
        if self.of(at.slot).is_some() {
            return Err(error(op, ILLEGAL_STATE, "the stream is captured already"));
        }
        self.last += 1;
        let At { slot, device, kind, thread } = at;
        let first = CapturedStream { blocks: kind == Kind::Blocking, after: Vec::new() };
        let capture = OpenCapture {
            origin: slot,
            device,
            mode,
            thread,
            is_invalid: false,
            nodes: Vec::new(),
            streams: BTreeMap::from([(slot, first)]),
        };
        self.going_on.insert(self.last, capture);
        Ok(())
    }

    pub(in crate::device::host) fn state(&self, at: At) -> Result<CaptureState> {
        let holds = |capture: &OpenCapture| capture.holds_legacy(at.device);
        if at.kind == Kind::Legacy && self.going_on.values().any(holds) {
            let cause = "the legacy stream waits for a blocking stream that is captured";
            return Err(error("capture state", IMPLICIT, cause));
        }
        Ok(match self.of(at.slot).map(|number| self.going_on[&number].is_invalid) {
            None => CaptureState::None,
            Some(false) => CaptureState::Active,
            Some(true) => CaptureState::Invalidated,
        })
    }

    pub(in crate::device::host) fn end(&mut self, at: At) -> Result<OpenCapture> {
        let op = "capture end";
        let Some(number) = self.of(at.slot) else {
            return Err(error(op, ILLEGAL_STATE, "the stream is not captured"));
        };
        if self.going_on[&number].origin != at.slot {
            self.invalidate_one(number);
            let cause = "the capture was begun in another stream";
            return Err(error(op, UNMATCHED, cause));
        }
        let capture = self.going_on.remove(&number).expect("found above");
        if capture.mode != CaptureMode::Relaxed && capture.thread != at.thread {
            let cause = "another thread began the capture; end it in that thread, or begin it in \
                         relaxed mode";
            return Err(error(op, WRONG_THREAD, cause));
        }
        if capture.is_invalid {
            return Err(invalidated(op));
        }
        if !capture.is_joined() {
            let cause = "another captured stream has operations that the first stream does not \
                         wait for; record an event after them and make the first stream wait for \
                         it";
            return Err(error(op, UNJOINED, cause));
        }
        Ok(capture)
    }
}

impl AllCaptures {
    pub(in crate::device::host) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked while it held this lock")
    }

    /// Whether there was ever a capture.
    pub(in crate::device::host) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self) {
        self.any.store(true, Ordering::Relaxed);
    }
}
