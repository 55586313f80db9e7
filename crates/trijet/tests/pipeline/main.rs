//! Pipelines: every byte arrives once and in order, with every schedule, in every order of the
//! device, and after errors.

mod events;
mod halos;
mod in_place;
mod kernels;
mod limits;
mod memory;
mod other_rows;
mod parallel;
mod prepared;
mod rows;
mod sharing;
mod staged;
mod unwritten;

use std::ops::{Deref, Range};
use std::sync::Mutex;
use trijet::check::CheckOptions;
use trijet::kernels::median::{Rows, median};
use trijet::pipeline::{HostWork, Layout, Schedule, StageCx, rows_of};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, Prng, WORK};
use trijet::trace::{OpKind, StreamWork};
use trijet::{
    Bytes, Cancel, Device, Error, ErrorKind, Pipeline, Result, Sink, Source, View, ViewMut,
};

const SCHEDULES: [Schedule; 4] =
    [Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned];

/// A host device under the checker, which must have no finding when the test ends: a pipeline
/// orders every conflict of its run, even after an error.
struct Checked(Device);

impl Deref for Checked {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.0
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let verdict = self.verdict().expect("the device was opened with a checker");
            assert_eq!(verdict.findings, [], "{verdict}");
        }
    }
}

fn threads() -> Checked {
    host(HostConfig::default())
}

fn host(config: HostConfig) -> Checked {
    let checked = Device::builder().host(config).check(CheckOptions::default());
    Checked(checked.open().expect("a host device"))
}

fn virtual_host(order: Order) -> HostConfig {
    HostConfig::new().executor(Executor::Virtual(order))
}

fn simulated(order: Order) -> Checked {
    host(virtual_host(order))
}

/// Rows in memory. If `fails_at` names a row, its read fails.
struct Memory {
    bytes: Vec<u8>,
    layout: Layout,
    fails_at: Option<u64>,
}

impl Memory {
    fn new(bytes: Vec<u8>, row_bytes: u64) -> Self {
        let rows = bytes.len() as u64 / row_bytes;
        Self { bytes, layout: Layout::rows(rows, row_bytes), fails_at: None }
    }
}

impl Source for Memory {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        if self.fails_at.is_some_and(|row| rows.contains(&row)) {
            return Err(Error::new(ErrorKind::Io, "read", "scan.raw: the disk is gone"));
        }
        let row = self.layout.row_bytes;
        let from = usize::try_from(rows.start * row).expect("a small test");
        into.copy_from_slice(&self.bytes[from..from + into.len()]);
        Ok(())
    }
}

/// The input of a sink, shared with the test.
#[derive(Default)]
struct Landed {
    bytes: Vec<u8>,
    rows: Vec<Range<u64>>,
    finished: bool,
}

struct Collect<'a> {
    landed: &'a Mutex<Landed>,
    fails_at: Option<u64>,
    cancel: Option<(u64, Cancel)>,
}

impl<'a> Collect<'a> {
    fn new(landed: &'a Mutex<Landed>) -> Self {
        Self { landed, fails_at: None, cancel: None }
    }
}

impl Sink for Collect<'_> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        if self.fails_at.is_some_and(|row| rows.contains(&row)) {
            return Err(Error::new(ErrorKind::Io, "write", "out.raw: no space left"));
        }
        if let Some((row, cancel)) = &self.cancel
            && rows.contains(row)
        {
            cancel.cancel();
        }
        let mut landed = self.landed.lock().expect("no test panics with this lock");
        landed.bytes.extend_from_slice(bytes);
        landed.rows.push(rows);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.landed.lock().expect("no test panics with this lock").finished = true;
        Ok(())
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    (0..len).map(|_| prng.next_u64().to_le_bytes()[0]).collect()
}

