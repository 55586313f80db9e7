//! A trace in the format of Perfetto: `TrackEvent` packets, for <https://ui.perfetto.dev> and
//! `trace_processor`.
//!
//! A device has the tracks of its engines, then the tracks of its streams, then its counters. Host
//! threads follow. An operation is a slice in the track of its engine and in the track of its
//! stream. The call of the operation is a slice in the track of the host thread. The field numbers
//! come from `protos/perfetto/trace` in Perfetto's sources, where they never change. Equal traces
//! give equal bytes.
#![deny(clippy::wildcard_enum_match_arm)]
#![forbid(unsafe_code)]

mod wire;

use super::html::HazardNote;
use super::tracks::{Shows, Track, kind_name, span, times, track_name, tracks};
use crate::base::dag::DagNode;
use crate::base::id::DeviceId;
use crate::base::ledger::{Declared, Engine, Op};
use std::collections::BTreeMap;
use wire::Message;

/// Field numbers of `Trace` and `TracePacket`.
const PACKET: u32 = 1;
const TIMESTAMP: u32 = 8;
const SEQUENCE: u32 = 10;
const TRACK_EVENT: u32 = 11;
const TRACK_DESCRIPTOR: u32 = 60;

/// Field numbers of `TrackDescriptor`, and of the `CounterDescriptor` in a `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PARENT: u32 = 5;
const COUNTER: u32 = 8;
const CHILD_ORDERING: u32 = 11;
const RANK: u32 = 12;
const UNIT: u32 = 3;

/// `CHILD_TRACKS_ORDERING_EXPLICIT`: child tracks are sorted by their rank.
const EXPLICIT: u64 = 3;
/// The units `UNIT_COUNT` and `UNIT_SIZE_BYTES` of a counter.
const OPERATIONS: u64 = 2;
const BYTES: u64 = 3;

/// Field numbers of `TrackEvent`.
const ANNOTATION: u32 = 4;
const TYPE: u32 = 9;
const TRACK: u32 = 11;
const CATEGORY: u32 = 22;
const EVENT_NAME: u32 = 23;
const COUNTER_VALUE: u32 = 30;
const FLOW: u32 = 47;
const FLOW_END: u32 = 48;

/// Values of the field `type` of a `TrackEvent`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER_SAMPLE: u64 = 4;

/// Field numbers of `DebugAnnotation`.
const UINT: u32 = 3;
const DOUBLE: u32 = 5;
const STRING: u32 = 6;
const ANNOTATION_NAME: u32 = 10;

/// The trace in the format of Perfetto, with an arrow for each of `edges` and a mark for each of
/// `findings`. An edge leads from the call or the work of one operation to the call or the work of
/// another operation. Pass the edges of the critical path only, because arrows for all edges of a
/// run would hide that path.
///
/// ```
/// use trijet::trace::perfetto;
/// assert!(perfetto::trace(&[], &[], &[]).is_empty());
/// ```
///
/// # Panics
/// If an edge or a finding has an index without an operation.
#[must_use]
pub fn trace(ops: &[Op], edges: &[(DagNode, DagNode)], findings: &[HazardNote]) -> Vec<u8> {
    let known = edges.iter().all(|(from, to)| from.op() < ops.len() && to.op() < ops.len());
    assert!(known, "an edge names an operation that the trace does not have");
    let tracks = tracks(ops);
    let mut writer =
        PacketWriter { trace: Message::default(), next_uuid: 1, flows: flows(ops, edges) };
    let mut devices: BTreeMap<DeviceId, Folder> = BTreeMap::new();
    let mut host = None;
    for track in &tracks {
        let folder = match track.shows {
            Shows::Engine(device, _) | Shows::Stream(device, _) => devices
                .entry(device)
                .or_insert_with(|| writer.folder(&format!("device {}", device.0))),
            Shows::Thread(_) => host.get_or_insert_with(|| writer.folder("host")),
        };
        writer.track(ops, track, folder);
    }
    for (device, mut folder) in devices {
        let mine = |op: &&Op| op.device == device;
        let in_flight = ops.iter().filter(mine).filter(|op| is_transfer(op)).filter_map(|op| {
            let (begin, end) = span(op.times?);
            Some((begin, end, op.bytes))
        });
        writer.counter("bytes in flight", BYTES, in_flight, &mut folder);
        let queued = ops.iter().filter(mine).filter_map(|op| {
            let end = span(op.times?).1;
            Some((op.call?.begin.0.min(end), end, 1))
        });
        writer.counter("queue depth", OPERATIONS, queued, &mut folder);
    }
    writer.findings(ops, findings);
    writer.trace.finish()
}

