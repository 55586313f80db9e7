//! Random ledgers with random changes: the rules of the script against the checker.
#![forbid(unsafe_code)]

use super::change::{LedgerChange, changed};
use super::entries::CodedStep;
use super::judge::{CodedChanges, Judge};
use super::{CodedLedger, NotJudged};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Asked, Engine, HostStep, LedgerNote, MemoryCall, Mode, Op, OpKind, OrderedBy, Place,
    SourceOrder, StreamClass, StreamMark, StreamWork, WaitOutcome, Waited,
};
use crate::base::prng::Prng;
use crate::check::{CheckOptions, check_with};
use std::collections::{BTreeMap, BTreeSet};

const LANES: u64 = 4;
const EVENTS: u64 = 3;
const PLACES: [Place; 3] = [Place::Device, Place::Pinned, Place::Pageable];
const CLASSES: [StreamClass; 4] = [
    StreamClass::NonBlocking,
    StreamClass::NonBlocking,
    StreamClass::Blocking,
    StreamClass::Legacy,
];

/// A random ledger in which the lives of blocks follow the laws.
pub(crate) struct Drawn {
    prng: Prng,
    ops: Vec<Op>,
    threads: u64,
    classes: Vec<StreamClass>,
    numbers: Vec<u64>,
    /// The live blocks, each with its place and, for memory of a heap, its first byte there.
    blocks: Vec<(BlockId, Place, Option<u64>)>,
    made: u64,
    owned: bool,
    /// Whether most entries follow the last operation, so that few accesses conflict.
    is_careful: bool,
    /// The lane of the last operation.
    last: Option<usize>,
}

impl Drawn {
    pub(crate) fn ledger(seed: u64, length: usize) -> Vec<Op> {
        let mut prng = Prng::new(seed);
        let is_plain = prng.below(2) == 0;
        let class = |prng: &mut Prng| {
            let kinds = if is_plain { 1 } else { 4 };
            CLASSES[usize::try_from(prng.below(kinds)).expect("small")]
        };
        let classes: Vec<StreamClass> = (0..LANES).map(|_| class(&mut prng)).collect();
        let (threads, owned) = (1 + prng.below(3), prng.below(2) == 0);
        let mut drawn = Self {
            prng,
            ops: Vec::new(),
            threads,
            classes,
            numbers: vec![0; 4],
            blocks: Vec::new(),
            made: 0,
            owned,
            is_careful: !seed.is_multiple_of(4),
            last: None,
        };
        for place in PLACES {
            drawn.made += 1;
            drawn.blocks.push((BlockId(drawn.made), place, None));
        }
        while drawn.ops.len() < length {
            drawn.step();
        }
        drawn.ops
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("small")
    }

    /// An entry on a random lane and thread.
    fn op(&mut self, kind: impl Into<OpKind>) -> Op {
        let (lane, thread) = (self.index(4), self.below(self.threads));
        self.on(kind, lane, thread)
    }

    fn on(&mut self, kind: impl Into<OpKind>, lane: usize, thread: u64) -> Op {
        let kind = kind.into();
        if kind.is_work() {
            self.numbers[lane] += 1;
        }
        let number = u32::try_from(lane).expect("small");
        let position = Position { lane: LaneId(number), seq: self.numbers[lane] };
        // Two of the lanes are on each device.
        let op = Op::new(kind, Engine::Compute, DeviceId(number / 3), position);
        Op { stream: self.classes[lane], thread, ..op }
    }

    /// Adds an entry that uses memory. In a careful ledger it follows the last operation in most
    /// cases.
    fn push(&mut self, op: Op) {
        let lane = usize::try_from(op.position.lane.0).expect("small");
        if let Some(last) = self.last.filter(|_| self.is_careful && self.below(12) > 0) {
            let event = 10 + self.below(4);
            let record = StreamMark::Record { event, by: Asked::Ordering };
            let record = self.on(record, last, op.thread);
            let on = Position { lane: LaneId(0), seq: 0 };
            let wait = StreamMark::Wait { event, on, by: Asked::Ordering };
            let (what, outcome) = (Waited::Event(event), WaitOutcome::Complete);
            let is_of_host = !op.kind.is_in_stream() && op.kind != OpKind::Host(HostStep::Begin);
            let wait: OpKind =
                if is_of_host { HostStep::Sync { what, outcome }.into() } else { wait.into() };
            let wait = self.on(wait, lane, op.thread);
            self.ops.extend([record, wait]);
        }
        if op.kind.is_work() {
            self.last = Some(lane);
        }
        self.ops.push(op);
    }

    fn access(&mut self, mode: Mode) -> Access {
        let all = self.blocks.len();
        let is_short_lived = all > 3 && self.below(2) == 0;
        let at = if is_short_lived { 3 + self.index(all - 3) } else { self.index(all) };
        let (block, place, _) = self.blocks[at];
        let start = self.below(3);
        let range = start..start + 1 + self.below(4 - start);
        let ordered = if self.owned { OrderedBy::Library } else { OrderedBy::Program };
        Access { block, place, range, mode, ordered }
    }

