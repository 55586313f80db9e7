//! The entries of a ledger as numbers.
#![forbid(unsafe_code)]

use super::cells::{CellSpace, CodedCells};
use super::refusal::{NotJudged, has_lane, is_of_thread, of_kinds};
use crate::base::edges::{Laws, Point, Role, may_wait, passed_at_return};
use crate::base::hash::NumberMap;
use crate::base::id::{BlockId, DeviceId, LaneId};
use crate::base::ledger::{
    Access, Effect, HostStep, LedgerNote, MemoryCall, Op, OpKind, OrderedBy, Place, SourceOrder,
    StreamClass, StreamMark, StreamWork, WaitOutcome, Waited,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of numbers that the clocks of all events may have.
const CLOCKS_MAX: usize = 1 << 26;

/// The effect of an entry on the order. The script has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodedStep {
    Work = 0,
    /// A stream-ordered allocation.
    Allocation = 1,
    Record = 2,
    Wait = 3,
    SyncEvent = 4,
    SyncStream = 5,
    SyncDevice = 6,
    /// A call that counts in its thread.
    Call = 7,
    Begin = 8,
    Open = 9,
    Failed = 10,
    Settled = 11,
    Gone = 12,
}

/// The time in which an access uses its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseMoment {
    Call = 0,
    Work = 1,
    CallToWork = 2,
    /// During the call if the copy is staged, and otherwise when the stream executes it.
    WhenRead = 3,
}

/// The effect of a use on its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseEffect {
    Uses = 0,
    /// The memory exists from now on, for any stream.
    Appears = 1,
    /// The memory exists from this operation on.
    Allocates = 2,
    Frees = 3,
    Obtains = 4,
    Returns = 5,
    /// The use is announced. It is of interest only for the order of threads.
    Announces = 6,
}

/// A use of a block by an entry.
#[derive(Debug, Clone)]
pub(crate) struct CodedUse {
    /// The number of the block in `CodedLedger::blocks`.
    pub(crate) block: usize,
    pub(crate) cells: Range<usize>,
    pub(crate) moment: UseMoment,
    pub(crate) effect: UseEffect,
    pub(crate) writes: bool,
    /// Whether an order that holds in this run only is enough.
    pub(crate) in_this_run: bool,
    /// Whether the use orders host threads (law A44).
    pub(crate) is_owned: bool,
}

/// An entry that matters for the order.
#[derive(Debug, Clone)]
pub(crate) struct CodedEntry {
    /// The index in the ledger.
    pub(crate) at: usize,
    pub(crate) step: CodedStep,
    pub(crate) thread: usize,
    pub(crate) lane: usize,
    /// The number of the event, of the device, or one more than the number of the graph.
    pub(crate) about: usize,
    /// The point that has passed when the call returns: 0 for none, 1 for the trigger, 2 for the
    /// end. The second number is for page-locked memory.
    pub(crate) returns: [u8; 2],
    /// Whether the call reads its sources.
    pub(crate) reads_at_call: bool,
    /// One more than the number of the pageable block that the copy uses, if it may be
    /// page-locked.
    pub(crate) pageable: usize,
    /// Whether the start of the call is left out if the memory is page-locked.
    pub(crate) is_async: bool,
    /// The number of entries from the start of the operation's call, or 0 if the call has no entry
    /// of its start.
    pub(crate) since_begin: usize,
    pub(crate) uses: Range<usize>,
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedLane {
    pub(crate) id: LaneId,
    pub(crate) class: StreamClass,
    pub(crate) device: usize,
    /// The index of the entry that opens the stream, or 0.
    pub(crate) opened: usize,
}

/// A ledger as numbers.
#[derive(Debug, Default)]
pub(crate) struct CodedLedger {
    pub(crate) entries: Vec<CodedEntry>,
    pub(crate) uses: Vec<CodedUse>,
    pub(crate) lanes: Vec<CodedLane>,
    pub(crate) threads: usize,
    pub(crate) events: usize,
    pub(crate) graphs: usize,
    pub(crate) devices: usize,
    /// The blocks, each with the number of its first byte in its space.
    pub(crate) blocks: Vec<(BlockId, u64)>,
    pub(crate) cells: CodedCells,
}

/// Distinct values, with a number each.
#[derive(Debug)]
struct KeyNumbers<K>(NumberMap<K, usize>);

impl<K: std::hash::Hash + Eq> KeyNumbers<K> {
    fn new() -> Self {
        Self(NumberMap::default())
    }

    fn of(&mut self, key: K) -> usize {
        let next = self.0.len();
        *self.0.entry(key).or_insert(next)
    }
}

/// The life of a block, by the entries that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockLife {
    /// The block was used, and its allocation was not seen.
    Used,
    /// The block is memory of a heap: its first byte in the heap, and its length.
    OfHeap(DeviceId, u64, u64),
    /// The block was allocated outside of heaps.
    Allocated,
    Ended,
}

