//! Mistakes that a program cannot make with the library, because frees and guards of the host
//! always wait, even for memory that is ordered by hand.
//!
//! Only the good program runs. The ledger of the bad program is made from the ledger of the good
//! program. For this, the wait is removed, as if the program had made plain driver calls without a
//! wait.
#![forbid(unsafe_code)]

use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;
use trijet::trace::{HostStep, Op, OpKind, StreamMark, StreamWork};
use trijet::{Result, Trace};
use trijet_lessons::{Flag, Ground, Said, wrong};
use trijet_tools::work::hash;

/// The outcome of one program.
#[derive(Debug)]
pub(super) struct Edited {
    name: &'static str,
    flag: Flag,
    bad: Said,
    good: Said,
}

impl Edited {
    /// Whether the ledger without the wait was flagged, and the ledger with the wait was not.
    pub(super) fn is_as_expected(&self) -> bool {
        self.bad.flag.is_some() && self.good.names.is_empty()
    }

    /// For each of the two ledgers: its name, and the note about it.
    pub(super) fn notes(&self) -> [(String, String); 2] {
        let Self { name, flag, bad, good } = self;
        let bad = match &bad.flag {
            Some(text) => text.clone(),
            None => format!("NOT FLAGGED as {}", flag.name()),
        };
        let good = match good.names.is_empty() {
            true => "nothing".to_owned(),
            false => format!("FLAGGED: {}", good.list()),
        };
        [
            (format!("{name}, the ledger without the library's wait"), bad),
            (format!("{name}, as it ran"), good),
        ]
    }
}

/// Runs a good program. Returns its trace, and the index of the wait that the bad program lacks.
type Program = fn(&Ground) -> Result<(Trace, usize)>;

const PROGRAMS: [(&str, FindingClass, Program); 2] = [
    ("a free on an idle stream", FindingClass::FreeRacesUse, free),
    ("host memory written in flight", FindingClass::Host(Conflict::War), write),
];

/// The index of the last entry before `end` for which `wanted` is true.
fn last(ops: &[Op], end: usize, wanted: impl Fn(&Op) -> bool) -> Result<usize> {
    let found = ops[..end].iter().rposition(wanted);
    found.ok_or_else(|| wrong("the ledger lacks the wait of the library"))
}

/// Frees an array on the stream that allocated it, while a kernel of another stream reads it.
fn free(ground: &Ground) -> Result<(Trace, usize)> {
    let (home, other) = (ground.device.stream()?, ground.device.stream()?);
    let words = ground.size.words;
    let (mut y, mut back) = (other.alloc::<u32>(words)?, ground.device.pinned::<u32>(words)?);
    let trace = ground.trace(|| {
        let mut x = home.alloc::<u32>(words)?;
        home.fill_bytes(&mut x, 1)?;
        other.launch(&WORK, (ground.rounds, &x, &mut y))?;
        drop(x);
        Ok(())
    })?;
    other.copy(&y, &mut back)?;
    let right = hash(ground.rounds, 0x0101_0101);
    if back.read()?.iter().any(|word| *word != right) {
        return Err(wrong("the kernel did not read the bytes of the freed array"));
    }
    let ops = &trace.ops;
    let freed = last(ops, ops.len(), |op| op.kind == OpKind::Work(StreamWork::Free))?;
    let lane = ops[freed].position.lane;
    let waits = |op: &Op| {
        matches!(op.kind, OpKind::Mark(StreamMark::Wait { .. })) && op.position.lane == lane
    };
    let wait = last(ops, freed, waits)?;
    Ok((trace, wait))
}

/// Writes host memory that an upload may still read.
fn write(ground: &Ground) -> Result<(Trace, usize)> {
    let stream = ground.device.stream()?;
    let words = ground.size.words;
    let (mut h, mut x) = (ground.device.pinned::<u32>(words)?, stream.alloc::<u32>(words)?);
    let trace = ground.trace(|| {
        h.write()?.fill(1);
        stream.copy(&h, &mut x)?;
        h.write()?.fill(2);
        Ok(())
    })?;
    stream.copy(&x, &mut h)?;
    if h.read()?.iter().any(|word| *word != 1) {
        return Err(wrong("the upload did not copy the bytes that the host wrote before it"));
    }
    let ops = &trace.ops;
    let again = last(ops, ops.len(), |op| op.kind == OpKind::Host(HostStep::Access))?;
    let wait = last(ops, again, |op| matches!(op.kind, OpKind::Host(HostStep::Sync { .. })))?;
    Ok((trace, wait))
}

/// Runs the programs, and checks both ledgers of each.
pub(super) fn measure(ground: &Ground) -> Result<Vec<Edited>> {
    let judged = |(name, class, program): (_, _, Program)| -> Result<Edited> {
        let flag = Flag::Finding(class);
        let (mut trace, wait) = program(ground)?;
        let good = Said::of(&trace, flag);
        trace.ops.remove(wait);
        Ok(Edited { name, flag, bad: Said::of(&trace, flag), good })
    };
    PROGRAMS.into_iter().map(judged).collect()
}
