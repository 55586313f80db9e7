//! Witnesses of races: a symbolic replay of both orders shows that the results differ.
//!
//! In the replay, the content of bytes is a hash of the operation that wrote the bytes and of
//! everything that this operation had read. One replay keeps the order of the trace. The other
//! replay moves the first operation of the race, and all that follows it, to the position after the
//! second operation. The laws allow that order, because the second operation does not follow the
//! first.
#![forbid(unsafe_code)]

use super::hazard::{Conflict, Finding, Witness};
use super::order::{EntryOrder, Moment, Stamp, Step};
use crate::base::id::BlockId;
use crate::base::interval::RangeMap;
use crate::base::ledger::{Access, Mode, Op};
use std::collections::HashMap;

/// A part of an entry: what happens at its call, or what happens in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Call,
    Work,
}

/// The index of an entry, and one of its halves. The replay moves halves independently.
type Piece = (usize, Half);

/// The state of a replay: the content of memory, and a hash of what each entry has read so far.
#[derive(Default)]
struct WitnessReplay {
    bytes: HashMap<BlockId, RangeMap<u32>>,
    inputs: HashMap<usize, u64>,
}

fn mix(state: u64, value: u64) -> u64 {
    let sum = (state ^ value.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

fn folded(state: u64) -> u32 {
    let bytes = mix(state, state >> 32).to_le_bytes();
    u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

impl WitnessReplay {
    /// The content of bytes before the first write.
    fn initial(block: BlockId) -> u32 {
        folded(mix(1, block.0))
    }

    fn at(&self, block: BlockId, byte: u64) -> u32 {
        let map = self.bytes.get(&block);
        let entry = map.and_then(|map| map.overlapping(byte..byte.saturating_add(1)).next());
        entry.map_or_else(|| Self::initial(block), |(_, value)| *value)
    }

    fn read(&mut self, op: usize, access: &Access) {
        let input = self.inputs.entry(op).or_insert(0);
        *input = mix(*input, u64::from(Self::initial(access.block)));
        let Some(map) = self.bytes.get(&access.block) else { return };
        for (range, value) in map.overlapping(access.range.clone()) {
            let from = range.start.max(access.range.start) - access.range.start;
            *input = mix(mix(*input, from), u64::from(*value));
        }
    }

    fn write(&mut self, op: usize, access: &Access) {
        let input = self.inputs.get(&op).copied().unwrap_or(0);
        let value = folded(mix(mix(2, op as u64), input));
        let map = self.bytes.entry(access.block).or_default();
        map.update(access.range.clone(), || value, |held| *held = value);
    }

    /// Replays the reads and then the writes of a half.
    fn run(&mut self, race: &Race<'_>, piece: Piece) {
        let (op, step) = (&race.ops[piece.0], &race.steps[piece.0]);
        let here = |access: &&Access| {
            race.half(piece.0, access, step) == piece.1 && access.range.start < access.range.end
        };
        let accesses = || op.accesses.iter().filter(here);
        let reads = accesses().filter(|access| access.mode != Mode::Write);
        reads.for_each(|access| self.read(piece.0, access));
        let writes = accesses().filter(|access| access.mode.writes());
        writes.for_each(|access| self.write(piece.0, access));
    }
}

/// A race, and the halves of the entries in the two orders.
struct Race<'a> {
    ops: &'a [Op],
    steps: Vec<Step>,
    conflict: Conflict,
    block: BlockId,
    byte: u64,
    first: usize,
    second: usize,
    /// The halves of all entries, in the order of the trace.
    kept: Vec<Piece>,
    /// The halves that do not follow the first operation.
    early: Vec<Piece>,
    /// The racing half of the first operation, and the halves that follow it.
    late: Vec<Piece>,
    /// The half of the first operation that races, and the stamp that a clock must cover to follow
    /// that half.
    moved: Option<(Piece, Stamp)>,
}

impl<'a> Race<'a> {
    fn new(ops: &'a [Op], finding: &Finding) -> Option<Self> {
        let second = usize::try_from(finding.second.op).ok()?;
        Some(Self {
            ops: ops.get(..second.checked_add(1)?)?,
            steps: Vec::new(),
            conflict: finding.conflict?,
            block: finding.block?,
            byte: finding.ranges.first()?.start,
            first: usize::try_from(finding.first.as_ref()?.op).ok()?,
            second,
            kept: Vec::new(),
            early: Vec::new(),
            late: Vec::new(),
            moved: None,
        })
    }

    /// The half in which an access happens. An access may happen at any time from the call to the
    /// work. Then an access of the second operation of the race counts at the call, and an access
    /// of any other operation counts at the work.
    fn half(&self, index: usize, access: &Access, step: &Step) -> Half {
        match step.moment(&self.ops[index], access) {
            Moment::Call => Half::Call,
            Moment::CallToWork if index == self.second => Half::Call,
            Moment::CallToWork | Moment::Work => Half::Work,
        }
    }

    /// Whether the first operation writes the byte, and whether the second operation writes it.
    fn writes(&self) -> (bool, bool) {
        match self.conflict {
            Conflict::Raw => (true, false),
            Conflict::War => (false, true),
            Conflict::Waw => (true, true),
        }
    }

    /// The half of an entry that accesses the byte, and the stamp of the end of the access. If
    /// `writes` is true, the access writes the byte. Otherwise the access reads the byte.
    fn touch(&self, index: usize, step: &Step, writes: bool) -> Option<(Piece, Stamp)> {
        let touches = |access: &&Access| {
            let Access { block, range, mode, .. } = access;
            let fits = if writes { mode.writes() } else { *mode != Mode::Write };
            fits && *block == self.block && range.start <= self.byte && self.byte < range.end
        };
        let op = &self.ops[index];
        let access = op.accesses.iter().find(touches)?;
        let half = self.half(index, access, step);
        Some(((index, half), step.end(step.moment(op, access))))
    }

    /// Adds the halves of the next entry to `kept`, and to `early` or `late`.
    fn place(&mut self, order: &EntryOrder, index: usize, step: Step) {
        if index == self.first {
            self.moved = self.touch(index, &step, self.writes().0);
        }
        for half in [Half::Call, Half::Work] {
            let moment = if half == Half::Call { Moment::Call } else { Moment::Work };
            let piece = (index, half);
            self.kept.push(piece);
            let follows = self.moved.is_some_and(|(moved, end)| {
                let after = || index != self.first && order.before(&step, moment).sure.covers(end);
                piece == moved || after()
            });
            if follows { self.late.push(piece) } else { self.early.push(piece) }
        }
        self.steps.push(step);
    }

    /// Replays the halves in the order of `pieces`. Returns the value of the byte that the reading
    /// operation reads or, if both operations write, the value after the second write.
    fn outcome(&self, pieces: impl Iterator<Item = Piece>) -> Option<u32> {
        let (first, _) = self.moved?;
        let (second, _) = self.touch(self.second, self.steps.get(self.second)?, self.writes().1)?;
        let reader = match self.conflict {
            Conflict::Raw => Some(second),
            Conflict::War => Some(first),
            Conflict::Waw => None,
        };
        let mut replay = WitnessReplay::default();
        let mut open = 2;
        for piece in pieces {
            if reader == Some(piece) {
                return Some(replay.at(self.block, self.byte));
            }
            replay.run(self, piece);
            open -= u8::from(piece == first || piece == second);
            if open == 0 {
                return Some(replay.at(self.block, self.byte));
            }
        }
        None
    }
}

/// Replays a conflict of two entries of `ops` in both orders. `order` has read no entry yet.
pub(super) fn replay(ops: &[Op], finding: &Finding, mut order: EntryOrder) -> Option<Witness> {
    let mut race = Race::new(ops, finding)?;
    for (index, op) in race.ops.iter().enumerate() {
        let step = order.step(op, index as u64);
        race.place(&order, index, step);
    }
    Some(Witness {
        byte: race.byte,
        kept: race.outcome(race.kept.iter().copied())?,
        swapped: race.outcome(race.early.iter().chain(&race.late).copied())?,
    })
}