struct Coder<'a> {
    ops: &'a [Op],
    ledger: CodedLedger,
    threads: KeyNumbers<u64>,
    events: KeyNumbers<u64>,
    graphs: KeyNumbers<u64>,
    devices: KeyNumbers<DeviceId>,
    lanes: KeyNumbers<LaneId>,
    blocks: KeyNumbers<BlockId>,
    lives: BTreeMap<BlockId, BlockLife>,
    /// For each heap, the bytes of its live blocks: the first byte, and the byte after the last.
    live: BTreeMap<DeviceId, BTreeMap<u64, u64>>,
    /// For each use, its space and its bytes there.
    places: Vec<(CellSpace, Range<u64>)>,
    /// For each thread, the entry of the call that it is in.
    begun: BTreeMap<u64, usize>,
    /// For each lane, the number of its operations.
    counts: Vec<u64>,
    /// For each thread in a call that waits, the number of operations of the stream at its start.
    begun_counts: BTreeMap<u64, u64>,
    /// The blocks that are not page-locked.
    kept_pageable: BTreeSet<usize>,
}

impl CodedLedger {
    /// The ledger as numbers, or the reason why it is not judged.
    pub(crate) fn of(ops: &[Op]) -> Result<Self, NotJudged> {
        if let Some(reason) = of_kinds(ops) {
            return Err(reason);
        }
        let mut coder = Coder {
            ops,
            ledger: Self::default(),
            threads: KeyNumbers::new(),
            events: KeyNumbers::new(),
            graphs: KeyNumbers::new(),
            devices: KeyNumbers::new(),
            lanes: KeyNumbers::new(),
            blocks: KeyNumbers::new(),
            lives: BTreeMap::new(),
            live: BTreeMap::new(),
            places: Vec::new(),
            begun: BTreeMap::new(),
            counts: Vec::new(),
            begun_counts: BTreeMap::new(),
            kept_pageable: BTreeSet::new(),
        };
        for index in 0..ops.len() {
            coder.entry(index)?;
        }
        coder.finish()
    }
}

