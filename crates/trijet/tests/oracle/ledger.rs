//! The library's record of its driver calls as a history for the judge: the only place that knows
//! both forms.

use crate::calls::{Access, By, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use std::collections::BTreeMap;
use trijet::base::id::{LaneId, Position};
use trijet::base::ledger::{Asked, Op, OpKind, Place, SourceOrder, StreamClass};

/// What is known so far of the record that is read.
#[derive(Default)]
struct Reader {
    history: History,
    /// Who has the lane: it is used again, perhaps by a stream of another kind.
    lanes: BTreeMap<LaneId, usize>,
    /// The call of each operation.
    positions: BTreeMap<Position, usize>,
    /// What each thread was last said to know.
    known: BTreeMap<u64, Vec<Position>>,
    main: Option<u64>,
}

impl Reader {
    fn lane(&mut self, op: &Op) -> usize {
        let device = usize::try_from(op.device.0).expect("a few devices");
        let kind = match op.stream {
            StreamClass::Legacy => StreamKind::Legacy,
            StreamClass::PerThread => StreamKind::PerThread,
            StreamClass::Blocking => StreamKind::Blocking,
            StreamClass::NonBlocking => StreamKind::NonBlocking,
        };
        let before = self.lanes.get(&op.position.lane).copied();
        if let Some(number) = before
            && (self.history.lanes[number].kind, self.history.lanes[number].device)
                == (kind, device)
        {
            return number;
        }
        // A lane passes to another stream when all its work is complete.
        self.history.lanes.push(Lane { kind, device, follows: before });
        let number = self.history.lanes.len() - 1;
        self.lanes.insert(op.position.lane, number);
        number
    }

    /// The starts and joins of threads, from who calls: only the main thread starts others, and
    /// while they run it is silent.
    fn threads(&mut self, op: &Op) {
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

    fn observations(&mut self, op: &Op) {
        let before = self.known.insert(op.thread, op.thread_known.clone());
        if !op.thread_known.is_empty() && before.as_ref() != Some(&op.thread_known) {
            let calls = op.thread_known.iter().filter_map(|known| self.positions.get(known));
            let calls = calls.copied().collect();
            self.history.push(op.thread, What::Observed { calls });
        }
    }

    fn op(&mut self, op: &Op) {
        self.threads(op);
        self.observations(op);
        if let OpKind::Ready { event } = op.kind {
            let call = self.history.push(op.thread, What::SyncEvent { event });
            return self.label(call, op);
        }
        let stream = self.lane(op);
        let verb = match &op.kind {
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
            OpKind::Ready { .. } => return,
            OpKind::Record { event, by } => {
                let what = What::Record { event: *event, stream, by: asked(*by) };
                let call = self.history.push(op.thread, what);
                self.label(call, op);
                return;
            }
            OpKind::Wait { event, by, .. } => {
                let by = asked(*by);
                let call = self.history.push(op.thread, What::Wait { event: *event, stream, by });
                self.label(call, op);
                return;
            }
        };
        for access in &op.accesses {
            let memory = match access.place {
                Place::Device => Memory::Device,
                Place::Pinned => Memory::Pinned,
                Place::Pageable => Memory::Pageable,
            };
            self.history.memory.insert(access.block.0, memory);
        }
        let accesses = op.accesses.iter().map(|access| Access {
            block: access.block.0,
            range: access.range.clone(),
            writes: access.mode.writes(),
        });
        let what = What::Work { verb, stream, accesses: accesses.collect() };
        let call = self.history.push(op.thread, what);
        self.positions.insert(op.position, call);
        self.label(call, op);
    }

    fn label(&mut self, call: usize, op: &Op) {
        self.history.calls[call].label = format!("`{}` at {} ({})", op.label, op.position, op.site);
    }
}

fn asked(by: Asked) -> By {
    match by {
        Asked::User => By::User,
        Asked::Ordering => By::Ordering,
    }
}

/// The history that a record tells.
pub(crate) fn history(ops: &[Op]) -> History {
    let mut reader = Reader::default();
    ops.iter().for_each(|op| reader.op(op));
    reader.history
}
