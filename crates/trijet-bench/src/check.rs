//! The speed of the checker: entries per second on one thread, over synthetic ledgers of one stream
//! and of several.
//!
//! Before the measurement, each ledger is checked twice: clean, which must give no finding, and
//! with one planted race, which must be the first finding.
#![forbid(unsafe_code)]

use crate::results::Results;
use serde::Deserialize;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::time::Instant;
use trijet::check::{CheckOptions, Checker, check};
use trijet::trace::file::{About, Reader, Writer};
use trijet::trace::{
    Access, Accesses, Asked, BlockId, DeviceId, Engine, HostStep, LaneId, Mode, Op, OpKind,
    OrderedBy, Place, Position, StreamMark, StreamWork, TimeSource, WaitOutcome, Waited,
};
use trijet::{Error, ErrorKind, Result};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    operations: u64,
    streams: Vec<u32>,
    crossing: u64,
    between_waits: u64,
    bytes: u64,
    samples: usize,
    file_entries: u64,
}

/// A ledger under construction.
struct Maker<'a> {
    definition: &'a Definition,
    streams: u32,
    seqs: Vec<u64>,
    ops: Vec<Op>,
}

impl Maker<'_> {
    fn push(&mut self, kind: impl Into<OpKind>, lane: u32, accesses: Accesses) {
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
        let own = access(own_buffer(lane), Mode::Update);
        let accesses = Accesses::from([access(reads, Mode::Read), own]);
        self.seqs[lane as usize] += 1;
        self.push(StreamWork::Kernel, lane, accesses);
    }

    /// Adds an event record and a wait: the stream `to` waits for the work of `from`.
    fn edge(&mut self, event: u64, from: u32, to: u32) {
        let on = Position { lane: LaneId(from), seq: self.seqs[from as usize] };
        self.push(StreamMark::Record { event, by: Asked::Ordering }, from, Accesses::new());
        self.push(StreamMark::Wait { event, on, by: Asked::Ordering }, to, Accesses::new());
    }
}

fn own_buffer(lane: u32) -> u64 {
    1000 + u64::from(lane)
}

/// Makes a ledger, and returns its entries. With several streams, every `crossing`-th kernel reads
/// the buffer of another stream. If `planted` is set, also returns the index of the racing kernel.
fn make(definition: &Definition, streams: u32, planted: bool) -> (Vec<Op>, Option<u64>) {
    let lanes = streams.max(2);
    let mut maker = Maker { definition, streams, seqs: vec![0; lanes as usize], ops: Vec::new() };
    let mut racing = None;
    // The racing kernel reads the buffer of another stream without a wait for that stream. A kernel
    // shortly after a wait of the host for the device needs no such wait. So a later kernel is
    // used.
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
            let kind = HostStep::Sync { what: Waited::Device, outcome: WaitOutcome::Complete };
            maker.push(kind, lane, Accesses::new());
        }
    }
    (maker.ops, racing)
}

fn wrong(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench check", cause)
}