/// The independent reference: sort the window of every pixel.
fn median_by_sorting(pixels: &[u16], width: usize, height: usize, radius: usize) -> Vec<u16> {
    let images = pixels.len() / (width * height);
    let mut out = Vec::with_capacity(pixels.len());
    for image in 0..images {
        let base = image * width * height;
        for y in 0..height {
            for x in 0..width {
                let mut window = Vec::new();
                for dy in 0..=2 * radius {
                    for dx in 0..=2 * radius {
                        let yy = (y + dy).saturating_sub(radius).min(height - 1);
                        let xx = (x + dx).saturating_sub(radius).min(width - 1);
                        window.push(pixels[base + yy * width + xx]);
                    }
                }
                window.sort_unstable();
                out.push(window[window.len() / 2]);
            }
        }
    }
    out
}

/// The threads of the reader and the writer pass buffers to the thread that enqueues. Ownership is
/// order (law A44), so the checker needs no options about how threads are started.
#[test]
fn a_checked_pipeline_has_no_finding_in_any_schedule() {
    for schedule in SCHEDULES {
        for host_work in [HostWork::Threads, HostWork::Inline] {
            let device = threads();
            let landed = Mutex::default();
            let bytes = noise(11, 1 << 20);
            let source = Memory::new(bytes.clone(), 1024);
            let run = Pipeline::on(&device)
                .source(source)
                .chunk(Bytes(100_000))
                .depth(3)
                .schedule(schedule)
                .host_work(host_work)
                .sink(Collect::new(&landed))
                .run();
            let report = run.unwrap_or_else(|error| panic!("{schedule:?}, {host_work:?}: {error}"));
            assert!(report.found().is_some(), "the report has the verdict");
            assert!(landed.lock().expect("no panic").bytes == bytes, "{schedule:?}, {host_work:?}");
            let verdict = device.verdict().expect("it is checked");
            assert_eq!(verdict.findings, [], "{schedule:?}, {host_work:?}: {verdict}");
            assert!(verdict.accesses > 0, "{schedule:?}, {host_work:?}: {verdict}");
        }
    }
}

/// A median over a stack of images.
struct Job {
    pixels: Vec<u16>,
    width: u32,
    height: u32,
    radius: u32,
}

impl Job {
    fn small() -> Self {
        let (width, height, images) = (13, 17, 3);
        let bytes = noise(5, 2 * width * height * images);
        let pixels = bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        Self { pixels, width: 13, height: 17, radius: 2 }
    }

    fn expected(&self) -> Vec<u16> {
        let (w, h) = (self.width as usize, self.height as usize);
        median_by_sorting(&self.pixels, w, h, self.radius as usize)
    }

    fn run(&self, device: &Device, schedule: Schedule, chunk: u64, depth: usize) -> Vec<u16> {
        let bytes = self.pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let source = Memory::new(bytes, u64::from(self.width) * 2);
        let landed = Mutex::default();
        let (width, height, radius) = (self.width, self.height, self.radius);
        let report = Pipeline::on(device)
            .source(source)
            .stage(move |s, x, y| {
                let (first_out, first_in) = (s.y_rows().start, s.x_rows().start);
                median::<u16>(s, x, y, Rows { width, height, first_out, first_in }, radius)
            })
            .halo(u64::from(radius))
            .sink(Collect::new(&landed))
            .schedule(schedule)
            .chunk(Bytes(chunk))
            .depth(depth)
            .host_work(HostWork::Inline)
            .run()
            .expect("a run without faults");
        assert_eq!(report.rows * u64::from(width), self.pixels.len() as u64);
        let landed = landed.into_inner().expect("no test panics with this lock");
        assert!(landed.finished);
        landed.bytes.chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
    }
}

#[test]
fn the_median_equals_sorting_on_threads_for_every_schedule() {
    let (job, device) = (Job::small(), threads());
    for schedule in SCHEDULES {
        for (chunk, depth) in [(1, 1), (26 * 5, 2), (26 * 16, 3), (1 << 20, 4)] {
            let found = job.run(&device, schedule, chunk, depth);
            assert_eq!(found, job.expected(), "{schedule:?}, {chunk} bytes, {depth} slots");
        }
    }
}

