//! How fast the checker is: records per second on one thread, over synthetic records of one stream
//! and of several. Each record is clean; with one race planted in it, that race is what is found.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::stats::Samples;
use serde::Deserialize;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Instant;
use trijet::check::{Checker, Options, check};
use trijet::trace::file::{About, Reader, Writer};
use trijet::trace::{
    Access, Accesses, Asked, BlockId, DeviceId, Engine, LaneId, Mode, Op, OpKind, OrderedBy,
    Outcome, Place, Position, TimeSource, Waited,
};
use trijet::{Error, ErrorKind, Result};

#[derive(Debug, Deserialize)]
struct Definition {
    operations: u64,
    streams: Vec<u32>,
    crossing: u64,
    between_waits: u64,
    bytes: u64,
    samples: usize,
    file_records: u64,
}

/// A record that is being made.
struct Maker<'a> {
    definition: &'a Definition,
    streams: u32,
    seqs: Vec<u64>,
    ops: Vec<Op>,
}

impl Maker<'_> {
    fn push(&mut self, kind: OpKind, lane: u32, accesses: Accesses) {
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
            ordered: OrderedBy::Program,
        };
        let own = access(own_buffer(lane), Mode::ReadWrite);
        let accesses = Accesses::from([access(reads, Mode::Read), own]);
        self.seqs[lane as usize] += 1;
        self.push(OpKind::Kernel, lane, accesses);
    }

    /// The stream `to` waits for what `from` holds.
    fn edge(&mut self, event: u64, from: u32, to: u32) {
        let on = Position { lane: LaneId(from), seq: self.seqs[from as usize] };
        self.push(OpKind::Record { event, by: Asked::Ordering }, from, Accesses::new());
        self.push(OpKind::Wait { event, on, by: Asked::Ordering }, to, Accesses::new());
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
            maker.push(kind, lane, Accesses::new());
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

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` when the checker finds something in a clean record, or not what was planted.
pub fn run() -> Result<Results> {
    let definition = definition()?;
    let verified = "nothing is found in the clean records, and in each other one the planted race";
    let mut results = Results::of_host("the checker on one thread");
    results.note("verified", verified);
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
    let many = runs.last().map(|(streams, ..)| from_file(&definition, *streams)).transpose()?;
    for (streams, ops, samples) in runs {
        let what = format!("{streams} streams, {} records", ops.len());
        results.push(what, "M records/s", samples, None);
    }
    if let Some(many) = many {
        let what = |words: &str| format!("{} records in a file: {words}", many.records);
        results.push(what("read and checked"), "M records/s", many.rate, None);
        results.push(what("length"), "B/record", many.bytes, None);
        results.push(what("memory beside the program's"), "MiB", many.memory, None);
    }
    Ok(results)
}

/// A long record, judged while it is read.
struct Many {
    records: u64,
    rate: Samples,
    bytes: Samples,
    memory: Samples,
}

/// A file that goes when it is done with.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // One that stays behind is in the folder for that.
        drop(fs::remove_file(&self.0));
    }
}

/// Memory of this process that is in use, in MiB; 0 where the system does not tell.
fn resident() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_else(|_| String::new());
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.map_or(0.0, |pages| pages * 4096.0 / f64::from(1 << 20))
}

fn from_file(definition: &Definition, streams: u32) -> Result<Many> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, "bench check", error.to_string()).caused_by(error)
    };
    let name = format!("trijet-bench-{}.ledger", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let ops = make(definition, streams, false).0;
    let about = About {
        tool: "trijet bench".to_owned(),
        program: "a synthetic record".to_owned(),
        times: TimeSource::Missing,
        clock_error_ns: 0,
        dropped: 0,
        order: None,
        devices: Vec::new(),
    };
    let file = BufWriter::new(File::create(&scratch.0).map_err(failed)?);
    let mut writer = Writer::new(file, &about)?;
    let mut records = 0;
    while records < definition.file_records {
        ops.iter().try_for_each(|op| writer.push(op))?;
        records += ops.len() as u64;
    }
    drop(writer.finish()?);
    drop(ops);
    let bytes = fs::metadata(&scratch.0).map_err(failed)?.len();
    let before = resident();
    let mut most = before;
    let start = Instant::now();
    let mut checker = Checker::new(Options::default());
    let reader = Reader::new(BufReader::new(File::open(&scratch.0).map_err(failed)?))?;
    for (number, op) in reader.enumerate() {
        checker.push(&op?);
        if number.is_multiple_of(1 << 16) {
            most = most.max(resident());
        }
    }
    let verdict = checker.finish();
    let time = start.elapsed().as_secs_f64();
    if verdict.ops != records || !verdict.findings.is_empty() {
        return Err(wrong(format!("{} of {records} records: {verdict}", verdict.ops)));
    }
    let one = |value| {
        let mut samples = Samples::default();
        samples.push(value);
        samples
    };
    Ok(Many {
        records,
        rate: one(records as f64 / time / 1e6),
        bytes: one(bytes as f64 / records as f64),
        memory: one(most - before),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_race_is_found_and_nothing_else_is() -> Result<()> {
        let definition = Definition { operations: 4000, ..definition()? };
        definition.streams.iter().try_for_each(|streams| verify(&definition, *streams))
    }

    #[test]
    fn a_record_in_a_file_is_judged_whole_and_the_file_goes() -> Result<()> {
        let definition = Definition { operations: 4000, file_records: 20_000, ..definition()? };
        let many = from_file(&definition, 8)?;
        assert!(many.records >= 20_000);
        let name = format!("trijet-bench-{}.ledger", std::process::id());
        assert!(!std::env::temp_dir().join(name).exists());
        Ok(())
    }
}