impl Coder<'_> {
    fn entry(&mut self, index: usize) -> Result<(), NotJudged> {
        let op = &self.ops[index];
        let thread = if is_of_thread(&op.kind) { self.threads.of(op.thread) } else { 0 };
        let lane = if has_lane(&op.kind) { self.lane(op, index) } else { 0 };
        let step = self.step(op);
        let may_use = matches!(
            step,
            Some((CodedStep::Work | CodedStep::Allocation | CodedStep::Call | CodedStep::Begin, _))
        );
        if !may_use && !op.accesses.is_empty() {
            return Err(NotJudged::Lifetimes);
        }
        let Some((step, about)) = step else { return Ok(()) };
        let first = self.ledger.uses.len();
        for access in op.accesses.iter().filter(|access| access.range.start < access.range.end) {
            self.access(op, access)?;
        }
        self.end_lives(op);
        let returns = |op: &Op| match passed_at_return(op, Laws::Documented) {
            Some(Point::Trigger) => 1,
            Some(Point::End) => 2,
            Some(Point::Begin) | None => 0,
        };
        let (pageable, locked) = self.pageable(op);
        let mut entry = CodedEntry {
            at: index,
            step,
            thread,
            lane,
            about,
            returns: [returns(op), returns(&locked)],
            reads_at_call: op.kind == OpKind::Work(StreamWork::Batch(SourceOrder::DuringCall)),
            pageable,
            is_async: may_wait(op) && !may_wait(&locked),
            since_begin: 0,
            uses: first..self.ledger.uses.len(),
        };
        self.wait(op, lane, &mut entry)?;
        self.ledger.entries.push(entry);
        Ok(())
    }

    /// The number of the stream of the entry. Adds the stream if it is new.
    fn lane(&mut self, op: &Op, index: usize) -> usize {
        let lane = self.lanes.of(op.position.lane);
        if lane == self.ledger.lanes.len() {
            let device = self.devices.of(op.device);
            let opened = if op.kind == OpKind::Host(HostStep::Open) { index } else { 0 };
            let id = op.position.lane;
            self.ledger.lanes.push(CodedLane { id, class: op.stream, device, opened });
            self.counts.push(0);
        }
        lane
    }

    /// The effect of an entry on the order, and what it is about. `None` if it has no effect.
    fn step(&mut self, op: &Op) -> Option<(CodedStep, usize)> {
        Some(match op.kind {
            OpKind::Work(_) => {
                let is_allocation = Role::of(&op.kind, Laws::Documented) == Some(Role::Allocation);
                let step = if is_allocation { CodedStep::Allocation } else { CodedStep::Work };
                (step, op.graph.map_or(0, |graph| self.graphs.of(graph) + 1))
            }
            OpKind::Mark(StreamMark::Record { event, .. }) => {
                (CodedStep::Record, self.events.of(event))
            }
            OpKind::Mark(StreamMark::Wait { event, .. }) => {
                (CodedStep::Wait, self.events.of(event))
            }
            OpKind::Host(HostStep::Sync { outcome, what }) => {
                if outcome != WaitOutcome::Complete {
                    return None;
                }
                match what {
                    Waited::Event(event) | Waited::Recorded(event) => {
                        (CodedStep::SyncEvent, self.events.of(event))
                    }
                    Waited::Stream => (CodedStep::SyncStream, 0),
                    Waited::Device => (CodedStep::SyncDevice, self.devices.of(op.device)),
                }
            }
            OpKind::Host(HostStep::Access) | OpKind::Memory(_) => (CodedStep::Call, 0),
            OpKind::Host(HostStep::Begin) => (CodedStep::Begin, 0),
            OpKind::Host(HostStep::Open) => (CodedStep::Open, 0),
            OpKind::Host(HostStep::Failed) => (CodedStep::Failed, 0),
            OpKind::Note(LedgerNote::Settled { event }) => {
                (CodedStep::Settled, self.events.of(event))
            }
            OpKind::Note(LedgerNote::Gone { event }) => (CodedStep::Gone, self.events.of(event)),
            OpKind::Host(HostStep::Lent | HostStep::Fault { .. })
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Refused)
            | OpKind::Signal(_)
            | OpKind::Note(LedgerNote::Ran | LedgerNote::Name { .. } | LedgerNote::ThreadGone) => {
                return None;
            }
        })
    }

    /// Adds a use. The lives of blocks must follow the laws: the checker would find other mistakes.
    fn access(&mut self, op: &Op, access: &Access) -> Result<(), NotJudged> {
        let life = self.lives.get(&access.block).copied();
        let effect = effect_of(op);
        let life = match (effect, life) {
            (_, Some(BlockLife::Ended)) => return Err(NotJudged::Lifetimes),
            (UseEffect::Appears | UseEffect::Allocates, None) => BlockLife::Allocated,
            (UseEffect::Obtains, None) => self.obtained(op, access)?,
            (UseEffect::Appears | UseEffect::Allocates | UseEffect::Obtains, Some(_)) => {
                return Err(NotJudged::Lifetimes);
            }
            (UseEffect::Frees, Some(BlockLife::OfHeap(..))) => return Err(NotJudged::Lifetimes),
            (UseEffect::Uses | UseEffect::Frees | UseEffect::Returns, found)
            | (UseEffect::Announces, found) => found.unwrap_or(BlockLife::Used),
        };
        let (space, first, length) = match life {
            BlockLife::OfHeap(device, place, bytes) => (CellSpace::Heap(device), place, bytes),
            BlockLife::Used | BlockLife::Allocated | BlockLife::Ended => {
                (CellSpace::Block(access.block), 0, u64::MAX)
            }
        };
        if access.range.end > length {
            return Err(NotJudged::Lifetimes);
        }
        self.lives.insert(access.block, life);
        let block = self.blocks.of(access.block);
        if block == self.ledger.blocks.len() {
            self.ledger.blocks.push((access.block, first));
        }
        self.places.push((space, first + access.range.start..first + access.range.end));
        self.ledger.uses.push(CodedUse {
            block,
            cells: 0..0,
            moment: moment_of(op, access),
            effect,
            writes: access.mode.writes(),
            in_this_run: access.ordered == OrderedBy::Library
                || effect == UseEffect::Frees
                || op.kind == OpKind::Host(HostStep::Access),
            is_owned: access.ordered == OrderedBy::Library,
        });
        Ok(())
    }

    /// The life of a block that a heap gives its memory.
    fn obtained(&mut self, op: &Op, access: &Access) -> Result<BlockLife, NotJudged> {
        let OpKind::Memory(MemoryCall::FromHeap { place }) = op.kind else {
            return Err(NotJudged::Lifetimes);
        };
        let bytes = access.range.end;
        let end = place.checked_add(bytes).ok_or(NotJudged::Lifetimes)?;
        let live = self.live.entry(op.device).or_default();
        let before = live.range(..end).next_back();
        if before.is_some_and(|(_, last)| *last > place) || access.range.start > 0 {
            return Err(NotJudged::Lifetimes);
        }
        live.insert(place, end);
        Ok(BlockLife::OfHeap(op.device, place, bytes))
    }

    /// Ends the lives of the blocks that the entry frees or returns.
    fn end_lives(&mut self, op: &Op) {
        if !matches!(op.kind.effect(), Effect::Frees | Effect::Returns) {
            return;
        }
        for access in &op.accesses {
            let ended = self.lives.insert(access.block, BlockLife::Ended);
            if let Some(BlockLife::OfHeap(device, place, _)) = ended {
                self.live.entry(device).or_default().remove(&place);
            }
        }
    }

    /// One more than the number of the only pageable block that the operation uses, and the
    /// operation with this block page-locked. A block that is used together with another pageable
    /// block keeps its memory.
    fn pageable(&mut self, op: &Op) -> (usize, Op) {
        let mut locked = op.clone();
        let pageable = |access: &&mut Access| access.place == Place::Pageable;
        let mut found = Vec::new();
        for access in locked.accesses.iter_mut().filter(pageable) {
            access.place = Place::Pinned;
            found.push(access.block);
        }
        found.dedup();
        match found[..] {
            [block] if op.kind.is_work() => {
                (self.blocks.0.get(&block).map_or(0, |number| number + 1), locked)
            }
            [_, _, ..] => {
                let blocks = found.iter().filter_map(|block| self.blocks.0.get(block));
                self.kept_pageable.extend(blocks);
                (0, op.clone())
            }
            _ => (0, op.clone()),
        }
    }

    /// Follows the calls that wait. Another operation in the stream of such a call has no order
    /// with the operation of the call.
    fn wait(&mut self, op: &Op, lane: usize, entry: &mut CodedEntry) -> Result<(), NotJudged> {
        if entry.step == CodedStep::Begin {
            self.begun.insert(op.thread, self.ledger.entries.len());
            self.begun_counts.insert(op.thread, self.counts[lane]);
        } else if entry.step == CodedStep::Failed {
            self.begun.remove(&op.thread);
        } else if op.kind.is_work() {
            if let Some(begin) = self.begun.remove(&op.thread) {
                entry.since_begin = self.ledger.entries.len() - begin;
                let begin = &mut self.ledger.entries[begin];
                if begin.lane != lane || self.begun_counts.get(&op.thread) != self.counts.get(lane)
                {
                    return Err(NotJudged::Overlapping);
                }
                (begin.pageable, begin.is_async) = (entry.pageable, entry.is_async);
            }
            self.counts[lane] += 1;
        }
        Ok(())
    }

    fn finish(self) -> Result<CodedLedger, NotJudged> {
        let Self { mut ledger, threads, events, graphs, devices, places, kept_pageable, .. } = self;
        ledger.cells = CodedCells::of(places.iter().cloned()).ok_or(NotJudged::TooLarge)?;
        for (one, (space, bytes)) in ledger.uses.iter_mut().zip(&places) {
            one.cells = ledger.cells.within(*space, bytes);
        }
        for entry in &mut ledger.entries {
            if entry.pageable > 0 && kept_pageable.contains(&(entry.pageable - 1)) {
                entry.pageable = 0;
            }
        }
        (ledger.threads, ledger.events) = (threads.0.len(), events.0.len());
        (ledger.graphs, ledger.devices) = (graphs.0.len(), devices.0.len());
        let clock = ledger.lanes.len() + 1 + ledger.threads;
        let clocks = ledger.events + ledger.graphs + ledger.lanes.len() + ledger.threads;
        if clocks.saturating_mul(clock) > CLOCKS_MAX {
            return Err(NotJudged::TooLarge);
        }
        Ok(ledger)
    }
}