#[test]
fn the_median_is_the_same_under_a_thousand_orders() {
    let job = Job::small();
    let expected = job.expected();
    for (seed, schedule) in (0..1000).zip(SCHEDULES.into_iter().cycle()) {
        let found = job.run(&simulated(Order::Seeded(seed)), schedule, 26 * 6, 3);
        assert!(found == expected, "seed {seed}, {schedule:?}");
    }
}

/// The tracer of a pipeline was once attached to every stream that the program opened during the
/// run.
#[test]
fn a_pipeline_traces_its_own_streams_only() {
    let device = threads();
    let (mine, other) = (Mutex::default(), device.clone());
    let opened = Mutex::new(Vec::new());
    let report = Pipeline::on(&device)
        .source(Memory::new(noise(9, 4000), 40))
        .stage::<u32, u32>(|s, x, y| {
            let stream = other.stream()?;
            stream.alloc::<u8>(16)?;
            opened.lock().expect("no test panics with this lock").push(stream);
            s.launch(&WORK, (0, x, y))
        })
        .sink(Collect::new(&mine))
        .schedule(Schedule::RoleStreams)
        .chunk(Bytes(1700))
        .run()
        .expect("a run without faults");
    assert!(!opened.lock().expect("no test panics with this lock").is_empty());
    // The slots are allocated before the run, so an allocation in the trace belongs to another
    // stream.
    let foreign = report.ops.iter().filter(|op| op.kind == OpKind::Work(StreamWork::Alloc));
    assert_eq!(foreign.count(), 0, "{:#?}", report.ops);
}

#[test]
fn chunks_arrive_in_order_and_once_with_host_threads() {
    let device = threads();
    let bytes = noise(9, 40_000);
    for schedule in SCHEDULES {
        let landed = Mutex::default();
        let seen = Mutex::new(Vec::new());
        Pipeline::on(&device)
            .source(Memory::new(bytes.clone(), 40))
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
            .sink(Collect::new(&landed))
            .schedule(schedule)
            .chunk(Bytes(1700))
            .on_progress(|p| seen.lock().expect("no test panics with this lock").push(p.rows_done))
            .run()
            .expect("a run without faults");
        let landed = landed.into_inner().expect("no test panics with this lock");
        assert_eq!(landed.bytes, bytes);
        let ends: Vec<_> = landed.rows.iter().map(|r| r.end).collect();
        assert_eq!(
            seen.into_inner().expect("no test panics with this lock"),
            ends,
            "progress follows the rows"
        );
        assert!(landed.rows.windows(2).all(|w| w[0].end == w[1].start));
    }
}

#[test]
fn only_the_wanted_rows_are_produced() {
    let device = threads();
    let landed = Mutex::default();
    Pipeline::on(&device)
        .source(Memory::new(noise(3, 1000), 10))
        .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
        .sink(Collect::new(&landed))
        .rows(vec![3..10, 50..51, 90..100])
        .chunk(Bytes(40))
        .run()
        .expect("a run without faults");
    let all = noise(3, 1000);
    let expected = [&all[30..100], &all[500..510], &all[900..1000]].concat();
    assert_eq!(landed.into_inner().expect("no test panics with this lock").bytes, expected);
}

/// Runs 100 rows of 10 bytes with faults, in both kinds of host work.
fn faulty(
    make: impl Fn(&Mutex<Landed>) -> (Memory, Option<u64>, Option<(u64, Cancel)>),
    check: impl Fn(Error, Landed),
) {
    for host_work in [HostWork::Threads, HostWork::Inline] {
        let landed = Mutex::default();
        let (source, sink_fails, cancel) = make(&landed);
        let token = cancel.as_ref().map_or_else(Cancel::new, |(_, token)| token.clone());
        let sink = Collect { fails_at: sink_fails, cancel, ..Collect::new(&landed) };
        let error = Pipeline::on(&threads())
            .source(source)
            .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
            .sink(sink)
            .schedule(Schedule::RoleStreams)
            .chunk(Bytes(70))
            .cancel_with(&token)
            .host_work(host_work)
            .run()
            .expect_err("the run must fail");
        check(error, landed.into_inner().expect("no test panics with this lock"));
    }
}

