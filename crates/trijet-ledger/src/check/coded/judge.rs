//! The rules of the script `profile/what_if/order.js` in Rust, statement by statement, for tests.
#![forbid(unsafe_code)]

use super::entries::{CodedStep, UseEffect, UseMoment};
use super::{CodedEntry, CodedLedger, CodedUse};
use crate::base::ledger::StreamClass;
use std::collections::BTreeMap;

/// A pair of entries of the ledger without an order, the number of a block, and cells of it.
pub(super) type UnorderedPairs = BTreeMap<(usize, usize, usize), Vec<usize>>;

/// The changes of a coded ledger, by the numbers of its entries.
#[derive(Debug, Clone)]
pub(crate) struct CodedChanges {
    pub(crate) skipped: Vec<bool>,
    pub(crate) lanes: Vec<usize>,
    /// By the numbers of the blocks.
    pub(crate) locked: Vec<bool>,
    /// The device of the stream that only moved operations use.
    pub(crate) device: usize,
}

impl CodedChanges {
    pub(crate) fn none(ledger: &CodedLedger) -> Self {
        Self {
            skipped: vec![false; ledger.entries.len()],
            lanes: ledger.entries.iter().map(|entry| entry.lane).collect(),
            locked: vec![false; ledger.blocks.len()],
            device: 0,
        }
    }
}

/// A use of a cell: the entry, the component of the clocks, and the number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellTouch {
    entry: usize,
    component: usize,
    number: u32,
}

type ClockNumbers = Vec<u32>;

/// A use of a cell by a thread: the thread, the number of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ThreadUse {
    thread: usize,
    snapshot: usize,
}

#[derive(Debug, Clone, Default)]
struct ThreadState {
    known: ClockNumbers,
    calls: u32,
    version: u32,
    call_version: u32,
    /// The version at the last snapshot, and the snapshot.
    used: Option<(u32, usize)>,
    /// The call that the thread is in: the stream, the set that its operation follows, and the set
    /// that a wait for the stream would have found.
    begun: Option<(usize, ClockNumbers, ClockNumbers, u32)>,
}

#[derive(Debug, Clone, Default)]
struct CellState {
    write: Option<CellTouch>,
    reads: Vec<CellTouch>,
    exclusive: Option<ThreadUse>,
    shared: Vec<ThreadUse>,
}

pub(super) struct Judge<'a> {
    ledger: &'a CodedLedger,
    changes: &'a CodedChanges,
    size: usize,
    tails: Vec<ClockNumbers>,
    numbers: Vec<u32>,
    callers: Vec<Option<(usize, u32)>>,
    threads: Vec<ThreadState>,
    events: Vec<Option<ClockNumbers>>,
    barriers: Vec<ClockNumbers>,
    launches: Vec<ClockNumbers>,
    settled: ClockNumbers,
    cells: Vec<CellState>,
    born: Vec<Option<usize>>,
    /// The stamps and clocks of snapshots.
    snapshots: Vec<(u32, ClockNumbers)>,
    own_past: Option<ClockNumbers>,
    /// The numbers of the work and the call of the present entry, and whether it is staged.
    work: u32,
    call: u32,
    staged: bool,
    pub(super) pairs: UnorderedPairs,
    /// Whether a call waits while other work comes to its stream.
    pub(super) overlaps: bool,
}

