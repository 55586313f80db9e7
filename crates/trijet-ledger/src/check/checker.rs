//! The state of a check: the order so far, and the accesses that a later entry may conflict with.
#![forbid(unsafe_code)]

use super::explain::{ConflictingPair, Context, find};
use super::hazard::{Conflict, Finding, FindingClass, Party};
use super::late::Recent;
use super::naming::ProgramNames;
use super::options::CheckOptions;
use super::order::{EntryOrder, Moment, Step, Stuck};
use super::shadow::{Shadow, Touch, Unordered};
use super::verdict::Verdict;
use crate::base::id::{BlockId, Position};
use crate::base::ledger::{
    Access, Declared, Effect, HostStep, MemoryCall, Mode, Op, OpKind, OrderedBy, Place, StreamMark,
    StreamWork,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Minimum number of parties (entries that findings may name) at which the checker drops the state
/// that it no longer needs.
const SWEEP_MIN: usize = 4096;

/// Checks entries one by one, in the order of the ledger. The outcome of each wait must be known.
///
/// The checker keeps the accesses that a later access may conflict with, and a clock for each
/// stream and thread. The memory of the checker does not grow with the length of the program. This
/// memory grows with the streams, the threads, the events and the byte ranges of live allocations
/// that are in use. The checker forgets a use when every thread knows that the use is complete. The
/// checker assumes that a thread whose first call comes later follows the forgotten uses. A thread
/// that makes no more calls, but has not ended, learns nothing. So the uses that such a thread does
/// not know to be complete are kept.
///
/// ```
/// use trijet::check::{CheckOptions, Checker};
/// let checker = Checker::new(CheckOptions::new().to_the_end());
/// assert!(checker.finish().is_clean());
/// ```
#[derive(Debug, Clone)]
pub struct Checker {
    options: CheckOptions,
    order: EntryOrder,
    shadow: Shadow,
    /// The entries that findings may name, in the order of the ledger.
    parties: Vec<Party>,
    /// The number of parties at which the next sweep runs.
    sweep_at: usize,
    verdict: Verdict,
    /// The index of the last operation without declared accesses, which may have used any memory.
    undeclared_at: Option<u64>,
    /// The index of the first operation that failed.
    culprit: Option<u64>,
    unordered: Vec<Unordered>,
    /// The last conflicts, to compare with later waits.
    recent: Recent,
    program_names: ProgramNames,
    /// The number of findings of each class, including the findings that were not kept.
    counts: BTreeMap<FindingClass, usize>,
}

/// The kind of an entry that only a checker reads: some bytes of an allocation in use lose their
/// content.
pub const DISCARD: OpKind = OpKind::Memory(MemoryCall::FromHeap { place: u64::MAX });

/// Whether two findings are about the same two lines of the program.
fn has_sites_of(one: &Finding, other: &Finding) -> bool {
    let sites = |finding: &Finding| {
        let first = finding.first.as_ref().and_then(|party| party.site.clone());
        (first, finding.second.site.clone())
    };
    one.class == other.class && sites(one) == sites(other) && sites(one).0.is_some()
}

impl Checker {
    /// A checker that has read no entry.
    #[must_use]
    pub fn new(options: CheckOptions) -> Self {
        let verdict = Verdict {
            findings: Vec::new(),
            more: 0,
            ops: 0,
            accesses: 0,
            undeclared: 0,
            poisoned: 0,
            assume: options.assume,
        };
        Self {
            order: EntryOrder::new(options.assume, options.threads),
            options,
            shadow: Shadow::default(),
            parties: Vec::new(),
            sweep_at: SWEEP_MIN,
            verdict,
            undeclared_at: None,
            culprit: None,
            unordered: Vec::new(),
            recent: Recent::default(),
            program_names: ProgramNames::default(),
            counts: BTreeMap::new(),
        }
    }

    /// Reads the next entry.
    pub fn push(&mut self, op: &Op) {
        let index = self.verdict.ops;
        self.verdict.ops += 1;
        if self.parties.len() >= self.sweep_at {
            self.sweep();
        }
        self.program_names.note(op, &mut self.options.names);
        self.parties.push(Party::new(op, index, self.program_names.lane(op.position.lane)));
        let step = self.order.step(op, index);
        if op.declared == Declared::Nothing {
            self.verdict.undeclared += 1;
            self.undeclared_at = Some(index);
        }
        if self.culprit.is_some() && step.end(Moment::Work).seq > 0 {
            self.verdict.poisoned += 1;
        }
        self.check_entry(op, &step, index);
        // An entry that announces a use touches no memory. Neither does an allocation from a heap.
        let touches = !matches!(op.kind.effect(), Effect::Announces | Effect::Obtains);
        let uses = || {
            let uses = op.accesses.iter().filter(|access| access.range.start < access.range.end);
            uses.filter(|_| touches)
        };
        if let OpKind::Memory(MemoryCall::FromHeap { place }) = op.kind {
            self.obtain(op, place, index);
        }
        for access in uses() {
            self.verdict.accesses += 1;
            self.check_access(op, &step, access);
        }
        for access in uses() {
            self.enter_access(op, &step, access);
        }
        for stuck in self.order.take_stuck() {
            self.stuck(&stuck);
        }
        for doubt in self.order.take_doubts() {
            let finding = self.context().doubt(self.current_party(), doubt);
            finding.into_iter().for_each(|finding| self.add(finding));
        }
        for finding in self.recent.prevented(op, &self.order) {
            let Self { verdict, order, options, parties, .. } = self;
            let context = Context::new(order, options, parties);
            context.too_late(&mut verdict.findings[finding], index);
        }
    }

    /// Counts entries that this checker does not read, so that the next entry has the number that
    /// it has in the ledger.
    pub fn skip(&mut self, entries: u64) {
        self.verdict.ops = self.verdict.ops.saturating_add(entries);
    }

    /// Runs the checks that need no accesses of earlier entries.
    fn check_entry(&mut self, op: &Op, step: &Step, index: u64) {
        if let OpKind::Host(HostStep::Fault { culprit }) = op.kind {
            self.fault(op, step.thread, culprit);
        } else if let OpKind::Mark(StreamMark::Wait { event, .. }) = op.kind
            && step.waits_for_nothing
        {
            let finding = self.context().wait_for_nothing(self.current_party(), event);
            self.add(finding);
        } else if let OpKind::Work(StreamWork::Batch(_)) = op.kind {
            self.batch(op, index);
        } else if op.kind == OpKind::Host(HostStep::Refused) {
            self.call_in_host_fn(op);
        }
    }

    /// Reads an entry in which a heap gave a block its memory.
    fn obtain(&mut self, op: &Op, place: u64, index: u64) {
        let Self { shadow, order, .. } = self;
        for Access { block, range, .. } in &op.accesses {
            if op.kind == DISCARD {
                shadow.discard(*block, range, index);
                continue;
            }
            shadow.obtain(*block, op.device, place, range.end, |at| order.is_complete(at));
            shadow.block(*block).born = Some(index);
        }
    }

    /// Ends the check. The findings are sorted: errors before warnings, and each group in the order
    /// of the calls that revealed them.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        for stuck in self.order.stuck() {
            self.stuck(&stuck);
        }
        if self.options.to_the_end {
            for (block, born) in self.shadow.leaked() {
                let Some(party) = find(&self.parties, born).cloned() else { continue };
                let fix = "drop it, or free it".to_owned();
                let mut finding = Finding::new(FindingClass::Leak, party, vec!["A21"]);
                finding.block = Some(block);
                finding.fix = fix;
                self.add(finding);
            }
        }
        self.verdict.findings.sort_by_key(|finding| finding.class.severity());
        self.verdict
    }

    /// The number of findings so far, with those that are not kept.
    #[must_use]
    pub fn found(&self) -> usize {
        self.counts.values().sum()
    }

    /// The size of the state, as a number of kept items. Tests use this number to show that a long
    /// program does not make the state grow without limit.
    #[must_use]
    pub fn held_state(&self) -> usize {
        self.parties.len() + self.shadow.held_state() + self.order.held_state()
    }

    /// From now on, collects the entries of the doubtful waits ([`Checker::doubtful_waits`]). The
    /// waits in `known_doubtful` count as doubtful from the start.
    pub(super) fn search_doubtful_waits(&mut self, known_doubtful: BTreeSet<u64>) {
        self.order.search_doubtful_waits(known_doubtful);
    }

    /// The entries of the doubtful waits. A wait is doubtful if another thread records the event of
    /// the wait later, with no order between the two calls (law A45).
    pub(super) fn doubtful_waits(&self) -> &BTreeSet<u64> {
        self.order.doubtful_waits()
    }

    fn context(&self) -> Context<'_> {
        Context::new(&self.order, &self.options, &self.parties)
    }

    /// Reads a report that the context is lost (law A40). Only the first report is a finding.
    fn fault(&mut self, op: &Op, thread: usize, culprit: Option<Position>) {
        if self.culprit.is_some() {
            return;
        }
        let fault = self.context().fault(self.current_party(), op, thread, culprit);
        self.verdict.poisoned = fault.poisoned;
        self.culprit = Some(fault.first.unwrap_or(self.verdict.ops));
        self.add(fault.finding);
    }

    fn add(&mut self, mut finding: Finding) {
        finding.block_name = finding.block.and_then(|block| self.program_names.block(block));
        let count = self.counts.entry(finding.class).or_insert(0);
        *count += 1;
        // A loop that reads unwritten bytes in each iteration is one mistake.
        let is_known = finding.class == FindingClass::ReadUninit
            && self.verdict.findings.iter().any(|earlier| has_sites_of(earlier, &finding));
        // At least one finding of each class is kept, because `is_clean` looks at kept findings
        // only.
        if !is_known && *count <= self.options.findings_max.max(1) {
            self.verdict.findings.push(finding);
        } else {
            self.verdict.more += 1;
        }
    }

    /// The current entry as a party.
    fn current_party(&self) -> Party {
        self.parties.last().expect("the current entry was just added").clone()
    }

    /// Checks an access against the accesses of earlier entries.
    fn check_access(&mut self, op: &Op, step: &Step, access: &Access) {
        let index = self.verdict.ops - 1;
        let Access { block, range, mode, .. } = access;
        if let Some(free) = self.shadow.freed(*block) {
            return self.used_after_free(op, *block, range, free);
        }
        let undeclared = self.undeclared_at;
        let held = self.shadow.block(*block);
        let first_use = *held.first_use.get_or_insert(index);
        if op.kind == OpKind::Work(StreamWork::Alloc) && first_use != index {
            return self.allocated_late(first_use, *block, range);
        }
        let moment = step.moment(op, access);
        let mut unordered = std::mem::take(&mut self.unordered);
        let before = self.order.before(step, moment);
        // An order that holds only in this run is accepted in three cases: for accesses that the
        // library orders, for frees, and for uses by the host. In these cases the library itself
        // has waited.
        let by_library = access.ordered == OrderedBy::Library
            || op.kind.effect() == Effect::Frees
            || op.kind == OpKind::Host(HostStep::Access);
        let follows = |at| if by_library { before.covers(at) } else { before.sure.covers(at) };
        // When memory goes back to a heap, operations may still use the memory. So the return of
        // the memory conflicts with no use.
        if op.kind != OpKind::Memory(MemoryCall::ToHeap) {
            held.unordered(range, *mode, index, follows, &mut unordered);
        }
        let born = held.born;
        // A read conflicts only with the allocation of the block, which comes before every use (law
        // A21), and with later accesses. The bytes have no content at the allocation. So an earlier
        // owner of the bytes cannot change a value that the read may see.
        let of_owner = |found: &Unordered| born.is_none_or(|born| found.earlier.op >= born);
        unordered.retain(|found| *mode != Mode::Read || of_owner(found));
        let unwritten = match (mode, held.born) {
            (Mode::Write, _) | (_, None) => None,
            // An operation without declared accesses may have written the bytes.
            (_, Some(born)) if undeclared.is_some_and(|op| op > born) => None,
            (_, Some(born)) => held.unwritten(range).map(|range| (born, range)),
        };
        for found in unordered.drain(..) {
            self.conflict(step, moment, access, &found);
        }
        self.unordered = unordered;
        if let Some((born, range)) = unwritten {
            let mut finding =
                Finding::new(FindingClass::ReadUninit, self.current_party(), vec!["A21"]);
            finding.first = find(&self.parties, born).cloned();
            finding.block = Some(*block);
            finding.fix = format!("fill or write it before #{index}");
            finding.add_range(range);
            self.add(finding);
        }
    }

    /// Adds an access of the current entry, so that later accesses are checked against it.
    fn enter_access(&mut self, op: &Op, step: &Step, access: &Access) {
        let index = self.verdict.ops - 1;
        let Access { block, range, mode, .. } = access;
        if self.shadow.freed(*block).is_some() {
            return;
        }
        match op.kind.effect() {
            Effect::Frees => {
                self.program_names.free(*block);
                return self.shadow.free(*block, index);
            }
            Effect::Returns => {
                self.program_names.free(*block);
                return self.shadow.give_back(*block, index);
            }
            Effect::Allocates | Effect::Obtains | Effect::Uses | Effect::Announces => {}
        }
        let touch = Touch { op: index, at: step.end(step.moment(op, access)) };
        let held = self.shadow.block(*block);
        if op.kind.effect() == Effect::Allocates {
            held.born = Some(index);
            if op.kind.is_in_stream() {
                held.write(range, touch, true);
            } else {
                held.appear(range);
            }
        } else if mode.writes() {
            held.write(range, touch, false);
        } else {
            held.read(range, touch);
        }
    }

    /// Adds a finding about two conflicting uses that nothing orders. If the two entries already
    /// have such a finding, adds the bytes to that finding.
    fn conflict(&mut self, step: &Step, moment: Moment, access: &Access, found: &Unordered) {
        let Some(first) = find(&self.parties, found.earlier.op) else { return };
        let second = self.parties.last().expect("the current entry was just added");
        let reads = access.mode != Mode::Write;
        let conflict = match (found.earlier_writes, reads) {
            (true, true) => Conflict::Raw,
            (true, false) => Conflict::Waw,
            (false, _) => Conflict::War,
        };
        let born = self.shadow.born(access.block);
        let class = if born
            .is_some_and(|born| first.kind != OpKind::Work(StreamWork::Alloc) && first.op < born)
        {
            FindingClass::ReuseRacesUse
        } else {
            classify(first, second, conflict, access.place)
        };
        let same = |finding: &&mut Finding| {
            finding.class == class
                && finding.block == Some(access.block)
                && finding.second.op == second.op
                && finding.first.as_ref().is_some_and(|other| other.op == first.op)
        };
        if let Some(finding) = self.verdict.findings.iter_mut().rev().take(64).find(same) {
            return finding.add_range(found.range.clone());
        }
        let pair = ConflictingPair {
            class,
            conflict,
            first,
            second,
            place: access.place,
            at: found.earlier.at,
            step,
            moment,
        };
        let said = self.context().explain(&pair);
        let mut finding = Finding::new(class, second.clone(), said.rules);
        finding.first = Some(first.clone());
        finding.conflict = Some(conflict);
        finding.block = Some(access.block);
        finding.known = said.known;
        finding.fix = said.fix;
        finding.add_range(found.range.clone());
        let kept = self.verdict.findings.len();
        self.add(finding);
        if self.verdict.findings.len() > kept {
            self.recent.add(kept, found.earlier.at, *step, moment);
        }
    }

    fn used_after_free(&mut self, op: &Op, block: BlockId, range: &Range<u64>, free: Option<u64>) {
        let again = matches!(op.kind.effect(), Effect::Frees | Effect::Returns);
        let class = if again { FindingClass::DoubleFree } else { FindingClass::UseAfterFree };
        let mut finding = Finding::new(class, self.current_party(), vec!["A22"]);
        finding.first = free.and_then(|free| find(&self.parties, free)).cloned();
        finding.block = Some(block);
        finding.known = "after the call that frees memory, no call may use that memory, in \
                         whatever order the streams run"
            .to_owned();
        finding.fix = if again { "free it once" } else { "free it after its last use" }.to_owned();
        finding.add_range(range.clone());
        self.add(finding);
    }

    /// Adds a finding: the call that uses the block came before the call that allocates it.
    fn allocated_late(&mut self, first_use: u64, block: BlockId, range: &Range<u64>) {
        let Some(user) = find(&self.parties, first_use).cloned() else { return };
        let mut finding = Finding::new(FindingClass::UseBeforeAlloc, user, vec!["A21"]);
        finding.first = Some(self.current_party());
        finding.block = Some(block);
        finding.known = "the use was enqueued before the allocation".to_owned();
        finding.fix = "allocate before the first use".to_owned();
        finding.add_range(range.clone());
        self.add(finding);
    }

    /// Adds a finding about waits for signals that may never end.
    fn stuck(&mut self, stuck: &Stuck) {
        if let Some(finding) = self.context().stuck(stuck, self.culprit) {
            self.add(finding);
        }
    }

    /// Checks a batch. A batch does not order its copies, so the copies must not depend on each
    /// other (law A19).
    fn batch(&mut self, op: &Op, index: u64) {
        let uses = &op.accesses;
        let mut overlaps = uses.iter().enumerate().flat_map(|(number, access)| {
            uses[..number].iter().filter_map(|other| overlap(access, other))
        });
        let Some((block, range)) = overlaps.next() else { return };
        let mut finding =
            Finding::new(FindingClass::BatchDependent, self.current_party(), vec!["A19"]);
        finding.block = Some(block);
        finding.known = "the copies of a batch run in any order".to_owned();
        finding.fix = format!("split the batch of #{index} in two");
        finding.add_range(range);
        self.add(finding);
    }

    /// Adds a finding: a host function made a call, which the library refused (law A28). The driver
    /// would accept some calls inside a host function, and hang in others.
    fn call_in_host_fn(&mut self, op: &Op) {
        let mut finding = Finding::new(FindingClass::ApiCall, self.current_party(), vec!["A28"]);
        finding.known = format!("`{}` was refused inside a host function", op.label);
        finding.fix = "signal a host thread from the host function, and call there".to_owned();
        self.add(finding);
    }

    /// Drops the accesses that no later entry can conflict with, and the parties that no finding
    /// can name any more.
    fn sweep(&mut self) {
        let known = self.order.known_to_all();
        self.shadow.retire(&known);
        self.order.retire(&known, &self.shadow.components());
        self.recent.clear();
        let mut named = Vec::new();
        self.shadow.named(&mut named);
        self.order.named(&mut named);
        named.sort_unstable();
        self.parties.retain(|party| named.binary_search(&party.op).is_ok());
        self.sweep_at = (2 * self.parties.len()).max(SWEEP_MIN);
    }
}

fn classify(first: &Party, second: &Party, conflict: Conflict, place: Place) -> FindingClass {
    if second.kind.effect() == Effect::Frees {
        let in_stream = second.kind.is_in_stream() || place == Place::Device;
        if in_stream { FindingClass::FreeRacesUse } else { FindingClass::FreeInFlight }
    } else if first.kind == OpKind::Work(StreamWork::Alloc) {
        FindingClass::UseBeforeAlloc
    } else if first.is_of_host() || second.is_of_host() {
        FindingClass::Host(conflict)
    } else {
        FindingClass::Race(conflict)
    }
}

fn overlap(a: &Access, b: &Access) -> Option<(BlockId, Range<u64>)> {
    let range = a.range.start.max(b.range.start)..a.range.end.min(b.range.end);
    let meets = a.block == b.block && range.start < range.end;
    (meets && (a.mode.writes() || b.mode.writes())).then_some((a.block, range))
}