#[test]
fn a_source_error_names_its_chunk_and_what_came_before_is_written() {
    let make = |_: &Mutex<Landed>| {
        let source = Memory { fails_at: Some(45), ..Memory::new(noise(1, 1000), 10) };
        (source, None, None)
    };
    faulty(make, |error, landed| {
        assert_eq!(error.kind(), ErrorKind::Io);
        let words = error.to_string();
        assert!(words.contains("chunk 6 (rows 42..49), source"), "{words}");
        assert!(words.contains("the disk is gone"), "{words}");
        assert!(!landed.finished);
        assert_eq!(landed.bytes, noise(1, 1000)[..420], "the chunks before it");
    });
}

#[test]
fn a_sink_error_names_its_chunk_and_nothing_is_finished() {
    let make = |_: &Mutex<Landed>| (Memory::new(noise(1, 1000), 10), Some(20), None);
    faulty(make, |error, landed| {
        assert_eq!(error.kind(), ErrorKind::Io);
        let words = error.to_string();
        assert!(words.contains("chunk 2 (rows 14..21), sink"), "{words}");
        assert!(!landed.finished);
        assert_eq!(landed.bytes.len(), 140);
    });
}

#[test]
fn a_cancelled_run_keeps_what_is_done_and_finishes_nothing() {
    let make =
        |_: &Mutex<Landed>| (Memory::new(noise(1, 1000), 10), None, Some((20, Cancel::new())));
    faulty(make, |error, landed| {
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(!landed.finished);
        let len = landed.bytes.len();
        assert!((210..1000).contains(&len), "{len} bytes");
        assert_eq!(landed.bytes, noise(1, 1000)[..len]);
    });
}

#[test]
fn a_stage_error_names_chunk_and_stage() {
    let landed = Mutex::default();
    let error = Pipeline::on(&threads())
        .source(Memory::new(noise(1, 1000), 10))
        .stage::<u8, u8>(|s, x, mut y| {
            let half = if s.chunk().index == 3 { x.len() / 2 } else { x.len() };
            s.copy(&x.slice(..half), &mut y)
        })
        .sink(Collect::new(&landed))
        .chunk(Bytes(70))
        .run()
        .expect_err("lengths differ in chunk 3");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("chunk 3"), "{error}");
    assert!(error.to_string().contains("stage 0"), "{error}");
}

#[test]
fn a_panicking_source_is_an_error_and_not_a_hang() {
    struct Panics;
    impl Source for Panics {
        fn layout(&self) -> Layout {
            Layout::rows(10, 4)
        }
        fn read(&self, _: Range<u64>, _: &mut [u8]) -> Result<()> {
            panic!("the source is broken")
        }
    }
    let landed = Mutex::default();
    let error = Pipeline::on(&threads())
        .source(Panics)
        .sink(Collect::new(&landed))
        .run()
        .expect_err("the source panics");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    let text = error.to_string();
    assert!(text.ends_with("source: it panicked: the source is broken"), "{text}");
}

/// The run ends as after an error, on whichever thread the function ran, and the device stays usable.
#[test]
fn a_panic_of_a_stage_a_sink_or_a_report_of_progress_is_an_error() {
    struct Panics;
    impl Sink for Panics {
        fn write(&mut self, _: Range<u64>, _: &[u8]) -> Result<()> {
            panic!("on purpose")
        }
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }
    let device = threads();
    for work in [HostWork::Threads, HostWork::Inline] {
        let landed = Mutex::default();
        let run = |place: u8| {
            let input = vec![1_u8; 4000];
            let pipeline = Pipeline::on(&device)
                .source(rows_of(&input, 4))
                .stage(move |s: &StageCx<'_>, x: View<'_, u8>, mut y: ViewMut<'_, u8>| {
                    assert!(place != 0 || s.x_rows().is_empty(), "on purpose");
                    s.copy(&x, &mut y)
                })
                .host_work(work)
                .on_progress(move |_| assert!(place != 2, "on purpose"));
            match place {
                1 => pipeline.sink(Panics).run(),
                _ => pipeline.sink(Collect::new(&landed)).run(),
            }
        };
        for (place, named) in [(0, "stage"), (1, "sink"), (2, "progress")] {
            let error = run(place).expect_err("it panics");
            assert_eq!(error.kind(), ErrorKind::Panicked, "{work:?}: {error}");
            let text = error.to_string();
            assert!(text.contains(named) && text.contains("on purpose"), "{work:?}: {text}");
        }
        run(3).expect("nothing panics");
    }
}

