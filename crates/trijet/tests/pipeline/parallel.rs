//! Sources and sinks that several threads use: every part arrives once, and errors end the run.

use crate::{Collect, Landed, Memory, noise, threads};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread::available_parallelism;
use trijet::pipeline::{Blocks, HostWork, Layout, ParallelSink};
use trijet::testing::{Prng, WORK};
use trijet::{Bytes, Cancel, Error, ErrorKind, Pipeline, Result, Sink, Source};

/// A granule of this size has its own parts.
const PART: usize = 64 << 10;

/// Rows in memory, which threads read in parts. If a field names a row, its read fails or panics.
#[derive(Default)]
struct Parts {
    bytes: Vec<u8>,
    row_bytes: u64,
    granule: u64,
    fails_at: Option<u64>,
    panics_at: Option<u64>,
}

impl Source for Parts {
    fn layout(&self) -> Layout {
        Layout::rows(self.bytes.len() as u64 / self.row_bytes, self.row_bytes).granule(self.granule)
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        assert!(rows.start.is_multiple_of(self.granule), "{rows:?}");
        assert!(!self.panics_at.is_some_and(|row| rows.contains(&row)), "the source is broken");
        if self.fails_at.is_some_and(|row| rows.contains(&row)) {
            return Err(Error::new(ErrorKind::Io, "read", "scan.raw: the disk is gone"));
        }
        let first = usize::try_from(rows.start * self.row_bytes).expect("a small test");
        into.copy_from_slice(&self.bytes[first..first + into.len()]);
        Ok(())
    }
}

/// The rows that a sink has taken: the bytes at their places, the count of each row, and the calls
/// of `finish`.
struct Taken {
    bytes: Mutex<Vec<u8>>,
    times: Vec<AtomicU64>,
    finished: AtomicU64,
}

struct Places<'a> {
    taken: &'a Taken,
    row_bytes: usize,
    /// The granule at which it lets chunks be cut.
    granule: u64,
    fails_at: Option<u64>,
    cancel: Option<(u64, Cancel)>,
}

impl Taken {
    fn new(rows: usize, row_bytes: usize) -> Self {
        let times = (0..rows).map(|_| AtomicU64::new(0)).collect();
        Self { bytes: Mutex::new(vec![0; rows * row_bytes]), times, finished: AtomicU64::new(0) }
    }

    fn rows_taken(&self, times: u64) -> usize {
        self.times.iter().filter(|row| row.load(Ordering::SeqCst) == times).count()
    }
}