fn join(into: &mut ClockNumbers, other: &ClockNumbers) {
    for (mine, theirs) in into.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

impl<'a> Judge<'a> {
    pub(super) fn run(ledger: &'a CodedLedger, changes: &'a CodedChanges) -> Self {
        let lanes = ledger.lanes.len() + 1;
        let size = lanes + ledger.threads;
        let clock = vec![0; size];
        let thread = ThreadState { known: clock.clone(), ..ThreadState::default() };
        let mut judge = Self {
            ledger,
            changes,
            size,
            tails: vec![clock.clone(); lanes],
            numbers: vec![0; lanes],
            callers: vec![None; lanes],
            threads: vec![thread; ledger.threads],
            events: vec![None; ledger.events],
            barriers: vec![clock.clone(); ledger.devices],
            launches: vec![clock.clone(); ledger.graphs],
            settled: clock,
            cells: vec![CellState::default(); ledger.cells.bytes.len()],
            born: vec![None; ledger.blocks.len()],
            snapshots: Vec::new(),
            own_past: None,
            work: 0,
            call: 0,
            staged: false,
            pairs: UnorderedPairs::new(),
            overlaps: false,
        };
        for (number, entry) in ledger.entries.iter().enumerate() {
            let locked = entry.pageable > 0 && changes.locked[entry.pageable - 1];
            let is_left_out = entry.step == CodedStep::Begin && entry.is_async && locked;
            if !changes.skipped[number] && !is_left_out {
                judge.entry(number, entry, locked);
            }
        }
        judge
    }

    fn class(&self, lane: usize) -> StreamClass {
        self.ledger.lanes.get(lane).map_or(StreamClass::NonBlocking, |lane| lane.class)
    }

    fn is_blocking(&self, lane: usize) -> bool {
        self.class(lane) != StreamClass::NonBlocking
    }

    fn device(&self, lane: usize) -> usize {
        self.ledger.lanes.get(lane).map_or(self.changes.device, |lane| lane.device)
    }

    fn learn(&mut self, thread: usize, clock: &ClockNumbers) {
        join(&mut self.threads[thread].known, clock);
        self.threads[thread].version += 1;
    }

    fn count_call(&mut self, thread: usize) -> u32 {
        let component = self.ledger.lanes.len() + 1 + thread;
        let this = &mut self.threads[thread];
        this.calls += 1;
        this.version += 1;
        this.call_version = this.version;
        this.known[component] = this.calls;
        this.calls
    }

    /// The union of the tails of streams of a device.
    fn union(&self, device: usize, blocking: bool) -> ClockNumbers {
        let mut union = vec![0; self.size];
        for (lane, tail) in self.tails.iter().enumerate() {
            let is_of = self.device(lane) == device;
            if is_of && (!blocking || self.is_blocking(lane)) {
                join(&mut union, tail);
            }
        }
        union
    }

    fn held(&self, lane: usize) -> ClockNumbers {
        let mut held = self.tails[lane].clone();
        if self.class(lane) == StreamClass::Legacy {
            join(&mut held, &self.union(self.device(lane), true));
        }
        held
    }

    fn follow_caller(&mut self, lane: usize, thread: usize) {
        let now = Some((thread, self.threads[thread].version));
        if self.callers[lane] != now {
            self.callers[lane] = now;
            join(&mut self.tails[lane], &self.threads[thread].known);
        }
    }

    fn hold_back(&mut self, lane: usize) {
        if self.class(lane) == StreamClass::Legacy {
            let device = self.device(lane);
            join(&mut self.barriers[device], &self.tails[lane]);
        }
    }

    fn entry(&mut self, number: usize, entry: &CodedEntry, locked: bool) {
        let (thread, lane) = (entry.thread, self.changes.lanes[number]);
        (self.work, self.call, self.staged, self.own_past) = (0, 0, false, None);
        let uses = &self.ledger.uses[entry.uses.clone()];
        if self.ledger.threads > 1 {
            uses.iter().for_each(|one| self.follow_earlier_uses(thread, one));
        }
        match entry.step {
            CodedStep::Work | CodedStep::Allocation => {
                let returns = entry.returns[usize::from(locked)];
                self.enqueue(thread, lane, entry, returns);
            }
            CodedStep::Record => {
                if self.class(lane) == StreamClass::Legacy {
                    self.tails[lane] = self.held(lane);
                }
                self.follow_caller(lane, thread);
                self.events[entry.about] = Some(self.tails[lane].clone());
            }
            CodedStep::Wait => {
                if let Some(event) = self.events[entry.about].clone() {
                    if self.class(lane) == StreamClass::Legacy {
                        self.tails[lane] = self.held(lane);
                    }
                    join(&mut self.tails[lane], &event);
                    self.follow_caller(lane, thread);
                    self.hold_back(lane);
                }
            }
            CodedStep::SyncEvent => {
                let event = self.events[entry.about].clone();
                event.iter().for_each(|event| self.learn(thread, event));
            }
            CodedStep::SyncStream => self.learn(thread, &self.held(lane)),
            CodedStep::SyncDevice => self.learn(thread, &self.union(entry.about, false)),
            CodedStep::Call => self.call = self.count_call(thread),
            CodedStep::Begin => {
                let held = self.held(lane);
                let mut before = held.clone();
                if self.is_blocking(lane) {
                    join(&mut before, &self.barriers[self.device(lane)]);
                }
                join(&mut before, &self.threads[thread].known);
                self.threads[thread].begun = Some((lane, before, held, self.numbers[lane]));
            }
            CodedStep::Open => join(&mut self.tails[lane], &self.threads[thread].known),
            CodedStep::Failed => self.threads[thread].begun = None,
            CodedStep::Settled => {
                if let Some(event) = self.events[entry.about].clone() {
                    join(&mut self.settled, &event);
                }
            }
            CodedStep::Gone => self.events[entry.about] = None,
        }
        if self.ledger.threads > 1 && entry.step != CodedStep::Begin {
            self.note_uses(thread, uses);
        }
        uses.iter().for_each(|one| self.check(number, thread, lane, one));
        uses.iter().for_each(|one| self.enter(number, thread, lane, one));
    }

    fn enqueue(&mut self, thread: usize, lane: usize, entry: &CodedEntry, returns: u8) {
        let is_work = entry.step == CodedStep::Work;
        let begun = self.threads[thread].begun.take();
        let begun = begun.filter(|(of, ..)| *of == lane && is_work);
        self.staged = returns == 1;
        if self.staged {
            let held = begun.as_ref().map_or_else(|| self.held(lane), |begun| begun.2.clone());
            self.learn(thread, &held);
        }
        if self.staged || entry.reads_at_call {
            self.call = self.count_call(thread);
        }
        let graph = entry.about.checked_sub(1);
        if let Some((_, mut before, _, number)) = begun {
            graph.into_iter().for_each(|graph| join(&mut before, &self.launches[graph]));
            join(&mut self.tails[lane], &before);
            self.overlaps |= number != self.numbers[lane];
            self.work = self.count_work(lane);
            let mut done = before.clone();
            done[lane] = self.work;
            graph.into_iter().for_each(|graph| self.launches[graph].clone_from(&done));
            self.hold_back(lane);
            if returns == 2 {
                self.learn(thread, &done);
            }
            self.own_past = Some(before);
            return;
        }
        if is_work && self.class(lane) == StreamClass::Legacy {
            self.tails[lane] = self.held(lane);
        }
        if is_work && self.is_blocking(lane) {
            let device = self.device(lane);
            join(&mut self.tails[lane], &self.barriers[device]);
        }
        graph.into_iter().for_each(|graph| join(&mut self.tails[lane], &self.launches[graph]));
        self.follow_caller(lane, thread);
        self.work = self.count_work(lane);
        graph.into_iter().for_each(|graph| self.launches[graph].clone_from(&self.tails[lane]));
        if is_work {
            self.hold_back(lane);
        }
        if returns == 2 {
            let tail = self.tails[lane].clone();
            self.learn(thread, &tail);
        }
    }

    fn count_work(&mut self, lane: usize) -> u32 {
        self.numbers[lane] += 1;
        self.tails[lane][lane] = self.numbers[lane];
        self.numbers[lane]
    }

    fn follow_earlier_uses(&mut self, thread: usize, one: &CodedUse) {
        if !one.is_owned {
            return;
        }
        for cell in one.cells.clone() {
            let state = &self.cells[cell];
            let shared = if one.writes { &state.shared[..] } else { &[] };
            let others = state.exclusive.iter().chain(shared);
            let others: Vec<ThreadUse> =
                others.filter(|used| used.thread != thread).copied().collect();
            for used in others {
                let (at, clock) = self.snapshots[used.snapshot].clone();
                let component = self.ledger.lanes.len() + 1 + used.thread;
                if self.threads[thread].known[component] < at {
                    self.learn(thread, &clock);
                }
            }
        }
    }

    fn note_uses(&mut self, thread: usize, uses: &[CodedUse]) {
        if !uses.iter().any(|one| one.is_owned) {
            return;
        }
        let this = &self.threads[thread];
        let snapshot = match this.used {
            Some((version, snapshot)) if version == this.version => snapshot,
            _ => {
                let has_number = this.call_version == this.version && this.calls > 0;
                let at = if has_number { this.calls } else { self.count_call(thread) };
                self.snapshots.push((at, self.threads[thread].known.clone()));
                self.snapshots.len() - 1
            }
        };
        self.threads[thread].used = Some((self.threads[thread].version, snapshot));
        let used = ThreadUse { thread, snapshot };
        for one in uses.iter().filter(|one| one.is_owned) {
            for cell in one.cells.clone() {
                let state = &mut self.cells[cell];
                if one.effect == UseEffect::Obtains {
                    (state.exclusive, state.shared) = (None, Vec::new());
                }
                if one.writes {
                    (state.exclusive, state.shared) = (Some(used), Vec::new());
                } else if state.exclusive != Some(used) {
                    state.shared.retain(|other| other.thread != thread);
                    state.shared.push(used);
                }
            }
        }
    }

    /// The clock of everything before a use, and whether the use is in the stream.
    fn before(&self, thread: usize, lane: usize, one: &CodedUse) -> &ClockNumbers {
        let in_stream = match one.moment {
            UseMoment::Work => self.work > 0,
            UseMoment::WhenRead => !self.staged,
            UseMoment::Call | UseMoment::CallToWork => false,
        };
        match &self.own_past {
            Some(own) if in_stream => own,
            _ if in_stream => &self.tails[lane],
            _ => &self.threads[thread].known,
        }
    }

    fn check(&mut self, number: usize, thread: usize, lane: usize, one: &CodedUse) {
        match one.effect {
            UseEffect::Obtains => return self.obtain(number, one),
            UseEffect::Returns | UseEffect::Announces => return,
            UseEffect::Uses | UseEffect::Appears | UseEffect::Allocates | UseEffect::Frees => {}
        }
        let before = self.before(thread, lane, one);
        let born = self.born[one.block].unwrap_or(0);
        let follows = |touch: &CellTouch| {
            before[touch.component] >= touch.number
                || one.in_this_run && self.settled[touch.component] >= touch.number
        };
        let mut found = Vec::new();
        for cell in one.cells.clone() {
            let state = &self.cells[cell];
            let reads = if one.writes { &state.reads[..] } else { &[] };
            for touch in state.write.iter().chain(reads) {
                let is_of_owner = one.writes || touch.entry >= born;
                if touch.entry != number && is_of_owner && !follows(touch) {
                    found.push((touch.entry, cell));
                }
            }
        }
        for (first, cell) in found {
            self.pairs.entry((first, number, one.block)).or_default().push(cell);
        }
    }

    /// A heap gives its memory to a block. Uses that are known to be complete are forgotten.
    fn obtain(&mut self, number: usize, one: &CodedUse) {
        let is_open = |touch: &CellTouch| {
            let knows = |clock: &ClockNumbers| clock[touch.component] >= touch.number;
            !knows(&self.settled) && !self.threads.iter().any(|thread| knows(&thread.known))
        };
        for cell in one.cells.clone() {
            let state = &mut self.cells[cell];
            state.write = state.write.filter(is_open);
            state.reads.retain(is_open);
        }
        self.born[one.block] = Some(number);
    }

    fn enter(&mut self, number: usize, thread: usize, lane: usize, one: &CodedUse) {
        match one.effect {
            UseEffect::Appears => {
                self.born[one.block] = Some(number);
                return;
            }
            UseEffect::Allocates => self.born[one.block] = Some(number),
            UseEffect::Uses => {}
            UseEffect::Frees | UseEffect::Obtains | UseEffect::Returns | UseEffect::Announces => {
                return;
            }
        }
        let is_of_call =
            one.moment == UseMoment::Call || one.moment == UseMoment::WhenRead && self.staged;
        let touch = if is_of_call {
            let component = self.ledger.lanes.len() + 1 + thread;
            CellTouch { entry: number, component, number: self.call }
        } else {
            CellTouch { entry: number, component: lane, number: self.work }
        };
        for cell in one.cells.clone() {
            let state = &mut self.cells[cell];
            if one.writes || one.effect == UseEffect::Allocates {
                (state.write, state.reads) = (Some(touch), Vec::new());
            } else {
                state.reads.retain(|other| other.component != touch.component);
                state.reads.push(touch);
            }
        }
    }
}