#[test]
fn too_little_memory_means_smaller_chunks() {
    let device = host(HostConfig::new().memory(Bytes(64 << 10)));
    let bytes = noise(2, 200_000);
    let landed = Mutex::default();
    let report = Pipeline::on(&device)
        .source(Memory::new(bytes.clone(), 100))
        .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
        .sink(Collect::new(&landed))
        .schedule(Schedule::RoleStreams)
        .chunk(Bytes(50_000))
        .run()
        .expect("smaller chunks fit");
    assert_eq!(landed.into_inner().expect("no test panics with this lock").bytes, bytes);
    assert!(report.plan.chunk_rows < 500, "{} rows", report.plan.chunk_rows);
}

#[test]
fn too_little_memory_for_a_row_is_an_error_that_says_what_was_asked_for() {
    let device = host(HostConfig::new().memory(Bytes(1024)));
    let landed = Mutex::default();
    let error = Pipeline::on(&device)
        .source(Memory::new(noise(2, 200_000), 100_000))
        .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
        .schedule(Schedule::RoleStreams)
        .sink(Collect::new(&landed))
        .run()
        .expect_err("a row does not fit");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("the smallest chunks, 97.66 KiB each"), "{error}");
    assert!(error.to_string().contains("requested"), "{error}");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let device = threads();
    let no_sink = Pipeline::on(&device).source(Memory::new(noise(1, 100), 10)).run();
    assert_eq!(no_sink.expect_err("no sink").kind(), ErrorKind::InvalidValue);
    let landed = Mutex::default();
    let odd = Pipeline::on(&device)
        .source(Memory::new(noise(1, 100), 10))
        .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
        .sink(Collect::new(&landed))
        .run();
    let error = odd.expect_err("10 bytes hold no whole u32");
    assert!(error.to_string().contains("a whole number of elements of u32"), "{error}");
}

#[test]
fn no_rows_make_an_empty_result() {
    let landed = Mutex::default();
    let report = Pipeline::on(&threads())
        .source(Memory::new(Vec::new(), 10))
        .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
        .sink(Collect::new(&landed))
        .run()
        .expect("nothing to do");
    assert_eq!(report.rows, 0);
    assert!(landed.into_inner().expect("no test panics with this lock").finished);
}

#[test]
fn a_dropped_wait_shows_in_some_order_and_never_hangs() {
    let job = Job::small();
    let expected = job.expected();
    let mut damaged = 0;
    for number in 1..=12 {
        for seed in 0..8 {
            let devices = Device::host(virtual_host(Order::Seeded(seed)));
            let device = devices.expect("a host device").remove(0);
            testing::drop_wait(&device, number);
            let found = job.run(&device, Schedule::RoleStreams, 26 * 6, 2);
            damaged += usize::from(found != expected);
        }
    }
    assert!(damaged > 0, "no wait that was left out made a difference");
}

