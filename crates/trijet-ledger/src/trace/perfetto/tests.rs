//! Traces, read back by a decoder that shares no code with the writer.
#![forbid(unsafe_code)]

use super::super::tracks::samples::op;
use super::*;
use crate::base::ledger::{HostStep, Site, StreamWork};
use std::collections::BTreeMap;

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

type Fields = Vec<(u64, Value)>;

fn number(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn decode(mut bytes: &[u8]) -> Fields {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = number(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(number(&mut bytes)),
            1 => {
                let (word, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(word.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(number(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn all(fields: &Fields, field: u32) -> impl Iterator<Item = &Value> {
    fields.iter().filter(move |(n, _)| *n == u64::from(field)).map(|(_, value)| value)
}

fn num(fields: &Fields, field: u32) -> Option<u64> {
    all(fields, field).next().map(|value| match value {
        Value::Number(n) | Value::Fixed(n) => *n,
        Value::Bytes(_) => panic!("field {field} is not a number"),
    })
}

fn text(fields: &Fields, field: u32) -> String {
    match all(fields, field).next() {
        Some(Value::Bytes(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("field {field} is {other:?}"),
    }
}

fn messages(fields: &Fields, field: u32) -> Vec<Fields> {
    all(fields, field)
        .map(|value| match value {
            Value::Bytes(bytes) => decode(bytes),
            Value::Number(_) | Value::Fixed(_) => panic!("field {field} is {value:?}"),
        })
        .collect()
}

/// The content of a trace: descriptors, and events with their times.
struct Read {
    descriptors: Vec<Fields>,
    events: Vec<(u64, Fields)>,
}

impl Read {
    fn of(ops: &[Op], edges: &[(DagNode, DagNode)]) -> Self {
        let mut read = Self { descriptors: Vec::new(), events: Vec::new() };
        for packet in messages(&decode(&trace(ops, edges, &[])), PACKET) {
            assert_eq!(num(&packet, SEQUENCE), Some(1));
            read.descriptors.extend(messages(&packet, TRACK_DESCRIPTOR));
            for event in messages(&packet, TRACK_EVENT) {
                read.events.push((num(&packet, TIMESTAMP).unwrap(), event));
            }
        }
        read
    }

    /// `parent/name` of a track, by its uuid.
    fn path(&self, uuid: u64) -> String {
        let track = self.descriptors.iter().find(|d| num(d, UUID) == Some(uuid)).unwrap();
        let name = text(track, NAME);
        num(track, PARENT).map_or(name.to_owned(), |parent| format!("{}/{name}", self.path(parent)))
    }

    /// The slices of every track, by its path: the name, the start and the end.
    fn slices(&self) -> BTreeMap<u64, Vec<(String, u64, u64)>> {
        let mut tracks: BTreeMap<u64, Vec<(String, u64, u64)>> = BTreeMap::new();
        let mut open: BTreeMap<u64, (String, u64)> = BTreeMap::new();
        for (at, event) in &self.events {
            let track = num(event, TRACK).unwrap();
            match num(event, TYPE).unwrap() {
                SLICE_BEGIN => {
                    let before = open.insert(track, (text(event, EVENT_NAME), *at));
                    assert!(before.is_none(), "slices of a track do not overlap");
                }
                SLICE_END => {
                    let (name, begin) = open.remove(&track).unwrap();
                    tracks.entry(track).or_default().push((name, begin, *at));
                }
                COUNTER_SAMPLE => {}
                other => panic!("an event of type {other}"),
            }
        }
        assert!(open.is_empty(), "every slice ends");
        tracks
    }

    fn samples(&self, path: &str) -> Vec<(u64, u64)> {
        let mine = |event: &Fields| self.path(num(event, TRACK).unwrap()) == path;
        let samples = self.events.iter().filter(|(_, event)| mine(event));
        samples.filter_map(|(at, event)| Some((*at, num(event, COUNTER_VALUE)?))).collect()
    }
}

fn sample() -> Vec<Op> {
    let mut up = op(StreamWork::Copy, Engine::Upload, 0, 1, (10, 30));
    (up.bytes, up.chunk, up.label) = (100, Some(7), "up".into());
    up.site = Some(Site { file: "src/main.rs".into(), line: 3, column: 9 });
    let mut second = op(StreamWork::Copy, Engine::Upload, 0, 2, (25, 50));
    (second.bytes, second.label) = (50, "second".into());
    let mut kernel = op(StreamWork::Kernel, Engine::Compute, 1, 1, (30, 60));
    kernel.label = "k".into();
    let mut wait = op(HostStep::Open, Engine::None, 1, 0, (0, 0));
    (wait.times, wait.label) = (None, "opened".into());
    vec![up, second, kernel, wait]
}

#[test]
fn every_operation_lies_in_the_tracks_of_its_engine_its_stream_and_its_thread() {
    let read = Read::of(&sample(), &[]);
    let slices: Vec<_> = read
        .slices()
        .into_iter()
        .flat_map(|(track, slices)| {
            let path = read.path(track);
            slices.into_iter().map(move |(name, from, to)| format!("{path}: {name} {from} {to}"))
        })
        .collect();
    assert_eq!(
        slices,
        [
            "device 0/upload: up 10 30",
            "device 0/upload: second 25 50",
            "device 0/compute: k 30 60",
            "device 0/stream 0: up 10 30",
            "device 0/stream 0: second 25 50",
            "device 0/stream 1: k 30 60",
            "host/host thread 0: opened 0 1",
            "host/host thread 0: up 5 6",
            "host/host thread 0: second 20 21",
            "host/host thread 0: k 25 26",
        ]
    );
}

#[test]
fn operations_that_overlap_get_tracks_of_the_same_name() {
    let read = Read::of(&sample(), &[]);
    let names: Vec<_> = read.descriptors.iter().map(|d| text(d, NAME)).collect();
    assert_eq!(names.iter().filter(|name| *name == "upload").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "compute").count(), 1, "{names:?}");
}

#[test]
fn tracks_keep_the_order_in_which_they_are_described() {
    let read = Read::of(&sample(), &[]);
    let mut ranks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for track in &read.descriptors {
        match num(track, PARENT) {
            Some(parent) => ranks.entry(parent).or_default().push(num(track, RANK).unwrap()),
            None => assert_eq!(num(track, CHILD_ORDERING), Some(EXPLICIT)),
        }
    }
    for ranks in ranks.values() {
        assert!(ranks.iter().copied().eq(0..ranks.len() as u64), "{ranks:?}");
    }
}

#[test]
fn counters_have_the_sum_at_each_moment() {
    let read = Read::of(&sample(), &[]);
    assert_eq!(read.samples("device 0/bytes in flight"), [(10, 100), (25, 150), (30, 50), (50, 0)]);
    assert_eq!(
        read.samples("device 0/queue depth"),
        [(5, 1), (20, 2), (25, 3), (30, 2), (50, 1), (60, 0)]
    );
}

#[test]
fn an_arrow_leaves_one_slice_and_reaches_one() {
    let (work, call) = (DagNode::work, DagNode::call);
    let edges = [(work(0), work(2)), (work(0), call(1)), (call(3), work(2)), (work(3), work(0))];
    let read = Read::of(&sample(), &edges);
    let ends = |field: u32| -> Vec<(String, u64)> {
        let of = |event: &Fields| {
            let path = num(event, TRACK).map(|track| read.path(track)).unwrap();
            let flows = all(event, field).map(|value| match value {
                Value::Fixed(n) => *n,
                Value::Number(_) | Value::Bytes(_) => panic!("{value:?} is not a fixed word"),
            });
            flows.map(|n| (path.clone(), n)).collect::<Vec<_>>()
        };
        read.events.iter().flat_map(|(_, event)| of(event)).collect()
    };
    let at = |path: &str, n| (path.to_owned(), n);
    assert_eq!(
        ends(FLOW),
        [at("device 0/upload", 1), at("device 0/upload", 2), at("host/host thread 0", 3)]
    );
    assert_eq!(
        ends(FLOW_END),
        [at("device 0/compute", 1), at("device 0/compute", 3), at("host/host thread 0", 2)],
        "the work of the last operation has no times"
    );
}

#[test]
fn a_slice_is_annotated_with_the_facts_of_its_operation() {
    let read = Read::of(&sample(), &[]);
    let notes = |event: &Fields| -> Vec<String> {
        let value =
            |note: &Fields| match note.iter().find(|(n, _)| *n != u64::from(ANNOTATION_NAME)) {
                Some((_, Value::Number(n))) => n.to_string(),
                Some((_, Value::Fixed(bits))) => f64::from_bits(*bits).to_string(),
                Some((_, Value::Bytes(bytes))) => String::from_utf8(bytes.clone()).unwrap(),
                None => "nothing".to_owned(),
            };
        let notes = messages(event, ANNOTATION);
        notes
            .iter()
            .map(|note| format!("{}={}", text(note, ANNOTATION_NAME), value(note)))
            .collect()
    };
    assert_eq!(
        notes(&read.events[0].1),
        [
            "operation=0",
            "kind=upload",
            "stream=0",
            "position=1",
            "chunk=7",
            "bytes=100",
            "GB/s=5",
            "site=src/main.rs:3:9"
        ]
    );
}

#[test]
fn equal_traces_give_equal_bytes() {
    let edges = [(DagNode::work(0), DagNode::work(1))];
    assert_eq!(trace(&sample(), &edges, &[]), trace(&sample(), &edges, &[]));
}

#[test]
#[should_panic(expected = "that the trace does not have")]
fn an_edge_to_no_operation_is_refused() {
    drop(trace(&[], &[(DagNode::call(0), DagNode::work(0))], &[]));
}

#[test]
fn a_finding_is_a_mark_where_its_second_operation_begins() {
    let text = "error[RACE/WAR]: too early\n  and why".to_owned();
    let note = HazardNote { text: text.clone(), first: Some(0), second: 2 };
    let packets = messages(&decode(&trace(&sample(), &[], &[note])), PACKET);
    let marks = packets.iter().flat_map(|packet| {
        let at = num(packet, TIMESTAMP);
        messages(packet, TRACK_EVENT).into_iter().map(move |event| (at, event))
    });
    let marks: Vec<_> = marks.filter(|(_, event)| num(event, TYPE) == Some(INSTANT)).collect();
    let [(at, event)] = &marks[..] else { panic!("{} marks", marks.len()) };
    // The kernel starts at 30 ns.
    assert_eq!(
        (*at, self::text(event, EVENT_NAME)),
        (Some(30), "error[RACE/WAR]: too early".into())
    );
    assert_eq!(self::text(&messages(event, ANNOTATION)[0], STRING), text);
}
