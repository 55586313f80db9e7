//! Conversion of the library's ledger to a history for the judge: the only file that knows both
//! forms.

use crate::calls::{Access, By, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use crate::switches::{Switch, on};
use std::collections::BTreeMap;
use trijet::SourceOrder;
use trijet::trace::{
    Asked, HostCall, LaneId, Op, OpKind, OrderedBy, Outcome, Place, Position, Signalled,
    StreamClass, Waited,
};

/// The state of the conversion.
#[derive(Default)]
struct Reader {
    history: History,
    /// The current stream of each lane. A later stream of a lane may be of another kind.
    lanes: BTreeMap<LaneId, usize>,
    /// The call of each operation.
    positions: BTreeMap<Position, usize>,
    /// What each thread knew at its last entry, as the library says.
    known: BTreeMap<u64, Vec<Position>>,
    main: Option<u64>,
    /// Numbers of events by their handles, which later events may get.
    events: BTreeMap<u64, u64>,
    events_seen: u64,
}

impl Reader {
    /// The stream of an entry. Streams that were opened before the trace have no entry of their
    /// opening.
    fn lane(&mut self, op: &Op) -> usize {
        match self.lanes.get(&op.position.lane) {
            Some(number) => *number,
            None => self.open(op, None),
        }
    }

    /// A stream takes over a lane when all work of the earlier stream is complete.
    fn open(&mut self, op: &Op, follows: Option<usize>) -> usize {
        let device = usize::try_from(op.device.0).expect("a few devices");
        let kind = match op.stream {
            StreamClass::Legacy => StreamKind::Legacy,
            StreamClass::PerThread => StreamKind::PerThread,
            StreamClass::Blocking => StreamKind::Blocking,
            StreamClass::NonBlocking => StreamKind::NonBlocking,
        };
        self.history.lanes.push(Lane { kind, device, follows });
        let number = self.history.lanes.len() - 1;
        self.lanes.insert(op.position.lane, number);
        number
    }

    /// Derives starts and joins of threads from the threads of the calls: only the main thread
    /// starts others, and it makes no call while they run.
    fn threads(&mut self, op: &Op) {
        // Law A46: starts and joins are no order, and the judge needs none.
        if on(Switch::Ownership) {
            return;
        }
        let main = *self.main.get_or_insert(op.thread);
        let last = self.history.calls.last().map(|call| call.thread);
        if op.thread == main {
            let others: Vec<u64> = self.known.keys().copied().filter(|t| *t != main).collect();
            if last.is_some_and(|last| last != main) {
                for thread in others {
                    self.history.push(main, What::After { thread });
                }
            }
        } else if !self.known.contains_key(&op.thread) {
            self.history.push(op.thread, What::After { thread: main });
        }
    }

    /// What the thread knew at a call, as the library says: only news, because the rest was judged
    /// before.
    fn claims(&mut self, call: usize, op: &Op) {
        let known = op.thread_known.as_deref().unwrap_or_default();
        let before = self.known.insert(op.thread, known.to_vec());
        let is_news = |known: &&Position| before.as_ref().is_none_or(|old| !old.contains(known));
        let news = known.iter().filter(is_news);
        let calls = news.filter_map(|known| self.positions.get(known)).copied();
        self.history.calls[call].known.extend(calls);
    }

    fn event(&mut self, handle: u64) -> u64 {
        let Self { events, events_seen, .. } = self;
        *events.entry(handle).or_insert_with(|| {
            *events_seen += 1;
            *events_seen
        })
    }

    fn op(&mut self, op: &Op) {
        match op.kind {
            OpKind::Gone { event } => {
                self.events.remove(&event);
                return;
            }
            OpKind::Call(HostCall::Failed) => {
                self.history.begun.retain(|(thread, _), _| *thread != op.thread);
                return;
            }
            // These order no accesses that the judge looks at.
            OpKind::Call(_)
            | OpKind::AllocNow
            | OpKind::FreeNow
            | OpKind::Fault { .. }
            | OpKind::Ran
            | OpKind::Name { .. }
            | OpKind::ThreadGone => return,
            _ => {}
        }
        if let OpKind::Signal { signal, what, inside } = op.kind {
            return self.signal(op, signal, what, inside);
        }
        if let OpKind::Settled { event } = op.kind {
            let event = self.event(event);
            let call = self.history.push(op.thread, What::Settled { event });
            self.history.calls[call].label = "by the library".to_owned();
            return;
        }
        self.threads(op);
        if let OpKind::Sync { what, outcome } = op.kind {
            return self.sync(op, what, outcome);
        }
        if op.kind == OpKind::Begin {
            let stream = self.lane(op);
            let holds = self.accesses(op);
            self.history.push(op.thread, What::Begin { stream, holds });
            return;
        }
        if op.kind == OpKind::Lent {
            let holds = self.accesses(op);
            let call = self.history.push(op.thread, What::Lent { holds });
            return self.label(call, op);
        }
        if op.kind == OpKind::Open {
            let follows = self.lanes.remove(&op.position.lane);
            let stream = self.open(op, follows);
            let call = self.history.push(op.thread, What::Open { stream });
            return self.label(call, op);
        }
        if op.kind == OpKind::Host {
            let accesses = self.accesses(op);
            let call = self.history.push(op.thread, What::Host { accesses });
            return self.label(call, op);
        }
        // Other kinds order nothing.
        if op.kind.is_in_stream() {
            self.in_stream(op);
        }
    }

    /// Work, a record or a wait.
    fn in_stream(&mut self, op: &Op) {
        let stream = self.lane(op);
        let what = match &op.kind {
            OpKind::Record { event, by } => {
                What::Record { event: self.event(*event), stream, by: asked(*by) }
            }
            OpKind::Wait { event, by, .. } => {
                What::Wait { event: self.event(*event), stream, by: asked(*by) }
            }
            kind => What::Work { verb: verb(kind), stream, accesses: self.accesses(op) },
        };
        let is_work = matches!(what, What::Work { .. });
        let call = self.history.push(op.thread, what);
        if is_work {
            self.positions.insert(op.position, call);
        }
        self.label(call, op);
    }

    /// A signal orders host threads. A signal that a host function finds set orders no call.
    fn signal(&mut self, op: &Op, signal: u64, what: Signalled, inside: Option<Position>) {
        let inside = match inside {
            None => None,
            Some(at) => match self.positions.get(&at) {
                Some(call) => Some(*call),
                None => return,
            },
        };
        match (what, inside) {
            (Signalled::Set, inside) => {
                self.history.push(op.thread, What::Set { signal, inside });
            }
            (Signalled::Found, None) => {
                self.history.push(op.thread, What::Found { signal });
            }
            _ => {}
        }
    }

    /// A wait of the host covers the work that was enqueued before its call.
    fn sync(&mut self, op: &Op, what: Waited, outcome: Outcome) {
        if outcome != Outcome::Complete {
            return;
        }
        let what = match what {
            Waited::Event(event) | Waited::Recorded(event) => {
                What::SyncEvent { event: self.event(event) }
            }
            Waited::Stream => What::SyncStream { stream: self.lane(op) },
            Waited::Device => {
                What::SyncDevice { device: usize::try_from(op.device.0).expect("a few devices") }
            }
        };
        let call = self.history.push(op.thread, what);
        self.label(call, op);
    }

    fn accesses(&mut self, op: &Op) -> Vec<Access> {
        let mut accesses = Vec::new();
        for access in &op.accesses {
            let memory = match access.place {
                Place::Device => Memory::Device,
                Place::Pinned => Memory::Pinned,
                Place::Pageable => Memory::Pageable,
            };
            self.history.memory.insert(access.block.0, memory);
            if op.kind == OpKind::Alloc {
                let device = usize::try_from(op.device.0).expect("a few devices");
                self.history.homes.insert(access.block.0, device);
            }
            accesses.push(Access {
                block: access.block.0,
                range: access.range.clone(),
                writes: access.mode.writes(),
                by_hand: access.ordered == OrderedBy::Program,
            });
        }
        accesses
    }

    fn label(&mut self, call: usize, op: &Op) {
        self.claims(call, op);
        let site = op.site.as_ref().map_or_else(String::new, |site| format!(" ({site})"));
        self.history.calls[call].label = format!("`{}` at {}{site}", op.label, op.position);
    }
}

fn verb(kind: &OpKind) -> Verb {
    match kind {
        OpKind::Alloc => Verb::Alloc,
        OpKind::Free => Verb::Free,
        OpKind::Copy => Verb::Copy,
        OpKind::CopyNow => Verb::CopyNow,
        OpKind::Batch(SourceOrder::Stream) => Verb::Batch(Sources::InStreamOrder),
        OpKind::Batch(SourceOrder::DuringCall) => Verb::Batch(Sources::DuringCall),
        OpKind::Batch(SourceOrder::Any) => Verb::Batch(Sources::AnyTime),
        OpKind::Fill => Verb::Fill,
        OpKind::FillNow => Verb::FillNow,
        OpKind::Kernel => Verb::Kernel,
        OpKind::HostFn => Verb::HostFn,
        other => unreachable!("{other:?} puts no work into a stream"),
    }
}

fn asked(by: Asked) -> By {
    match by {
        Asked::User => By::User,
        Asked::Ordering => By::Ordering,
    }
}

/// The history of a ledger.
pub(crate) fn history(ops: &[Op]) -> History {
    let mut reader = Reader::default();
    ops.iter().for_each(|op| reader.op(op));
    reader.history
}