    fn with_uses(&mut self, mut op: Op) -> Op {
        if self.below(5) > 0 {
            let read = self.access(Mode::Read);
            op.accesses.push(read);
        }
        let mode = if self.below(3) == 0 { Mode::Update } else { Mode::Write };
        if self.below(4) > 0 {
            let write = self.access(mode);
            op.accesses.push(write);
        }
        op
    }

    fn work(&mut self) -> Op {
        let kind = match self.below(9) {
            0 => StreamWork::Fill,
            1 | 2 => StreamWork::Copy,
            3 => StreamWork::CopyNow,
            4 => StreamWork::Batch(SourceOrder::Any),
            5 => StreamWork::Batch(SourceOrder::DuringCall),
            6 => StreamWork::HostFn,
            _ => StreamWork::Kernel,
        };
        let op = self.op(kind);
        let mut op = self.with_uses(op);
        if self.below(8) == 0 {
            op.graph = Some(self.below(2));
        }
        op
    }

    fn step(&mut self) {
        let event = 1 + self.below(EVENTS);
        let by = Asked::Ordering;
        let op = match self.below(28) {
            0..8 => self.work(),
            8 => self.op(StreamMark::Record { event, by }),
            9..14 => {
                // In most cases a stream waits for the last work of another one.
                if self.below(4) > 0 {
                    let record = self.op(StreamMark::Record { event, by });
                    self.ops.push(record);
                }
                let on = Position { lane: LaneId(0), seq: 0 };
                self.op(StreamMark::Wait { event, on, by })
            }
            14 => self.sync(Waited::Event(event)),
            15 => self.sync(Waited::Stream),
            16 if self.below(3) == 0 => self.sync(Waited::Device),
            16 => self.op(LedgerNote::Settled { event }),
            17 | 18 => {
                let op = self.op(HostStep::Access);
                self.with_uses(op)
            }
            19 if self.below(4) == 0 => self.op(LedgerNote::Gone { event }),
            19 | 20 => return self.begun(),
            _ => return self.life(),
        };
        if op.accesses.is_empty() { self.ops.push(op) } else { self.push(op) }
    }

    fn sync(&mut self, what: Waited) -> Op {
        let outcomes = [WaitOutcome::Complete, WaitOutcome::Complete, WaitOutcome::Failed];
        let outcome = outcomes[self.index(3)];
        self.op(HostStep::Sync { what, outcome })
    }

    /// A call that waits, with a step of another thread in between.
    fn begun(&mut self) {
        let (lane, thread) = (self.index(4), self.below(self.threads));
        let kind = [StreamWork::Copy, StreamWork::CopyNow][self.index(2)];
        let begin = self.on(HostStep::Begin, lane, thread);
        self.push(begin);
        if self.below(6) == 0 {
            let failed = self.on(HostStep::Failed, lane, thread);
            return self.ops.push(failed);
        }
        if self.below(2) == 0 {
            let other = self.op(HostStep::Access);
            if other.thread != thread {
                let other = self.with_uses(other);
                self.ops.push(other);
            }
        }
        let op = self.on(kind, lane, thread);
        let op = self.with_uses(op);
        self.last = Some(lane);
        self.ops.push(op);
    }

    /// The start or the end of the life of a block.
    fn life(&mut self) {
        self.made += 1;
        let (block, heap) = (BlockId(self.made), 4 * self.below(3));
        let taken: BTreeSet<u64> = self.blocks.iter().filter_map(|(.., place)| *place).collect();
        let ordered = if self.owned { OrderedBy::Library } else { OrderedBy::Program };
        let access =
            Access { block, place: Place::Device, range: 0..4, mode: Mode::Write, ordered };
        let op = match self.below(7) {
            0 => {
                let op = self.op(StreamWork::Alloc);
                self.blocks.push((block, Place::Device, None));
                Op { accesses: [access].into_iter().collect(), ..op }
            }
            1..4 if !taken.contains(&heap) => {
                let op = self.op(MemoryCall::FromHeap { place: heap });
                self.blocks.push((block, Place::Device, Some(heap)));
                let op = Op { device: DeviceId(0), ..op };
                Op { accesses: [access].into_iter().collect(), ..op }
            }
            _ if self.blocks.len() > 3 => {
                let at = 3 + self.index(self.blocks.len() - 3);
                let (block, _, heap) = self.blocks.swap_remove(at);
                let is_of_heap = heap.is_some();
                let op = match is_of_heap {
                    true => self.op(MemoryCall::ToHeap),
                    false if self.below(2) == 0 => self.op(MemoryCall::FreeNow),
                    false => self.op(StreamWork::Free),
                };
                let device = if is_of_heap { DeviceId(0) } else { op.device };
                let access = Access { block, ..access };
                Op { device, accesses: [access].into_iter().collect(), ..op }
            }
            _ => return,
        };
        self.push(op);
    }
}

/// For each pair of entries without an order, and each block: the bytes.
pub(crate) type FoundPairs = BTreeMap<(usize, usize, BlockId), BTreeSet<u64>>;

