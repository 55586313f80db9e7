//! Times from pairs of events are compared with times from CUPTI, for the same programs. The tests
//! show where both agree, where pairs of events are wrong, and the cost of each. `--nocapture`
//! prints the figures.

use super::conformance::header;
use super::cuda;
use std::cell::RefCell;
use std::time::Instant;
use trijet::testing::WORK;
use trijet::trace::queued::queued;
use trijet::trace::{Engine, Op, TimeSource, TimesFrom};
use trijet::{Batch, Buffer, Device, PinnedBuffer, Result, SourceOrder, Stream, Trace};

/// The number of rounds of each measurement. The median counts.
const ROUNDS: usize = 7;
/// The number of words that a kernel processes: enough blocks for every multiprocessor.
const WORDS: usize = 1 << 20;
/// Only operations that are longer than this are compared.
const LONG_NS: u64 = 100_000;

fn length(op: &Op) -> u64 {
    let times = op.times.expect("every operation has a time");
    times.end.0 - times.begin.0
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The trace of `program`. The source of its times is `from`.
fn recorded(device: &Device, from: TimesFrom, program: &dyn Fn() -> Result<()>) -> Result<Trace> {
    let origin = device.stream()?;
    device.start_trace_from(&origin, from)?;
    program()?;
    device.synchronize()?;
    device.take_trace()
}

/// The operations of engines, in the order of their calls.
fn work(recording: &Trace) -> Vec<&Op> {
    recording.ops.iter().filter(|op| op.engine != Engine::None).collect()
}

/// The median length of each operation by pairs of events, and by CUPTI. Both are measured in turn.
fn compared(device: &Device, program: &dyn Fn() -> Result<()>) -> Result<Vec<(String, u64, u64)>> {
    let mut lengths: Vec<(String, [Vec<u64>; 2])> = Vec::new();
    // The first round is the warm-up.
    for round in 0..=ROUNDS {
        for (source, from) in [TimesFrom::Events, TimesFrom::Activity].into_iter().enumerate() {
            let recording = recorded(device, from, program)?;
            let expected = [TimeSource::EventPairs, TimeSource::Activity][source];
            assert_eq!((recording.times, recording.untimed), (expected, 0));
            let mut before = None;
            for (at, op) in work(&recording).into_iter().enumerate() {
                let after = before.replace(op.engine);
                if at == lengths.len() {
                    let switch = after.is_some_and(|engine| engine != op.engine);
                    let switch = if switch { ", after another engine" } else { "" };
                    lengths
                        .push((format!("{} {} B{switch}", op.label, op.bytes), Default::default()));
                }
                if round > 0 {
                    lengths[at].1[source].push(length(op));
                }
            }
        }
    }
    let medians = lengths.into_iter().map(|(name, [a, b])| (name, median(a), median(b)));
    Ok(medians.collect())
}

fn show(title: &str, rows: &[(String, u64, u64)]) {
    println!("\n{}# what: {title}\noperation; event pair ns; CUPTI ns; ratio", header());
    for (name, pair, engine) in rows {
        println!("{name}; {pair}; {engine}; {:.4}", *pair as f64 / *engine as f64);
    }
}

/// The programs that use one stream: kernels, fills, and copies in every direction.
struct One {
    s: Stream,
    x: Buffer<u32>,
    y: Buffer<u32>,
    from: Buffer<u8>,
    to: Buffer<u8>,
    source: PinnedBuffer<u8>,
    target: PinnedBuffer<u8>,
}

impl One {
    const BIG: usize = 1 << 30;

    fn new(device: &Device) -> Result<Self> {
        device.load(&WORK)?;
        let s = device.stream()?;
        let one = Self {
            x: s.alloc(WORDS)?,
            y: s.alloc(WORDS)?,
            from: s.alloc(Self::BIG)?,
            to: s.alloc(Self::BIG)?,
            source: device.pinned(Self::BIG / 4)?,
            target: device.pinned(Self::BIG / 4)?,
            s,
        };
        device.synchronize()?;
        Ok(one)
    }

    fn kernel(&mut self, rounds: u32) -> Result<()> {
        self.s.launch(&WORK, (rounds, &self.x, &mut self.y))
    }

    fn upload(&mut self, bytes: usize) -> Result<()> {
        self.s.copy(&self.source.slice(..bytes), &mut self.to.slice_mut(..bytes))
    }

    fn download(&mut self, bytes: usize) -> Result<()> {
        self.s.copy(&self.from.slice(..bytes), &mut self.target.slice_mut(..bytes))
    }
}

/// The program has a few operations of each engine, after a kernel that is long enough for the host
/// to run ahead.
#[test]
fn in_one_stream_pairs_of_events_and_cupti_agree_within_five_per_cent() -> Result<()> {
    let _alone = crate::alone();
    let device = cuda();
    let one = RefCell::new(One::new(&device)?);
    let sizes = [16 << 20, 8 << 20, 64 << 20, 256 << 20];
    let program = || -> Result<()> {
        let one = &mut *one.borrow_mut();
        [100_000, 400, 4_000, 20_000].into_iter().try_for_each(|rounds| one.kernel(rounds))?;
        one.s.fill_bytes(&mut one.to, 7)?;
        let half = One::BIG / 2;
        one.s.copy(&one.from.slice(..half), &mut one.to.slice_mut(..half))?;
        sizes.into_iter().try_for_each(|bytes| one.upload(bytes))?;
        sizes.into_iter().try_for_each(|bytes| one.download(bytes))
    };
    let rows = compared(&device, &program)?;
    show("one stream, engine after engine", &rows);
    assert_eq!(rows.len(), 14);
    for (name, pair, engine) in &rows {
        assert!(*engine > LONG_NS, "{name}: {engine} ns are too short to be compared");
        let ratio = *pair as f64 / *engine as f64;
        assert!((0.95..=1.05).contains(&ratio), "{name}: {pair} and {engine} ns");
    }
    Ok(())
}

/// If a stream changes from one engine to another, the pair of events includes the time of this
/// change. The two clocks differ by up to one percent of the length of a copy. This may be more
/// than the time of the change.
#[test]
fn a_change_of_engine_is_in_the_pair_of_events_and_not_in_the_engines_time() -> Result<()> {
    let _alone = crate::alone();
    let device = cuda();
    let one = RefCell::new(One::new(&device)?);
    let program = || -> Result<()> {
        let one = &mut *one.borrow_mut();
        one.kernel(20_000)?;
        for _ in 0..3 {
            one.upload(8 << 20)?;
            one.kernel(400)?;
            one.download(8 << 20)?;
            one.kernel(400)?;
        }
        Ok(())
    };
    let rows = compared(&device, &program)?;
    show("one stream, another engine each time", &rows);
    let mut changes = 0.0;
    for (name, pair, engine) in rows.iter().skip(1) {
        let change = *pair as f64 - *engine as f64;
        assert!((-0.01 * *engine as f64..30e3).contains(&change), "{name}: {pair} and {engine} ns");
        changes += change;
    }
    assert!(changes > 0.0, "the pairs of events contain no time of a change: {changes} ns");
    Ok(())
}

/// A program with four streams. Each stream fills its target after the same kernel, and then
/// uploads. The uploads become ready at about the same time and queue for one engine.
fn queue(device: &Device, bytes: usize) -> Result<impl Fn() -> Result<()>> {
    let streams = (0..4).map(|_| device.stream()).collect::<Result<Vec<Stream>>>()?;
    let (x, y) = (streams[0].alloc::<u32>(WORDS)?, streams[0].alloc::<u32>(WORDS)?);
    let targets = streams.iter().map(|s| s.alloc::<u8>(bytes)).collect::<Result<Vec<_>>>()?;
    let source = device.pinned::<u8>(bytes)?;
    let event = device.event()?;
    device.load(&WORK)?;
    device.synchronize()?;
    let places = RefCell::new((y, targets));
    Ok(move || {
        let (y, targets) = &mut *places.borrow_mut();
        streams[0].launch(&WORK, (50_000, &x, y))?;
        event.record(&streams[0])?;
        for (stream, target) in streams.iter().zip(targets) {
            stream.wait(&event)?;
            stream.fill_bytes(target, 1)?;
            stream.copy(&source, target)?;
        }
        Ok(())
    })
}

/// Two lists over all uploads: the time from the end of the previous operation of the stream to the
/// end of the upload, and the length of the upload. Both lists are sorted, because the uploads may
/// run in any order.
fn uploads(recording: &Trace) -> (Vec<u64>, Vec<u64>) {
    let (mut whole, mut own) = (Vec::new(), Vec::new());
    let mut ready = std::collections::HashMap::new();
    for op in work(recording) {
        let end = op.times.expect("every operation has a time").end.0;
        let before = ready.insert(op.position.lane, end);
        if op.engine == Engine::Upload {
            whole.push(end - before.expect("a fill comes before"));
            own.push(length(op));
        }
    }
    whole.sort_unstable();
    own.sort_unstable();
    (whole, own)
}

#[test]
fn pairs_of_events_count_the_queue_for_an_engine_and_cupti_does_not() -> Result<()> {
    let _alone = crate::alone();
    let device = cuda();
    let program = queue(&device, 64 << 20)?;
    show("four streams upload concurrently", &compared(&device, &program)?);
    let pairs = recorded(&device, TimesFrom::Events, &program)?;
    let engines = recorded(&device, TimesFrom::Activity, &program)?;
    let ((_, by_pair), (whole, by_engine)) = (uploads(&pairs), uploads(&engines));
    println!("uploads by pairs {by_pair:?}, by CUPTI {by_engine:?}, from ready to end {whole:?}");
    // The uploads run one after the other. By pairs of events they take 1 + 2 + 3 + 4 lengths, by
    // the engine 4 lengths.
    let (sum_pair, sum_engine): (u64, u64) = (by_pair.iter().sum(), by_engine.iter().sum());
    assert!(sum_pair > 2 * sum_engine, "{by_pair:?} {by_engine:?}");
    // A pair of events includes the time in the queue and the time of the work. The two figures are
    // of two runs, and the link may be slower in one of them: other guests of the host use it.
    for (pair, whole) in by_pair.iter().zip(&whole) {
        let ratio = *pair as f64 / *whole as f64;
        assert!((0.8..=1.25).contains(&ratio), "{by_pair:?} {whole:?}");
    }
    let warned =
        |recording: &Trace| queued(&recording.ops).iter().any(|one| one.engine.1 == Engine::Upload);
    assert!(warned(&pairs) && !warned(&engines));
    Ok(())
}

/// Every kind of operation has a time, even an operation with several activities. No operation
/// starts before its call.
#[test]
fn every_operation_is_found_among_the_activities() -> Result<()> {
    let _alone = crate::alone();
    let device = cuda();
    device.load(&WORK)?;
    let s = device.stream()?;
    let pinned = device.pinned::<u8>(4 << 20)?;
    let (mut x, mut y) = (s.alloc::<u8>(4 << 20)?, s.alloc::<u8>(4 << 20)?);
    let (words, mut out) = (s.alloc::<u32>(WORDS)?, s.alloc::<u32>(WORDS)?);
    let mut landed = device.pinned::<u8>(4 << 20)?;
    let bytes = vec![1_u8; 4 << 20];
    device.synchronize()?;
    device.start_trace_from(&s, TimesFrom::Activity)?;
    s.copy(&pinned, &mut x)?;
    s.fill_bytes(&mut y, 3)?;
    device.fill_now(&mut y, 4)?;
    s.copy(&x, &mut y)?;
    device.copy_now(&pinned, &mut x)?;
    s.launch(&WORK, (10, &words, &mut out))?;
    device.scope(|scope| scope.upload(&s, &bytes, &mut x))?;
    let (left, right) = (pinned.slice(..1 << 20), pinned.slice(1 << 20..4 << 20));
    let (mut low, mut high) = (s.alloc::<u8>(1 << 20)?, s.alloc::<u8>(3 << 20)?);
    let mut batch = Batch::new();
    batch.add(&left, &mut low)?;
    batch.add(&right, &mut high)?;
    s.copy_batch(batch, SourceOrder::Stream)?;
    s.host_fn(|| {})?;
    s.copy(&y, &mut landed)?;
    device.synchronize()?;
    let recording = device.take_trace()?;
    assert_eq!((recording.times, recording.untimed), (TimeSource::Activity, 0), "{recording:#?}");
    assert_eq!((recording.lost, recording.instead.clone()), (0, None));
    let error = recording.clock_error;
    println!("\n{}# what: every kind of operation; the clocks agree within {error}", header());
    println!("operation; begin after that of its call, ns; length ns");
    for op in work(&recording) {
        let (call, times) = (op.call.expect("recorded"), op.times.expect("recorded"));
        let after = times.begin.0 as f64 - call.begin.0 as f64;
        println!("{} {} B; {after}; {}", op.label, op.bytes, length(op));
        let error = recording.clock_error.0 as f64;
        assert!(op.engine == Engine::Host || after >= -error, "{op:#?}");
    }
    Ok(())
}

/// The time of the host for a launch: medians over rounds of short kernels. The test only prints
/// the figures.
#[test]
fn the_cost_of_each_source_is_shown() -> Result<()> {
    let _alone = crate::alone();
    let device = cuda();
    device.load(&WORK)?;
    let s = device.stream()?;
    let (x, mut y) = (s.alloc::<u32>(32)?, s.alloc::<u32>(32)?);
    println!("\n{}# what: host time of a launch\nsource; best ns; median ns", header());
    let sources = [
        ("not recorded", None),
        ("event pairs", Some(TimesFrom::Events)),
        ("CUPTI", Some(TimesFrom::Activity)),
        ("not recorded, after CUPTI", None),
    ];
    for (name, from) in sources {
        let mut rounds = Vec::new();
        for _ in 0..15 {
            device.synchronize()?;
            if let Some(from) = from {
                device.start_trace_from(&s, from)?;
            }
            let begin = Instant::now();
            for _ in 0..500 {
                s.launch(&WORK, (1, &x, &mut y))?;
            }
            rounds.push(u64::try_from(begin.elapsed().as_nanos()).expect("short") / 500);
            device.synchronize()?;
            let recording = device.take_trace()?;
            assert_eq!(work(&recording).len(), if from.is_some() { 500 } else { 0 });
            assert_eq!(recording.untimed, 0, "{name}");
        }
        rounds.sort_unstable();
        println!("{name}; {}; {}", rounds[0], rounds[rounds.len() / 2]);
    }
    Ok(())
}