#[test]
fn overlap_is_seen_and_bounded_in_the_model() {
    use trijet::pipeline::Calibration;
    let device = simulated(Order::Greedy);
    let calibration = Calibration::measure(&device, Bytes(64 << 20)).expect("a calibration");
    let mut x = device.pinned::<u32>(16 << 20).expect("memory");
    x.write().expect("idle").fill(7);
    let mut y = device.pinned::<u32>(16 << 20).expect("memory");
    let mut run = |schedule, chunk: Option<Bytes>| {
        let pipeline = Pipeline::on(&device)
            .pinned_source(&x, 1024)
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
            .pinned_sink(&mut y)
            .schedule(schedule)
            .calibrated(&calibration);
        let pipeline = match chunk {
            Some(bytes) => pipeline.chunk(bytes),
            None => pipeline,
        };
        pipeline.run().expect("a run without faults")
    };
    let serial = run(Schedule::OneStream, Some(Bytes(4 << 20)));
    let roles = run(Schedule::RoleStreams, Some(Bytes(1 << 20)));
    let tuned = run(Schedule::Tuned, None);
    assert!(roles.elapsed < serial.elapsed, "{serial}\n{roles}");
    assert!(tuned.elapsed < roles.elapsed, "{roles}\n{tuned}");
    for report in [&serial, &roles, &tuned] {
        let efficiency = report.efficiency().expect("calibrated");
        assert!(efficiency <= 1.01, "{report}");
        let summary = report.summary().expect("recorded");
        assert_eq!(summary.metrics.elapsed(), report.elapsed, "{report}");
        assert_eq!(summary.metrics.efficiency, report.efficiency(), "{report}");
        assert_eq!(summary.metrics.overlap, report.overlap(), "{report}");
    }
    assert!(tuned.efficiency().expect("calibrated") > 0.9, "{tuned}");
    assert_eq!(tuned.ordering.over_waits, 0, "a pipeline records exactly: {tuned}");
}

#[test]
fn a_report_names_the_link_or_the_engine_that_limits() {
    use trijet::pipeline::{Calibration, ChunkChoice};
    use trijet::trace::{Engine, limit::Limit};
    let device = simulated(Order::Greedy);
    let calibration = Calibration::measure(&device, Bytes(1 << 20)).expect("a calibration");
    let x = device.pinned::<u32>(1 << 18).expect("memory");
    let mut y = device.pinned::<u32>(1 << 18).expect("memory");
    let mut run = |rounds, chunk: Option<u64>| {
        let pipeline = Pipeline::on(&device)
            .pinned_source(&x, 1024)
            .stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds, x, y)))
            .pinned_sink(&mut y)
            .calibrated(&calibration);
        let pipeline = match chunk {
            Some(bytes) => pipeline.chunk(Bytes(bytes)),
            None => pipeline,
        };
        pipeline.run().expect("a run without faults")
    };
    let copies = run(0, Some(1 << 18));
    assert_eq!(copies.limit, Some(Limit::Link), "{copies}");
    let text = copies.to_string();
    assert!(text.contains("link, both ways") && text.matches("<- limits").count() == 1, "{text}");
    let chosen = "role streams, two for kernels; chunks: 4 of 256 KiB (chosen by the user)";
    assert!(text.contains(chosen) && !text.contains("tuned"), "{text}");
    let heavy = run(400, None);
    assert!(matches!(heavy.limit, Some(Limit::Engine((_, Engine::Compute)))), "{heavy}");
    let (plan, text) = (&heavy.plan, heavy.to_string());
    assert_eq!(plan.chunk_choice, ChunkChoice::Bytes, "too few bytes for a measurement");
    assert!(
        text.contains("tuned; chunks: ") && text.contains("the default for this many bytes"),
        "{text}"
    );
    let whole = run(0, Some(1 << 20));
    assert_eq!((whole.plan.chunks.len(), whole.overlap()), (1, None), "{whole}");
    assert!(!whole.to_string().contains("overlap 0"), "{whole}");
}

/// On threads, the chunk counts of one job once varied with the load of the machine.
#[test]
fn equal_jobs_have_equal_chunks_in_every_run() {
    for device in [threads(), simulated(Order::Greedy)] {
        let x = device.pinned::<u32>(10 << 20).expect("memory");
        let mut y = device.pinned::<u32>(10 << 20).expect("memory");
        let mut chunks = || {
            let pipeline = Pipeline::on(&device).pinned_source(&x, 1024).pinned_sink(&mut y);
            pipeline.untraced().run().expect("a run without faults").plan.chunks
        };
        let first = chunks();
        assert!(first.len() > 3, "{first:?}");
        for run in 1..20 {
            assert_eq!(chunks(), first, "run {run} on {}", device.info().name);
        }
    }
}