/// The conflicts that the checker finds after changes: the two entries, by their indices before the
/// changes, the block and its bytes.
pub(crate) fn found(ops: &[Op], changes: &[LedgerChange]) -> FoundPairs {
    let (changed, indices) = changed(ops, changes);
    let verdict = check_with(&changed, CheckOptions::new().findings_max(usize::MAX));
    let mut pairs: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.conflict.is_some()) {
        let index = |op: u64| indices[usize::try_from(op).expect("an index")];
        let first = index(finding.first.as_ref().expect("a conflict has two entries").op);
        let block = finding.block.expect("a conflict has a block");
        let bytes = pairs.entry((first, index(finding.second.op), block)).or_default();
        bytes.extend(finding.ranges.iter().cloned().flatten());
    }
    pairs
}

/// The conflicts by the rules of the script. `None` if a call waits while other work comes to its
/// stream.
fn judged(ledger: &CodedLedger, changes: &CodedChanges) -> Option<FoundPairs> {
    let judge = Judge::run(ledger, changes);
    if judge.overlaps {
        return None;
    }
    let mut pairs: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    for ((first, second, block), cells) in judge.pairs {
        let (block, place) = ledger.blocks[block];
        let key = (ledger.entries[first].at, ledger.entries[second].at, block);
        for cell in cells {
            let bytes = ledger.cells.bytes[cell].clone();
            pairs.entry(key).or_default().extend(bytes.map(|byte| byte - place));
        }
    }
    Some(pairs)
}

/// Random changes, for the checker and for the script.
pub(crate) fn draw_changes(
    ledger: &CodedLedger,
    prng: &mut Prng,
) -> (Vec<LedgerChange>, CodedChanges) {
    let (mut changes, mut coded) = (Vec::new(), CodedChanges::none(ledger));
    let new = ledger.lanes.len();
    let mut device = None;
    for _ in 0..1 + prng.below(4) {
        let number = usize::try_from(prng.below(ledger.entries.len() as u64)).expect("small");
        let entry = &ledger.entries[number];
        match entry.step {
            CodedStep::Wait
            | CodedStep::SyncEvent
            | CodedStep::SyncStream
            | CodedStep::SyncDevice => {
                changes.push(LedgerChange::DropWait(entry.at));
                coded.skipped[number] = true;
            }
            CodedStep::Work if entry.pageable > 0 && prng.below(2) == 0 => {
                changes.push(LedgerChange::PageLock(ledger.blocks[entry.pageable - 1].0));
                coded.locked[entry.pageable - 1] = true;
            }
            CodedStep::Work if coded.lanes[number] == entry.lane => {
                let own = ledger.lanes[entry.lane].device;
                let to = usize::try_from(prng.below(new as u64 + 1)).expect("small");
                let fits = match ledger.lanes.get(to) {
                    Some(lane) => lane.device == own && lane.opened <= entry.at,
                    None => device.is_none_or(|device| device == own),
                };
                if !fits {
                    continue;
                }
                let (lane, class) = match ledger.lanes.get(to) {
                    Some(lane) => (lane.id, lane.class),
                    None => (LaneId(1000), StreamClass::NonBlocking),
                };
                if to == new {
                    (device, coded.device) = (Some(own), own);
                }
                changes.push(LedgerChange::MoveTo { entry: entry.at, lane, class });
                coded.lanes[number] = to;
                coded.lanes[number - entry.since_begin] = to;
            }
            CodedStep::Work | CodedStep::Allocation | CodedStep::Record | CodedStep::Call => {}
            CodedStep::Begin | CodedStep::Open | CodedStep::Failed => {}
            CodedStep::Settled | CodedStep::Gone => {}
        }
    }
    (changes, coded)
}

#[test]
fn a_changed_ledger_is_judged_as_the_checker_judges_it() {
    let (mut judged_runs, mut conflicts, mut refused) = (0, 0, BTreeMap::new());
    for seed in 0..800 {
        let ops = Drawn::ledger(seed, 30 + usize::try_from(seed % 40).expect("small"));
        let ledger = match CodedLedger::of(&ops) {
            Ok(ledger) => ledger,
            Err(reason) => {
                *refused.entry(reason.words()).or_insert(0) += 1;
                continue;
            }
        };
        let none = CodedChanges::none(&ledger);
        assert_eq!(judged(&ledger, &none), Some(found(&ops, &[])), "seed {seed}, unchanged");
        let mut prng = Prng::new(seed + 1_000_000);
        for _ in 0..4 {
            let (changes, coded) = draw_changes(&ledger, &mut prng);
            let Some(pairs) = judged(&ledger, &coded) else { continue };
            assert_eq!(pairs, found(&ops, &changes), "seed {seed}, {changes:?}");
            judged_runs += 1;
            conflicts += pairs.len();
        }
    }
    assert!(judged_runs > 2000 && conflicts > 5000, "{judged_runs} {conflicts} {refused:?}");
}

#[test]
fn a_ledger_that_the_rules_do_not_cover_is_not_judged() {
    let wait =
        Op::new(HostStep::Lent, Engine::None, DeviceId(0), Position { lane: LaneId(0), seq: 1 });
    assert_eq!(CodedLedger::of(&[wait]).err(), Some(NotJudged::Futures));
}
