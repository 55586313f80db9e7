//! Conversion of the library's ledger to a history for the judge. No other file knows both forms.

use crate::calls::{Access, By, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use crate::switches::{Switch, on};
use std::collections::BTreeMap;
use trijet::SourceOrder;
use trijet::trace::{
    Asked, HostStep, LaneId, LedgerNote, MemoryCall, Op, OpKind, OrderedBy, Place, Position,
    SignalStep, Signalled, StreamClass, StreamMark, StreamWork, WaitOutcome, Waited,
};

/// The state of the conversion.
#[derive(Default)]
struct Reader {
    history: History,
    /// The current stream of each lane. A later stream of a lane may be of another kind.
    lanes: BTreeMap<LaneId, usize>,
    /// The call of each operation.
    positions: BTreeMap<Position, usize>,
    /// The knowledge of each thread at its last entry, by the claim of the library.
    known: BTreeMap<u64, Vec<Position>>,
    main: Option<u64>,
    /// Numbers of events by their handles. Later events may get the same handles.
    events: BTreeMap<u64, u64>,
    events_seen: u64,
}

impl Reader {
    /// The stream of an entry. Streams that were opened before the trace have no entry for it.
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

    /// The knowledge of the thread at a call, by the claim of the library. Only news are added,
    /// because the rest was judged before.
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
            OpKind::Work(StreamWork::Alloc) => self.work(op, Verb::Alloc),
            OpKind::Work(StreamWork::Free) => self.work(op, Verb::Free),
            OpKind::Work(StreamWork::Copy) => self.work(op, Verb::Copy),
            OpKind::Work(StreamWork::CopyNow) => self.work(op, Verb::CopyNow),
            OpKind::Work(StreamWork::Batch(order)) => self.work(op, Verb::Batch(sources(order))),
            OpKind::Work(StreamWork::Fill) => self.work(op, Verb::Fill),
            OpKind::Work(StreamWork::FillNow) => self.work(op, Verb::FillNow),
            OpKind::Work(StreamWork::Kernel) => self.work(op, Verb::Kernel),
            OpKind::Work(StreamWork::HostFn) => self.work(op, Verb::HostFn),
            OpKind::Mark(StreamMark::Record { event, by }) => {
                self.threads(op);
                let (stream, event) = (self.lane(op), self.event(event));
                self.push(op, What::Record { event, stream, by: asked(by) });
            }
            OpKind::Mark(StreamMark::Wait { event, by, .. }) => {
                self.threads(op);
                let (stream, event) = (self.lane(op), self.event(event));
                self.push(op, What::Wait { event, stream, by: asked(by) });
            }
            OpKind::Host(HostStep::Sync { what, outcome }) => {
                self.threads(op);
                self.sync(op, what, outcome);
            }
            OpKind::Host(HostStep::Begin) => {
                self.threads(op);
                let (stream, holds) = (self.lane(op), self.accesses(op));
                self.history.push(op.thread, What::Begin { stream, holds });
            }
            OpKind::Host(HostStep::Lent) => {
                self.threads(op);
                let holds = self.accesses(op);
                self.push(op, What::Lent { holds });
            }
            OpKind::Host(HostStep::Open) => {
                self.threads(op);
                let follows = self.lanes.remove(&op.position.lane);
                let stream = self.open(op, follows);
                self.push(op, What::Open { stream });
            }
            OpKind::Host(HostStep::Access) => {
                self.threads(op);
                let accesses = self.accesses(op);
                self.push(op, What::Host { accesses });
            }
            OpKind::Signal(SignalStep::Handle { .. }) => self.threads(op),
            OpKind::Signal(SignalStep::Use { signal, what, inside }) => {
                self.signal(op, signal, what, inside)
            }
            OpKind::Note(LedgerNote::Settled { event }) => {
                let event = self.event(event);
                let call = self.history.push(op.thread, What::Settled { event });
                self.history.calls[call].label = "by the library".to_owned();
            }
            OpKind::Note(LedgerNote::Gone { event }) => {
                self.events.remove(&event);
            }
            OpKind::Host(HostStep::Failed) => {
                self.history.begun.retain(|(thread, _), _| *thread != op.thread);
            }
            OpKind::Memory(MemoryCall::FromHeap { .. }) => drop(self.accesses(op)),
            // These order no accesses that the judge looks at.
            OpKind::Memory(MemoryCall::AllocNow | MemoryCall::FreeNow | MemoryCall::ToHeap)
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | OpKind::Host(HostStep::Fault { .. })
            | OpKind::Note(LedgerNote::Ran | LedgerNote::Name { .. } | LedgerNote::ThreadGone) => {}
            ref new => panic!("{new:?}: say what it orders"),
        }
    }

    /// Work of a stream.
    fn work(&mut self, op: &Op, verb: Verb) {
        self.threads(op);
        let (stream, accesses) = (self.lane(op), self.accesses(op));
        let call = self.history.push(op.thread, What::Work { verb, stream, accesses });
        self.positions.insert(op.position, call);
        self.history.launches.extend(op.graph.map(|graph| (call, graph)));
        self.label(call, op);
    }

    /// A call with a label.
    fn push(&mut self, op: &Op, what: What) {
        let call = self.history.push(op.thread, what);
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
            (Signalled::Found, Some(_))
            | (Signalled::Wait | Signalled::LimitedWait | Signalled::Gone, _) => {}
            (new, _) => panic!("{new:?}: say what it orders"),
        }
    }

    /// A wait of the host covers the work that was enqueued before its call.
    fn sync(&mut self, op: &Op, what: Waited, outcome: WaitOutcome) {
        if outcome != WaitOutcome::Complete {
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
        self.push(op, what);
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
            if matches!(
                op.kind,
                OpKind::Work(StreamWork::Alloc) | OpKind::Memory(MemoryCall::FromHeap { .. })
            ) {
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

fn sources(order: SourceOrder) -> Sources {
    match order {
        SourceOrder::Stream => Sources::InStreamOrder,
        SourceOrder::DuringCall => Sources::DuringCall,
        SourceOrder::Any => Sources::AnyTime,
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