fn effect_of(op: &Op) -> UseEffect {
    match op.kind.effect() {
        Effect::Allocates if op.kind.is_in_stream() => UseEffect::Allocates,
        Effect::Allocates => UseEffect::Appears,
        Effect::Obtains => UseEffect::Obtains,
        Effect::Returns => UseEffect::Returns,
        Effect::Frees => UseEffect::Frees,
        Effect::Uses => UseEffect::Uses,
        Effect::Announces => UseEffect::Announces,
    }
}

/// The time in which an access happens, as `Step::moment` has it.
fn moment_of(op: &Op, access: &Access) -> UseMoment {
    let reads = !access.mode.writes();
    match op.kind {
        OpKind::Host(HostStep::Access) | OpKind::Memory(_) => UseMoment::Call,
        OpKind::Work(StreamWork::Batch(order)) if reads => match order {
            SourceOrder::Stream => UseMoment::Work,
            SourceOrder::DuringCall => UseMoment::Call,
            SourceOrder::Any => UseMoment::CallToWork,
        },
        OpKind::Work(StreamWork::Copy | StreamWork::CopyNow) if reads => UseMoment::WhenRead,
        OpKind::Work(_) | OpKind::Mark(_) | OpKind::Host(_) => UseMoment::Work,
        OpKind::Signal(_) | OpKind::Note(_) => UseMoment::Work,
    }
}