fn is_transfer(op: &Op) -> bool {
    match op.engine {
        Engine::Upload | Engine::Download | Engine::Peer => true,
        Engine::Compute | Engine::Host | Engine::None | Engine::Communication => false,
    }
}

/// The numbers of the arrows that leave and reach a call or an operation.
#[derive(Default)]
struct Flows {
    leave: Vec<u64>,
    reach: Vec<u64>,
}

/// The arrows of each node. An edge gets no arrow unless both of its ends are drawn.
fn flows(ops: &[Op], edges: &[(DagNode, DagNode)]) -> BTreeMap<DagNode, Flows> {
    let drawn = |node: DagNode| {
        let op = &ops[node.op()];
        if node.is_call() { op.call.is_some() } else { op.times.is_some() }
    };
    let mut flows: BTreeMap<DagNode, Flows> = BTreeMap::new();
    for (number, (from, to)) in (1..).zip(edges) {
        if drawn(*from) && drawn(*to) {
            flows.entry(*from).or_default().leave.push(number);
            flows.entry(*to).or_default().reach.push(number);
        }
    }
    flows
}

/// A track with child tracks, and the number of its children.
struct Folder {
    uuid: u64,
    children: u64,
}

struct PacketWriter {
    trace: Message,
    next_uuid: u64,
    /// The arrows that are not yet in a slice. The first slice of a node gets the arrows of the
    /// node. The first slice of an operation is in the track of its engine.
    flows: BTreeMap<DagNode, Flows>,
}

impl PacketWriter {
    fn packet(&mut self, field: u32, content: &Message, timestamp: Option<u64>) {
        let mut packet = Message::default();
        if let Some(timestamp) = timestamp {
            packet.number(TIMESTAMP, timestamp);
        }
        packet.number(SEQUENCE, 1);
        packet.message(field, content);
        self.trace.message(PACKET, &packet);
    }

    fn describe(
        &mut self,
        name: &str,
        parent: Option<&mut Folder>,
        more: impl FnOnce(&mut Message),
    ) -> u64 {
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        let mut descriptor = Message::default();
        descriptor.number(UUID, uuid);
        descriptor.text(NAME, name);
        if let Some(parent) = parent {
            descriptor.number(PARENT, parent.uuid);
            descriptor.number(RANK, parent.children);
            parent.children += 1;
        }
        more(&mut descriptor);
        self.packet(TRACK_DESCRIPTOR, &descriptor, None);
        uuid
    }

    fn folder(&mut self, name: &str) -> Folder {
        let uuid = self.describe(name, None, |d| d.number(CHILD_ORDERING, EXPLICIT));
        Folder { uuid, children: 0 }
    }

    fn track(&mut self, ops: &[Op], track: &Track, folder: &mut Folder) {
        let name = track_name(ops, track);
        for row in &track.rows {
            let uuid = self.describe(&name, Some(folder), |_| {});
            for &index in row {
                let Some((begin, end)) = times(&ops[index], track.shows) else { continue };
                let slice = self.slice(&ops[index], index, uuid, track.shows);
                self.packet(TRACK_EVENT, &slice, Some(begin));
                let mut event = Message::default();
                event.number(TYPE, SLICE_END);
                event.number(TRACK, uuid);
                self.packet(TRACK_EVENT, &event, Some(end));
            }
        }
    }

