//! How fast the checker is: records per second on one thread, over synthetic records of one stream
//! and of several. Each record is clean; with one race planted in it, that race is what is found.
#![forbid(unsafe_code)]

use crate::record::Record;
use crate::simulate::processor;
use crate::stats::Samples;
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Instant;
use trijet::base::id::{BlockId, DeviceId, LaneId, Position};
use trijet::base::ledger::{Access, Asked, Engine, Mode, Op, OpKind, Outcome, Place, Waited};
use trijet::check::check;
use trijet::{Device, Error, ErrorKind, Result};

#[derive(Debug, Deserialize)]
struct Definition {
    operations: u64,
    streams: Vec<u32>,
    crossing: u64,
    between_waits: u64,
    bytes: u64,
    samples: usize,
}

/// A record that is being made.
struct Maker<'a> {
    definition: &'a Definition,
    streams: u32,
    seqs: Vec<u64>,
    ops: Vec<Op>,
}

impl Maker<'_> {
    fn push(&mut self, kind: OpKind, lane: u32, accesses: Vec<Access>) {
        let position = Position { lane: LaneId(lane), seq: self.seqs[lane as usize] };
        self.ops.push(Op {
            accesses,
            label: Cow::Borrowed("kernel"),
            thread: 1,
            ..Op::new(kind, Engine::Compute, DeviceId(0), position)
        });
    }

    fn kernel(&mut self, lane: u32, reads: u64) {
        let range = 0..self.definition.bytes;
        let access = |block, mode| Access {
            block: BlockId(block),
            place: Place::Device,
            range: range.clone(),
            mode,
        };
        let accesses = vec![access(reads, Mode::Read), access(own_buffer(lane), Mode::ReadWrite)];
        self.seqs[lane as usize] += 1;
        self.push(OpKind::Kernel, lane, accesses);
    }

    /// The stream `to` waits for what `from` holds.
    fn edge(&mut self, event: u64, from: u32, to: u32) {
        let on = Position { lane: LaneId(from), seq: self.seqs[from as usize] };
        self.push(OpKind::Record { event, by: Asked::Ordering }, from, Vec::new());
        self.push(OpKind::Wait { event, on, by: Asked::Ordering }, to, Vec::new());
    }
}

fn own_buffer(lane: u32) -> u64 {
    1000 + u64::from(lane)
}

/// A record, and the index of the kernel that races, if one is planted.
fn make(definition: &Definition, streams: u32, planted: bool) -> (Vec<Op>, Option<u64>) {
    let lanes = streams.max(2);
    let mut maker = Maker { definition, streams, seqs: vec![0; lanes as usize], ops: Vec::new() };
    let mut racing = None;
    // Crossings are the kernels that can lose their order. Just after the host has waited, there
    // would be none to lose.
    let middle = (definition.operations / 2 / definition.crossing + 7) * definition.crossing;
    for (number, lane) in (0..definition.operations).zip((0..maker.streams).cycle()) {
        let other = (lane + 1) % lanes;
        let crosses = streams > 1 && number % definition.crossing == 0;
        let plants = planted && number == middle;
        if crosses && !plants {
            maker.edge(u64::from(other) + 1, other, lane);
        }
        if plants && streams == 1 {
            racing = Some(maker.ops.len() as u64);
            maker.kernel(other, own_buffer(lane));
        } else if crosses {
            racing = racing.or_else(|| plants.then_some(maker.ops.len() as u64));
            maker.kernel(lane, own_buffer(other));
            maker.edge(100 + u64::from(lane), lane, other);
        } else {
            maker.kernel(lane, u64::from(lane) + 1);
        }
        if number % definition.between_waits == definition.between_waits - 1 {
            let kind = OpKind::Sync { what: Waited::Device, outcome: Outcome::Complete };
            maker.push(kind, lane, Vec::new());
        }
    }
    (maker.ops, racing)
}

fn wrong(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench check", cause)
}

/// Checks both kinds of records for what they hold.
fn verify(definition: &Definition, streams: u32) -> Result<()> {
    let verdict = check(&make(definition, streams, false).0);
    if !verdict.findings.is_empty() {
        return Err(wrong(format!("{streams} streams: {verdict}")));
    }
    let (ops, racing) = make(definition, streams, true);
    let verdict = check(&ops);
    let found = verdict.findings.first().map(|finding| finding.second.op);
    if racing.is_none() || found != racing {
        return Err(wrong(format!("{streams} streams: planted {racing:?}, found {found:?}")));
    }
    Ok(())
}

fn definition() -> Result<Definition> {
    toml::from_str(include_str!("../definitions/check.toml"))
        .map_err(|e| Error::new(ErrorKind::InvalidValue, "bench", "definition").caused_by(e))
}

/// Runs the benchmark. The device only stands in the record.
///
/// # Errors
/// `InvalidValue` when the checker finds something in a clean record, or not what was planted.
pub fn run(device: &Device) -> Result<Record> {
    let definition = definition()?;
    let verified = "nothing is found in the clean records, and in each other one the planted race";
    let mut record = Record::new("check", device, verified);
    record.device = format!("the checker on one thread of {}", processor());
    let mut runs = Vec::new();
    for streams in &definition.streams {
        verify(&definition, *streams)?;
        runs.push((*streams, make(&definition, *streams, false).0, Samples::default()));
    }
    for sample in 0..=definition.samples {
        for (_, ops, samples) in &mut runs {
            let start = Instant::now();
            let verdict = check(ops);
            let time = start.elapsed().as_secs_f64();
            if verdict.ops != ops.len() as u64 {
                return Err(wrong("not every record was looked at".to_owned()));
            }
            // The first run warms up.
            if sample > 0 {
                samples.push(ops.len() as f64 / time / 1e6);
            }
        }
    }
    for (streams, ops, samples) in runs {
        let what = format!("{streams} streams, {} records", ops.len());
        record.push(what, "M records/s", samples, None);
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_race_is_found_and_nothing_else_is() -> Result<()> {
        let definition = Definition { operations: 4000, ..definition()? };
        definition.streams.iter().try_for_each(|streams| verify(&definition, *streams))
    }
}
