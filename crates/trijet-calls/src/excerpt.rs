//! The calls around findings, as entries of a ledger with times, for a page.

use crate::file::{CallFile, Entry, FileError};
use crate::judged::Judged;
use crate::reader::{CallReader, Step};
use crate::seen::SeenAccesses;
use std::collections::BTreeSet;
use trijet_ledger::base::ledger::{Engine, Op, Times};
use trijet_ledger::base::units::Nanos;
use trijet_ledger::check::Assume;

/// The number of entries before and after each call of a finding.
const AROUND: u64 = 100;
/// The time of an entry without one, and the time from its start to the start of the next one.
const NOMINAL: (u64, u64) = (800, 1000);

/// Some entries of the ledger of a process.
#[derive(Debug, Clone)]
pub struct Excerpt {
    /// The entries, with the times of their calls. Work of a stream is at the call that enqueued
    /// it, and on no engine, because the time at which it ran is not known.
    pub ops: Vec<Op>,
    /// The number of each entry in the ledger.
    pub numbers: Vec<u64>,
    /// Whether the times were recorded. If not, the entries have equal distances.
    pub has_times: bool,
}

impl Excerpt {
    /// The index of an entry by its number in the ledger.
    #[must_use]
    pub fn index(&self, number: u64) -> Option<usize> {
        self.numbers.binary_search(&number).ok()
    }
}

/// Reads the entries around the findings of a process again. `None` if `bytes`, a file of calls,
/// does not have the process.
///
/// # Errors
/// The file is no call file, or contradicts itself.
pub fn excerpt(
    bytes: &[u8],
    judged: &Judged,
    assume: Assume,
) -> Result<Option<Excerpt>, FileError> {
    let findings = judged.errors.iter().chain(judged.possible.iter().map(|one| &one.finding));
    let parties = findings.flat_map(|one| one.first.iter().chain([&one.second]));
    let wanted: BTreeSet<u64> = parties.map(|party| party.op).collect();
    let is_wanted = |number: u64| {
        wanted.range(number.saturating_sub(AROUND)..=number.saturating_add(AROUND)).next().is_some()
    };
    let mut rest = bytes;
    loop {
        let file = CallFile::new(rest)?;
        let mut found = Excerpt { ops: Vec::new(), numbers: Vec::new(), has_times: false };
        let mut seen = SeenAccesses::default();
        file.entries(|entry| seen.read(&entry))?;
        let mut reader = CallReader::new(assume == Assume::DriverObserved, seen);
        let (mut number, mut time) = (0, None);
        rest = file.entries(|entry| {
            if let Entry::Time { begun, returned } = entry {
                time = Some((begun, returned));
                return;
            }
            reader.read(&entry, &mut |step: Step| {
                if is_wanted(number) {
                    found.has_times |= time.is_some();
                    let start = number * NOMINAL.1;
                    let (begin, end) = time.unwrap_or((start, start + NOMINAL.0));
                    let times = Times { begin: Nanos(begin), end: Nanos(end.max(begin)) };
                    let work = step.op.kind.is_work().then_some(times);
                    let engine = Engine::None;
                    found.ops.push(Op { call: Some(times), times: work, engine, ..step.op });
                    found.numbers.push(number);
                }
                number += 1;
            });
            time = None;
        })?;
        // A program that was started in place of another one has its number.
        if file.process == judged.process && reader.counts.calls == judged.calls {
            return Ok(Some(found));
        }
        if rest.is_empty() {
            return Ok(None);
        }
    }
}