impl ParallelSink for Places<'_> {
    fn granule(&self) -> Option<u64> {
        Some(self.granule)
    }

    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        assert_eq!(self.taken.finished.load(Ordering::SeqCst), 0, "nothing comes after the end");
        assert!(rows.start.is_multiple_of(self.granule), "{rows:?}");
        if self.fails_at.is_some_and(|row| rows.contains(&row)) {
            return Err(Error::new(ErrorKind::Io, "write", "out.raw: no space left"));
        }
        if let Some((row, cancel)) = &self.cancel
            && rows.contains(row)
        {
            cancel.cancel();
        }
        let place = |row: u64| usize::try_from(row).expect("a small test");
        let first = place(rows.start) * self.row_bytes;
        self.taken.bytes.lock().expect("no test panics with this lock")[first..first + bytes.len()]
            .copy_from_slice(bytes);
        for row in rows {
            self.taken.times[place(row)].fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Sink for Places<'_> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<()> {
        self.taken.finished.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn index(draw: &mut Prng, bound: u64) -> usize {
    usize::try_from(draw.below(bound)).expect("a small test")
}

/// Chunks of one part and of many, with a granule and without, of all rows and of some.
#[test]
fn every_row_is_taken_once_and_at_its_place() {
    for seed in 0..30 {
        let mut draw = Prng::new(seed);
        let granule = 1 + draw.below(3);
        let row_bytes = [PART as u64, PART as u64 / 2, 4096, 300 * 4][index(&mut draw, 4)];
        let rows = granule * (1 + draw.below(24));
        let bytes = noise(seed, usize::try_from(rows * row_bytes).expect("a small test"));
        let first = granule * draw.below(rows / granule);
        let todo = [0..rows, first..rows][index(&mut draw, 2)].clone();
        let row_len = usize::try_from(row_bytes).expect("a small test");
        let taken = Taken::new(usize::try_from(rows).expect("a small test"), row_len);
        let source = Parts { bytes: bytes.clone(), row_bytes, granule, ..Parts::default() };
        let cut = [1, granule][index(&mut draw, 2)];
        let sink = Places {
            taken: &taken,
            row_bytes: row_len,
            granule: cut,
            fails_at: None,
            cancel: None,
        };
        let host_work = [HostWork::Threads, HostWork::Inline][index(&mut draw, 2)];
        Pipeline::on(&threads())
            .source(source)
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
            .sink(sink)
            .rows(vec![todo.clone()])
            .chunk(Bytes((1 + draw.below(9)) * granule * row_bytes))
            .depth(1 + index(&mut draw, 4))
            .host_work(host_work)
            .run()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let wanted = usize::try_from(todo.end - todo.start).expect("a small test");
        assert_eq!(taken.rows_taken(1), wanted, "seed {seed}");
        assert_eq!(taken.rows_taken(0) + wanted, taken.times.len(), "seed {seed}");
        let from = usize::try_from(todo.start * row_bytes).expect("a small test");
        assert_eq!(taken.bytes.lock().unwrap()[from..], bytes[from..], "seed {seed}");
        assert_eq!(taken.finished.load(Ordering::SeqCst), 1, "seed {seed}");
    }
}

/// A sink that stores the lengths of its parts.
struct Lengths {
    granule: Option<u64>,
    parts: Mutex<Vec<u64>>,
}

impl ParallelSink for Lengths {
    fn granule(&self) -> Option<u64> {
        self.granule
    }

    fn write_part(&self, rows: Range<u64>, _: &[u8]) -> Result<()> {
        self.parts.lock().expect("no test panics with this lock").push(rows.end - rows.start);
        Ok(())
    }
}

impl Sink for &Lengths {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(*self)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A chunk of one large image once went to one thread, because the stage needed whole images.
#[test]
fn a_chunk_of_one_granule_is_cut_where_the_sink_takes_its_rows() {
    if available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    let lengths = |granule| {
        let source = Parts {
            bytes: noise(1, 64 * PART),
            row_bytes: PART as u64,
            granule: 16,
            ..Parts::default()
        };
        let sink = Lengths { granule, parts: Mutex::default() };
        Pipeline::on(&threads())
            .source(source)
            .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
            .sink(&sink)
            .chunk(Bytes(16 * PART as u64))
            .run()
            .unwrap();
        let parts = sink.parts.into_inner().unwrap();
        assert_eq!(parts.iter().sum::<u64>(), 64);
        parts
    };
    assert_eq!(lengths(None), [16; 4]);
    assert_eq!(lengths(Some(16)), [16; 4]);
    // Not a divisor of the granule of the results.
    assert_eq!(lengths(Some(5)), [16; 4]);
    assert_eq!(lengths(Some(0)), [16; 4]);
    assert!(lengths(Some(1)).iter().any(|rows| *rows < 16));
    assert!(lengths(Some(4)).iter().all(|rows| rows.is_multiple_of(4)));
}

/// A run over 40 rows in chunks of four parts.
fn failing(source: impl FnOnce(&mut Parts), sink: impl FnOnce(&mut Places<'_>)) -> (Error, Taken) {
    let bytes = noise(1, 40 * PART);
    let taken = Taken::new(40, PART);
    let mut from = Parts { bytes, row_bytes: PART as u64, granule: 1, ..Parts::default() };
    source(&mut from);
    let mut to =
        Places { taken: &taken, row_bytes: PART, granule: 1, fails_at: None, cancel: None };
    sink(&mut to);
    let cancel = to.cancel.as_ref().map(|(_, cancel)| cancel.clone()).unwrap_or_default();
    let error = Pipeline::on(&threads())
        .source(from)
        .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
        .sink(to)
        .chunk(Bytes(4 * PART as u64))
        .cancel_with(&cancel)
        .run()
        .expect_err("the run must fail");
    assert_eq!(taken.finished.load(Ordering::SeqCst), 0, "{error}");
    (error, taken)
}

#[test]
fn an_error_of_a_part_names_its_chunk() {
    let (error, taken) = failing(|source| source.fails_at = Some(22), |_| {});
    let words = error.to_string();
    assert!(words.contains("chunk 5 (rows 20..24), source"), "{words}");
    assert!(words.contains("the disk is gone"), "{words}");
    assert_eq!(taken.times[20..24].iter().map(|row| row.load(Ordering::SeqCst)).sum::<u64>(), 0);

    let (error, _) = failing(|_| {}, |sink| sink.fails_at = Some(13));
    let words = error.to_string();
    assert!(words.contains("chunk 3 (rows 12..16), sink"), "{words}");
    assert!(words.contains("no space left"), "{words}");
}

#[test]
fn a_panic_of_a_part_is_an_error_and_not_a_hang() {
    let (error, _) = failing(|source| source.panics_at = Some(9), |_| {});
    assert_eq!(error.kind(), ErrorKind::Panicked, "{error}");
}

#[test]
fn a_cancelled_run_has_whole_rows() {
    let (error, taken) = failing(|_| {}, |sink| sink.cancel = Some((2, Cancel::new())));
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    let bytes = noise(1, 40 * PART);
    for (row, times) in taken.times.iter().enumerate() {
        match times.load(Ordering::SeqCst) {
            0 => {}
            1 => {
                let place = row * PART..(row + 1) * PART;
                assert_eq!(taken.bytes.lock().unwrap()[place.clone()], bytes[place], "row {row}");
            }
            more => panic!("row {row} came {more} times"),
        }
    }
}

/// A source with blocks of 800 rows.
struct Decoded(Memory);

impl Source for Decoded {
    fn layout(&self) -> Layout {
        self.0.layout()
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn blocks(&self) -> Option<Blocks> {
        Some(Blocks { rows: 800, count: 1 })
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.0.read(rows, into)
    }
}

/// Two blocks for each processor are decoded at once, and two more wait for their upload. The memory
/// limit comes first.
#[test]
fn the_buffers_of_a_source_with_blocks_have_a_limit() {
    let needs = |memory: u64| {
        let device = threads();
        let landed: Mutex<Landed> = Mutex::default();
        let source = Decoded(Memory::new(noise(9, 40 * 800_000), 1000));
        let pipeline = Pipeline::on(&device).source(source).sink(Collect::new(&landed));
        let pipeline = pipeline.depth(3).chunk(Bytes(800_000)).host_memory(Bytes(memory));
        let needs = pipeline.needs().expect("the plan fits");
        assert_eq!(needs.plan.chunk_rows, 800);
        needs.pinned.0 / 800_000
    };
    let processors = available_parallelism().map_or(1, |n| n.get() as u64).min(16);
    let sink = 4;
    assert_eq!(needs(1 << 30), (2 * processors).clamp(2, 40) + 2 + sink);
    assert_eq!(needs(9 * 800_000), 9.min((2 * processors).max(2) + 2 + sink));
    assert_eq!(needs(8 * 800_000), 8);
}

/// A source whose first calls return only after all of them were made.
struct Waiting<'a> {
    blocks: Decoded,
    calls: &'a Barrier,
    first: AtomicUsize,
}

impl Source for Waiting<'_> {
    fn layout(&self) -> Layout {
        self.blocks.layout()
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn blocks(&self) -> Option<Blocks> {
        self.blocks.blocks()
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let left = |left: usize| left.checked_sub(1);
        if self.first.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            self.calls.wait();
        }
        self.blocks.read(rows, into)
    }
}

/// Without this, two chunks would decode the same block.
#[test]
fn chunks_begin_at_the_blocks_of_a_source() {
    let device = threads();
    for (chunk, rows) in [(1_700_000, 1_600), (900_000, 800), (700_000, 700)] {
        let landed: Mutex<Landed> = Mutex::default();
        let source = Decoded(Memory::new(noise(9, 5_000_000), 1000));
        let pipeline = Pipeline::on(&device).source(source).sink(Collect::new(&landed));
        let report = pipeline.chunk(Bytes(chunk)).run().expect("a run without faults");
        assert!(landed.into_inner().expect("no panic").bytes == noise(9, 5_000_000));
        assert_eq!(report.plan.chunk_rows, rows);
        let starts = report.plan.chunks.iter().map(|chunk| chunk.rows.start);
        assert!(starts.zip(0..).all(|(start, number)| start == number * rows), "{chunk}");
    }
}

/// With fewer chunks, some processors would decode nothing.
#[test]
fn every_processor_decodes_a_block() {
    let processors = available_parallelism().map_or(1, usize::from).min(16);
    let (device, landed) = (threads(), Mutex::<Landed>::default());
    let calls = Barrier::new(processors);
    let blocks = Decoded(Memory::new(noise(9, 40 * 800_000), 1000));
    let source = Waiting { blocks, calls: &calls, first: AtomicUsize::new(processors) };
    let pipeline = Pipeline::on(&device).source(source).sink(Collect::new(&landed));
    pipeline.depth(3).chunk(Bytes(800_000)).run().expect("a run without faults");
    assert!(landed.into_inner().expect("no panic").bytes == noise(9, 40 * 800_000));
}

/// The chunk is smaller if the caller chooses it, or if there is too little memory.
#[test]
fn a_chunk_has_at_least_one_block() {
    let rows = |chunk: Option<u64>, memory: Option<u64>| {
        let device = threads();
        let landed: Mutex<Landed> = Mutex::default();
        let source = Decoded(Memory::new(noise(9, 1_000_000), 1000));
        let mut pipeline =
            Pipeline::on(&device).source(source).sink(Collect::new(&landed)).depth(1);
        if let Some(chunk) = chunk {
            pipeline = pipeline.chunk(Bytes(chunk));
        }
        if let Some(memory) = memory {
            pipeline = pipeline.host_memory(Bytes(memory));
        }
        let report = pipeline.run().expect("a run without faults");
        assert!(landed.into_inner().expect("no panic").bytes == noise(9, 1_000_000));
        report.plan.chunk_rows
    };
    let device = threads();
    let usual = Pipeline::on(&device).source(Memory::new(noise(9, 1_000_000), 1000));
    assert!(usual.plan().expect("a plan").chunk_rows < 800);
    assert_eq!(rows(None, None), 800);
    assert_eq!(rows(Some(10_000), None), 10);
    assert!(rows(None, Some(1_000_000)) < 800);
}