/// Checks two ledgers: the clean ledger must give no finding, and the ledger with a planted race
/// must give this race as its first finding.
fn verify(definition: &Definition, streams: u32) -> Result<()> {
    let verdict = check(&make(definition, streams, false).0);
    if !verdict.findings.is_empty() {
        return Err(wrong(format!("{streams} streams: {verdict}")));
    }
    let (ops, racing) = make(definition, streams, true);
    let verdict = check(&ops);
    let found = verdict.findings.first().map(|finding| finding.second.op);
    if racing.is_none() || found != racing {
        let text = format!("a race was planted at entry {racing:?} and found at entry {found:?}");
        return Err(wrong(format!("{streams} streams: {text}")));
    }
    Ok(())
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if the checker finds something in a clean ledger, or misses the planted race.
pub(crate) fn run(definition: &Definition, steps: &mut Steps<'_>) -> Result<Results> {
    let verified = "clean ledgers have no finding, and each other ledger has the planted race";
    let mut results = Results::of_host("the checker on one thread");
    results.note("verified", verified);
    let mut runs = Vec::new();
    steps.expect(3);
    steps.begin("making records");
    for streams in &definition.streams {
        verify(definition, *streams)?;
        runs.push((*streams, make(definition, *streams, false).0, Samples::default()));
    }
    steps.begin("checking records in memory");
    for sample in 0..=definition.samples {
        for (_, ops, samples) in &mut runs {
            let start = Instant::now();
            let verdict = check(ops);
            let time = start.elapsed().as_secs_f64();
            if verdict.ops != ops.len() as u64 {
                let text = format!("{} of {} entries were checked", verdict.ops, ops.len());
                return Err(wrong(text));
            }
            // The first run is a warm-up, and is not counted.
            if sample > 0 {
                samples.push(ops.len() as f64 / time / 1e6);
            }
        }
    }
    steps.begin("writing and checking records in a file");
    let many = runs.last().map(|(streams, ..)| from_file(definition, *streams)).transpose()?;
    for (streams, ops, samples) in runs {
        let what = format!("{streams} streams, {} records", ops.len());
        results.push(what, "M records/s", samples, None);
    }
    if let Some(many) = many {
        let what = |words: &str| format!("{} records in a file: {words}", many.entries);
        results.push(what("read and checked"), "M records/s", many.rate, None);
        results.push(what("length"), "B/record", many.bytes, None);
        results.push(what("memory beside the program's"), "MiB", many.memory, None);
    }
    Ok(results)
}

/// The figures of the check of a long ledger that is read from a file.
struct Many {
    entries: u64,
    rate: Samples,
    bytes: Samples,
    memory: Samples,
}

/// A temporary file, which is removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder for temporary files.
        drop(fs::remove_file(&self.0));
    }
}

/// The resident memory of this process in MiB; 0 if the system does not report it.
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
        program: "a synthetic ledger".to_owned(),
        times: TimeSource::Missing,
        clock_error_ns: 0,
        dropped: 0,
        order: None,
        devices: Vec::new(),
        hardware_queues: None,
    };
    let file = BufWriter::new(File::create(&scratch.0).map_err(failed)?);
    let mut writer = Writer::new(file, &about)?;
    let mut entries = 0;
    while entries < definition.file_entries {
        ops.iter().try_for_each(|op| writer.push(op))?;
        entries += ops.len() as u64;
    }
    drop(writer.finish()?);
    drop(ops);
    let bytes = fs::metadata(&scratch.0).map_err(failed)?.len();
    let before = resident();
    let mut most = before;
    let start = Instant::now();
    let mut checker = Checker::new(CheckOptions::default());
    let reader = Reader::new(BufReader::new(File::open(&scratch.0).map_err(failed)?))?;
    for (number, op) in reader.enumerate() {
        checker.push(&op?);
        if number.is_multiple_of(1 << 16) {
            most = most.max(resident());
        }
    }
    let verdict = checker.finish();
    let time = start.elapsed().as_secs_f64();
    if verdict.ops != entries || !verdict.findings.is_empty() {
        return Err(wrong(format!("{} of {entries} entries: {verdict}", verdict.ops)));
    }
    let one = |value| {
        let mut samples = Samples::default();
        samples.push(value);
        samples
    };
    Ok(Many {
        entries,
        rate: one(entries as f64 / time / 1e6),
        bytes: one(bytes as f64 / entries as f64),
        memory: one(most - before),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;

    fn definition() -> Result<Definition> {
        parse(include_str!("../definitions/check.toml"))
    }

    #[test]
    fn a_planted_race_is_the_first_finding_and_a_clean_ledger_has_none() -> Result<()> {
        let definition = Definition { operations: 4000, ..definition()? };
        definition.streams.iter().try_for_each(|streams| verify(&definition, *streams))
    }

    #[test]
    fn a_ledger_in_a_file_is_checked_whole_and_the_file_is_removed() -> Result<()> {
        let definition = Definition { operations: 4000, file_entries: 20_000, ..definition()? };
        let many = from_file(&definition, 8)?;
        assert!(many.entries >= 20_000);
        let name = format!("trijet-bench-{}.ledger", std::process::id());
        assert!(!std::env::temp_dir().join(name).exists());
        Ok(())
    }
}