    fn slice(&mut self, op: &Op, index: usize, uuid: u64, shows: Shows) -> Message {
        let mut event = Message::default();
        event.number(TYPE, SLICE_BEGIN);
        event.number(TRACK, uuid);
        event
            .text(CATEGORY, if matches!(shows, Shows::Thread(_)) { "call" } else { kind_name(op) });
        event.text(EVENT_NAME, &op.label);
        annotate(&mut event, op, index);
        let on_host = matches!(shows, Shows::Thread(_));
        let node = if on_host { DagNode::call(index) } else { DagNode::work(index) };
        if let Some(flows) = self.flows.remove(&node) {
            flows.leave.iter().for_each(|number| event.fixed64(FLOW, *number));
            flows.reach.iter().for_each(|number| event.fixed64(FLOW_END, *number));
        }
        event
    }

    /// Writes a mark for each finding, with the report of the finding, at the start of the second
    /// operation of the finding.
    fn findings(&mut self, ops: &[Op], findings: &[HazardNote]) {
        if findings.is_empty() {
            return;
        }
        let uuid = self.describe("hazards", None, |d| d.number(CHILD_ORDERING, EXPLICIT));
        for note in findings {
            let op = ops.get(note.second).expect("a finding names an operation of the trace");
            let at = op.times.or(op.call).map_or(0, |times| span(times).0);
            let mut event = Message::default();
            event.number(TYPE, INSTANT);
            event.number(TRACK, uuid);
            event.text(CATEGORY, "hazard");
            event.text(EVENT_NAME, note.text.lines().next().unwrap_or("a finding"));
            let mut report = Message::default();
            report.text(ANNOTATION_NAME, "report");
            report.text(STRING, &note.text);
            event.message(ANNOTATION, &report);
            self.packet(TRACK_EVENT, &event, Some(at));
        }
    }

    /// Writes a counter. At any time, the value of the counter is the sum of the amounts whose
    /// spans have started and not ended.
    fn counter(
        &mut self,
        name: &str,
        unit: u64,
        spans: impl Iterator<Item = (u64, u64, u64)>,
        folder: &mut Folder,
    ) {
        let mut changes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (begin, end, amount) in spans {
            changes.entry(begin).or_default().0 += amount;
            changes.entry(end).or_default().1 += amount;
        }
        if changes.is_empty() {
            return;
        }
        let mut counter = Message::default();
        counter.number(UNIT, unit);
        let uuid = self.describe(name, Some(folder), |d| d.message(COUNTER, &counter));
        let mut value = 0;
        for (at, (more, less)) in changes {
            value = value + more - less;
            let mut event = Message::default();
            event.number(TYPE, COUNTER_SAMPLE);
            event.number(TRACK, uuid);
            event.number(COUNTER_VALUE, value);
            self.packet(TRACK_EVENT, &event, Some(at));
        }
    }
}

fn annotate(event: &mut Message, op: &Op, index: usize) {
    let mut note = |name: &str, set: &dyn Fn(&mut Message)| {
        let mut annotation = Message::default();
        annotation.text(ANNOTATION_NAME, name);
        set(&mut annotation);
        event.message(ANNOTATION, &annotation);
    };
    note("operation", &|a| a.number(UINT, index as u64));
    note("kind", &|a| a.text(STRING, kind_name(op)));
    if op.position.seq > 0 {
        note("stream", &|a| a.number(UINT, u64::from(op.position.lane.0)));
        note("position", &|a| a.number(UINT, op.position.seq));
    }
    if let Some(chunk) = op.chunk {
        note("chunk", &|a| a.number(UINT, chunk));
    }
    if op.bytes > 0 {
        note("bytes", &|a| a.number(UINT, op.bytes));
        if let Some((begin, end)) = op.times.map(span).filter(|(begin, end)| begin < end) {
            note("GB/s", &|a| a.double(DOUBLE, op.bytes as f64 / (end - begin) as f64));
        }
    }
    if let Some(site) = &op.site {
        note("site", &|a| a.text(STRING, &site.to_string()));
    }
    if op.declared == Declared::Nothing {
        note("accesses", &|a| a.text(STRING, "not declared"));
    }
}

#[cfg(test)]
mod tests;