#[test]
fn page_locked_memory_too_short_for_the_results_is_refused() {
    let device = threads();
    let x = device.pinned::<u8>(100).expect("memory");
    let mut y = device.pinned::<u32>(99).expect("memory");
    let run = Pipeline::on(&device)
        .pinned_source(&x, 10)
        .stage::<u8, u32>(|_, _, _| Ok(()))
        .pinned_sink(&mut y)
        .run();
    let error = run.expect_err("100 elements into 99");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(
        error.to_string().contains("the results have 400 bytes, but the buffer has only 396"),
        "{error}"
    );
}

/// Sizes beyond every machine are refused, or limited to what the source has. No sum or product
/// wraps around.
#[test]
fn sizes_beyond_all_bounds_are_refused() {
    struct Huge(Layout);
    impl Source for Huge {
        fn layout(&self) -> Layout {
            self.0
        }
        fn read(&self, _: Range<u64>, _: &mut [u8]) -> Result<()> {
            Err(Error::new(ErrorKind::Io, "read", "there is no such data"))
        }
    }
    let device = threads();
    let of = |rows, row_bytes, granule| {
        let layout = Layout::rows(rows, row_bytes).granule(granule);
        Pipeline::on(&device).source(Huge(layout))
    };
    let landed = Mutex::default();
    let kind = |pipeline: Pipeline<'_>| pipeline.run().expect_err("too much").kind();
    let all = of(100, 10, 1).stage::<u8, u8>(|_, _, _| Ok(())).halo(u64::MAX);
    let plan = all.stage::<u8, u8>(|_, _, _| Ok(())).halo(1).plan().expect("all rows are read");
    assert!(plan.chunks.iter().all(|chunk| chunk.input == (0..100)));
    let plan = of((1 << 63) + 5, 1, 1 << 63).chunk(Bytes(1 << 63)).plan().expect("two chunks");
    assert_eq!(plan.chunks.len(), 2);
    let tiny = of(1 << 50, 1, 1).chunk(Bytes(1));
    assert_eq!(tiny.plan().expect_err("too many chunks").kind(), ErrorKind::InvalidValue);
    let wide = of(1, 1 << 62, 1).stage::<u8, u64>(|_, _, _| Ok(())).sink(Collect::new(&landed));
    assert_eq!(kind(wide), ErrorKind::InvalidValue);
    let long = of(1 << 62, 1, 1).stage::<u8, u64>(|_, _, _| Ok(())).sink(Collect::new(&landed));
    assert_eq!(kind(long.chunk(Bytes(u64::MAX))), ErrorKind::InvalidValue);
    let none = of(10, 8, 1).stage::<u8, ()>(|_, _, _| Ok(())).sink(Collect::new(&landed));
    assert_eq!(kind(none), ErrorKind::InvalidValue);
}

/// A user may cancel at any moment, even when the reader is between two chunks and the run waits
/// for the next one. The run once took that for a source that had stopped early.
#[test]
fn a_run_cancelled_at_any_moment_says_so() {
    let device = threads();
    for round in 0..300u64 {
        let (landed, cancel) = (Mutex::default(), Cancel::new());
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut spins = Prng::new(round).below(40_000);
                while spins > 0 {
                    std::hint::spin_loop();
                    spins -= 1;
                }
                cancel.cancel();
            });
            Pipeline::on(&device)
                .source(Memory::new(noise(1, 4000), 10))
                .sink(Collect::new(&landed))
                .schedule(Schedule::RoleStreams)
                .chunk(Bytes(10))
                .cancel_with(&cancel)
                .run()
        });
        if let Err(error) = outcome {
            assert_eq!(error.kind(), ErrorKind::Cancelled, "round {round}: {error}");
        }
    }
}
