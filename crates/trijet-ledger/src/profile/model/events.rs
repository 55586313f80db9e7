//! The order that events give the operations of a run.
//!
//! A stream records an event after its operations so far. After a wait of another stream for this
//! record, each operation of that stream follows these operations. A trace has the records and the
//! waits in the order of their calls on the host, so the order is exact, however late an operation
//! starts after the one that it follows.
//!
//! A wait whose record is not in the trace gives no order. Records inside of CUDA graphs are not
//! reported.
#![forbid(unsafe_code)]

use super::sorted::SortedTrace;
use crate::trace::activity::{EventUse, EventUseKind};
use std::collections::{HashMap, HashSet};

/// Maximum number of streams whose operations a wait follows. A program with more streams that wait
/// for each other without work between loses the order with the others.
const STREAMS_MAX: usize = 64;

/// A stream: its context and its number.
type StreamKey = (u32, u32);

/// The operations of each operation's past that events put there.
#[derive(Debug, Default)]
pub(super) struct EventOrder {
    /// The operations that an operation follows because its stream waited for events: at most one
    /// of each other stream.
    follows: HashMap<usize, Vec<usize>>,
    /// The pairs of a stream and another one for which it waited.
    pairs: HashSet<(StreamKey, StreamKey)>,
}

impl EventOrder {
    /// The operations that an operation follows because of events.
    pub(super) fn before(&self, operation: usize) -> &[usize] {
        self.follows.get(&operation).map_or(&[], Vec::as_slice)
    }

    /// Whether the trace has a wait of `stream` for `other`, so that all such waits are known.
    pub(super) fn knows(&self, stream: StreamKey, other: StreamKey) -> bool {
        self.pairs.contains(&(stream, other))
    }
}

/// The last operations of several streams: the operations that a moment of a stream follows.
#[derive(Debug, Clone, Default)]
struct LastOperations(Vec<(StreamKey, usize)>);

impl LastOperations {
    /// Adds an operation that was enqueued after the one of its stream.
    fn add(&mut self, stream: StreamKey, operation: usize) {
        match self.0.iter().position(|(of, _)| *of == stream) {
            Some(at) => self.0[at].1 = operation,
            None if self.0.len() < STREAMS_MAX => self.0.push((stream, operation)),
            None => {}
        }
    }
}

/// A step of the host.
#[derive(Debug, Clone, Copy)]
enum EventStep<'a> {
    /// An operation is enqueued.
    Enqueue(usize),
    /// A stream uses an event.
    Use(&'a EventUse),
}

/// The state of the streams while the steps of the host are followed.
#[derive(Debug, Default)]
struct Streams {
    /// For each stream, its last operation.
    last: HashMap<StreamKey, usize>,
    /// For each stream, the operations that its next operation follows because of events.
    waiting: HashMap<StreamKey, LastOperations>,
    /// The last record of each event.
    by_event: HashMap<u32, (StreamKey, LastOperations)>,
    /// The records whose waits have a number.
    by_sync: HashMap<u64, (StreamKey, LastOperations)>,
    /// The numbers of these records that a wait has.
    awaited: HashSet<u64>,
    found: EventOrder,
}

impl SortedTrace<'_> {
    /// The order that events give the operations.
    pub(super) fn event_order(&self) -> EventOrder {
        if self.events.iter().all(|(_, one)| one.what == EventUseKind::Record) {
            return EventOrder::default();
        }
        let uses = self.events.iter().map(|(at, one)| (*at, 0, EventStep::Use(one)));
        let operations = (0..self.operations.len()).map(|at| {
            let begin = self.operations[at].begin();
            (self.enqueued_at(at), begin, EventStep::Enqueue(at))
        });
        let mut steps: Vec<(u64, u64, EventStep<'_>)> = uses.chain(operations).collect();
        steps.sort_by_key(|(at, begin, _)| (*at, *begin));
        let syncs = self.events.iter().filter(|(_, one)| one.what == EventUseKind::Wait);
        let awaited = syncs.filter_map(|(_, one)| one.sync).collect();
        let mut streams = Streams { awaited, ..Streams::default() };
        for (_, _, step) in steps {
            match step {
                EventStep::Enqueue(at) => streams.enqueue(self.operations[at].stream(), at),
                EventStep::Use(one) if one.what == EventUseKind::Record => streams.record(one),
                EventStep::Use(one) => streams.wait(one),
            }
        }
        streams.found
    }
}

impl Streams {
    fn enqueue(&mut self, stream: StreamKey, operation: usize) {
        if let Some(LastOperations(before)) = self.waiting.remove(&stream) {
            let before = before.into_iter().map(|(_, one)| one).collect();
            self.found.follows.insert(operation, before);
        }
        self.last.insert(stream, operation);
    }

    fn record(&mut self, one: &EventUse) {
        let stream = (one.context, one.stream);
        let mut past = self.waiting.get(&stream).map_or_else(LastOperations::default, Clone::clone);
        if let Some(&last) = self.last.get(&stream) {
            past.add(stream, last);
        }
        if let Some(sync) = one.sync.filter(|sync| self.awaited.contains(sync)) {
            self.by_sync.insert(sync, (stream, past.clone()));
        }
        self.by_event.insert(one.event, (stream, past));
    }

    fn wait(&mut self, one: &EventUse) {
        let stream = (one.context, one.stream);
        let record = match one.sync {
            Some(sync) => self.by_sync.get(&sync),
            None => self.by_event.get(&one.event),
        };
        let Some((recorded, past)) = record.filter(|(recorded, _)| *recorded != stream) else {
            return;
        };
        self.found.pairs.insert((stream, *recorded));
        let LastOperations(past) = past;
        let others = past.iter().filter(|(of, _)| *of != stream);
        let waiting = self.waiting.entry(stream).or_default();
        for (of, operation) in others {
            self.found.pairs.insert((stream, *of));
            waiting.add(*of, *operation);
        }
    }
}
