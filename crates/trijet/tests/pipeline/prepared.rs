//! Prepared pipelines: many runs over one plan, which whole runs have chosen.

use crate::{SCHEDULES, simulated, threads};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use trijet::kernels::{Code, Cost, KernelSpec, Read, Shape, Twin, Write};
use trijet::pipeline::{Prepared, Replay, Replayed, Schedule, Sharing};
use trijet::sim::Order;
use trijet::testing::WORK;
use trijet::{
    Buffer, Bytes, Device, ErrorKind, Kernel, Nanos, PinnedBuffer, Pipeline, Result, View, ViewMut,
};

const ROW: usize = 64;

fn numbers(device: &Device, len: usize, first: u32) -> PinnedBuffer<u32> {
    let mut x = device.pinned::<u32>(len).expect("memory of the host");
    x.write().expect("nothing uses it").iter_mut().zip(first..).for_each(|(x, n)| *x = n);
    x
}

fn copying<'a>(device: &Device, rounds: u32) -> Pipeline<'a> {
    Pipeline::on(device).stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds, x, y)))
}

fn prepared<'a>(
    pipeline: Pipeline<'a>,
    x: &PinnedBuffer<u32>,
    y: &mut PinnedBuffer<u32>,
) -> Prepared<'a, u32, u32> {
    pipeline.prepare(x, y, ROW).expect("a job that fits")
}

/// The modelled time of a run, from its call to its end.
fn time(
    device: &Device,
    job: &mut Prepared<'_, u32, u32>,
    (x, y): (&PinnedBuffer<u32>, &mut PinnedBuffer<u32>),
) -> Result<Nanos> {
    let stream = device.stream()?;
    let (begin, end) = (device.timed_event()?, device.timed_event()?);
    begin.record(&stream)?;
    stream.synchronize()?;
    job.run(x, y)?;
    end.record(&stream)?;
    stream.synchronize()?;
    end.elapsed_since(&begin)
}

#[test]
fn every_run_computes_the_data_that_it_is_given() -> Result<()> {
    for device in [threads(), simulated(Order::Greedy), simulated(Order::Seeded(7))] {
        for rows in [0, 1, 2, 17, 600, 3000] {
            let (x, mut y) = (numbers(&device, rows * ROW, 0), numbers(&device, rows * ROW, 9));
            let mut job = prepared(copying(&device, 0), &x, &mut y);
            for first in [3, 1000] {
                let (x, mut y) =
                    (numbers(&device, rows * ROW, first), numbers(&device, rows * ROW, 1));
                job.run(&x, &mut y)?;
                assert_eq!(*y.read()?, *x.read()?, "{rows} rows, {:?}", job.plan());
            }
        }
    }
    Ok(())
}

#[test]
fn buffers_of_other_lengths_are_refused() -> Result<()> {
    let device = threads();
    let (x, mut y) = (numbers(&device, 10 * ROW, 0), numbers(&device, 10 * ROW, 0));
    let mut job = prepared(copying(&device, 0), &x, &mut y);
    for (rows_in, rows_out) in [(9, 10), (11, 10), (10, 9), (10, 11)] {
        let (x, mut y) = (numbers(&device, rows_in * ROW, 0), numbers(&device, rows_out * ROW, 0));
        let error = job.run(&x, &mut y).expect_err("another length");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }
    let (x, mut short) = (numbers(&device, 10 * ROW, 0), numbers(&device, 9 * ROW, 0));
    let error = copying(&device, 0).prepare(&x, &mut short, ROW).expect_err("a short result");
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    job.run(&x, &mut y)
}

/// A copy that takes as long as a kernel with this many operations for each element.
static CLAIM: Kernel<(u64, Read<u32>, Write<u32>)> = {
    let twin = Twin {
        tile_elements: |_| 1 << 16,
        run: |tile| {
            let (first, x, y) = (tile.first, tile.read::<u32>(1), tile.write::<u32>(3));
            y.copy_from_slice(&x[first..first + y.len()]);
        },
        cost: |args| {
            let bytes = args.spans()[0].bytes();
            Cost { bytes: 2 * bytes, ops: bytes / 4 * args.scalar::<u64>(0) }
        },
    };
    let code = Code::source("extern \"C\" __global__ void claim() {}");
    let spec = KernelSpec::new("claim", code, Shape::Elements { per_thread: 1 });
    // SAFETY: it runs on host devices only, by its twin, which reads x and writes as much of y.
    unsafe { Kernel::declare(spec.twin(twin)) }
};

fn claiming<'a>(device: &Device, ops: u64) -> Pipeline<'a> {
    Pipeline::on(device).stage::<u32, u32>(move |s, x, y| s.launch(&CLAIM, (ops, x, y)))
}

/// The fastest plan of a grid, with its time.
fn best_of_grid(
    device: &Device,
    ops: u64,
    (x, y): (&PinnedBuffer<u32>, &mut PinnedBuffer<u32>),
) -> Result<(Nanos, String)> {
    let mut best = (Nanos(u64::MAX), String::new());
    for schedule in SCHEDULES.into_iter().chain([Schedule::InPlace]) {
        for (pieces, depth) in
            [1, 2, 3, 4, 8, 16, 32].into_iter().flat_map(|n| [2, 3, 4].map(|d| (n, d)))
        {
            let chunk = Bytes((x.len() as u64 * 4).div_ceil(pieces));
            let way = claiming(device, ops).schedule(schedule).chunk(chunk).depth(depth);
            let mut way = prepared(way, x, y);
            let time = time(device, &mut way, (x, y))?;
            if time < best.0 {
                best = (time, format!("{schedule:?}, {pieces} pieces, {depth} slots"));
            }
        }
    }
    Ok(best)
}

/// The law of the choice: no plan of the grid is more than 2 % faster. Kernels take from nothing to
/// four times as long as the copies.
#[test]
fn the_choice_is_nearly_the_best_of_an_exhaustive_grid() -> Result<()> {
    let device = simulated(Order::Greedy);
    for kib in [4, 64, 512, 4096] {
        for ops in [0, 800, 1100, 4400] {
            let (x, mut y) = (numbers(&device, kib * 256, 0), numbers(&device, kib * 256, 0));
            let mut chosen = prepared(claiming(&device, ops), &x, &mut y);
            let ours = time(&device, &mut chosen, (&x, &mut y))?;
            let (best, way) = best_of_grid(&device, ops, (&x, &mut y))?;
            let (plan, tried) = (chosen.plan(), chosen.tried());
            assert!(
                ours.0 as f64 <= 1.02 * best.0 as f64,
                "{kib} KiB, {ops} operations: {ours} by {:?} of {} rows in {} slots, and {best} by \
                 {way}; {tried:?}",
                plan.schedule,
                plan.chunk_rows,
                plan.depth,
            );
        }
    }
    Ok(())
}

#[test]
fn a_small_light_job_works_in_place_and_a_large_one_in_chunks() -> Result<()> {
    let device = simulated(Order::Greedy);
    let plan = |kib: usize| -> Result<_> {
        let (x, mut y) = (numbers(&device, kib * 256, 0), numbers(&device, kib * 256, 0));
        let job = prepared(copying(&device, 0), &x, &mut y);
        assert!(job.tried().iter().any(|tried| tried.schedule == job.plan().schedule));
        Ok((job.plan().schedule, job.plan().chunks.len()))
    };
    assert_eq!(plan(64)?, (Schedule::InPlace, 1));
    let (schedule, chunks) = plan(64 << 10)?;
    assert!(schedule != Schedule::InPlace && chunks > 4, "{schedule:?}, {chunks}");
    Ok(())
}

#[test]
fn what_the_caller_has_chosen_is_kept() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, 4000 * ROW, 0), numbers(&device, 4000 * ROW, 0));
    for schedule in SCHEDULES {
        let chunk = Bytes(100 * ROW as u64 * 4);
        let job = copying(&device, 0).schedule(schedule).chunk(chunk).depth(2);
        let job = prepared(job, &x, &mut y);
        assert_eq!((job.plan().chunk_rows, job.plan().depth), (100, 2), "{schedule:?}");
        if schedule != Schedule::Tuned {
            assert_eq!((job.plan().schedule, job.tried().len()), (schedule, 0));
        }
    }
    Ok(())
}

#[test]
fn a_job_runs_again_after_an_error_of_a_stage() -> Result<()> {
    let device = threads();
    let (x, mut y) = (numbers(&device, 100 * ROW, 5), numbers(&device, 100 * ROW, 0));
    let failing = std::sync::atomic::AtomicBool::new(false);
    let pipeline = Pipeline::on(&device)
        .stage::<u32, u32>(|s, x, y| {
            if failing.load(std::sync::atomic::Ordering::Relaxed) && s.chunk().index == 3 {
                s.alloc::<u8>(usize::MAX)?;
            }
            s.launch(&WORK, (0, x, y))
        })
        .chunk(Bytes(10 * ROW as u64 * 4));
    let mut job = prepared(pipeline, &x, &mut y);
    failing.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = job.run(&x, &mut y).expect_err("no memory is that large");
    assert!(error.to_string().contains("chunk 3"), "{error}");
    failing.store(false, std::sync::atomic::Ordering::Relaxed);
    y.write()?.fill(0);
    job.run(&x, &mut y)?;
    assert_eq!(*y.read()?, *x.read()?);
    Ok(())
}

/// A pipeline whose choice is remembered in a file.
fn remembered<'a>(
    device: &Device,
    file: &std::path::Path,
    (name, len): (&str, usize),
) -> Result<Prepared<'a, u32, u32>> {
    let (x, mut y) = (numbers(device, len, 0), numbers(device, len, 0));
    copying(device, 0).remember(file, name).prepare(&x, &mut y, ROW)
}

#[test]
fn a_remembered_choice_is_taken_for_the_same_job_and_for_no_other() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("choices");
    let device = simulated(Order::Greedy);
    let job = |name, len| remembered(&device, &file, (name, len));
    let (small, large) = (100 * ROW, 40_000 * ROW);
    for (name, len) in [("copy", small), ("copy", large), ("other", small)] {
        let first = job(name, len)?;
        assert!(!first.tried().is_empty(), "{name}, {len}: nothing is known yet");
        let again = job(name, len)?;
        assert_eq!((again.plan(), again.tried().len()), (first.plan(), 0), "{name}, {len}");
    }
    let (x, mut y) = (numbers(&device, small, 0), numbers(&device, small, 0));
    let deeper = copying(&device, 0).remember(&file, "copy").depth(2).prepare(&x, &mut y, ROW)?;
    assert!(!deeper.tried().is_empty(), "another depth is another job");
    Ok(())
}

#[test]
fn a_damaged_file_of_choices_counts_as_empty_and_is_replaced() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("choices");
    let device = simulated(Order::Greedy);
    remembered(&device, &file, ("copy", 100 * ROW))?;
    let whole = std::fs::read(&file).expect("it was written");
    for len in 0..whole.len() {
        std::fs::write(&file, &whole[..len]).expect("it can be written");
        let job = remembered(&device, &file, ("copy", 100 * ROW))?;
        assert!(!job.tried().is_empty(), "{len} of {} bytes", whole.len());
    }
    assert_eq!(std::fs::read(&file).expect("it was written"), whole);
    Ok(())
}

/// No file is lost because its name was given by mistake.
#[test]
fn a_file_that_has_no_choices_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scan.raw");
    let device = simulated(Order::Greedy);
    for content in ["some data", "trijet choices of mine"] {
        std::fs::write(&file, content).expect("it can be written");
        let error = remembered(&device, &file, ("copy", 100 * ROW)).expect_err("other content");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains("scan.raw"), "{error}");
        assert_eq!(std::fs::read(&file).expect("it is there"), content.as_bytes());
    }
}

#[test]
fn a_file_of_choices_that_cannot_be_used_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = simulated(Order::Greedy);
    for file in [folder.path().to_owned(), folder.path().join("missing/choices")] {
        let error = remembered(&device, &file, ("copy", 100 * ROW)).expect_err("no such file");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    }
}

/// Gives each row the values of the rows around it: the sum of the row before and the row after.
fn sums(
    s: &trijet::pipeline::StageCx<'_>,
    x: View<'_, u32>,
    mut y: ViewMut<'_, u32>,
) -> Result<()> {
    let first = s.x_rows().start;
    for (n, row) in s.y_rows().enumerate() {
        let from = usize::try_from(row.saturating_sub(1).max(first) - first).expect("a small test");
        let y = &mut y.reborrow().slice(ROW * n..ROW * (n + 1));
        s.copy(&x.slice(ROW * from..ROW * (from + 1)), y)?;
    }
    Ok(())
}

#[test]
fn a_replayed_run_computes_what_an_ordinary_one_does_and_calls_no_stage() -> Result<()> {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let counted = || calls.load(std::sync::atomic::Ordering::Relaxed);
    for device in [threads(), simulated(Order::Greedy), simulated(Order::Seeded(11))] {
        for schedule in SCHEDULES.into_iter().chain([Schedule::InPlace]) {
            for rows in [0, 1, 7, 60] {
                let job = |is_replayed: bool| -> Result<_> {
                    let (x, mut y) =
                        (numbers(&device, rows * ROW, 0), numbers(&device, rows * ROW, 9));
                    let pipeline = Pipeline::on(&device)
                        .stage::<u32, u32>(|s, x, y| {
                            calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            s.launch(&WORK, (1, x, y))
                        })
                        .stage(sums)
                        .halo(1)
                        .schedule(schedule)
                        .depth(3)
                        .chunk(Bytes(8 * ROW as u64 * 4));
                    let pipeline =
                        if is_replayed { pipeline.replay(Replay::Fixed) } else { pipeline };
                    pipeline.prepare(&x, &mut y, ROW)
                };
                let (mut ordinary, mut replayed) = (job(false)?, job(true)?);
                for first in [5, 500, 5000] {
                    let x = numbers(&device, rows * ROW, first);
                    let (mut y, mut z) =
                        (numbers(&device, rows * ROW, 1), numbers(&device, rows * ROW, 2));
                    ordinary.run(&x, &mut y)?;
                    let before = counted();
                    replayed.run(&x, &mut z)?;
                    assert_eq!(counted(), before, "no stage is called");
                    assert_eq!(*z.read()?, *y.read()?, "{schedule:?}, {rows} rows, from {first}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_stage_that_cannot_be_recorded_is_an_error_of_prepare() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, 10 * ROW, 0), numbers(&device, 10 * ROW, 0));
    let pipeline = Pipeline::on(&device).stage::<u32, u32>(|s, x, mut y| {
        s.copy(&x, &mut y)?;
        s.host_fn(|| ())
    });
    let error =
        pipeline.replay(Replay::Fixed).prepare(&x, &mut y, ROW).expect_err("a host function");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("stage 0"), "{error}");
    let other = device.stream()?.upload(&[0_u32; ROW])?;
    let pipeline = Pipeline::on(&device).stage::<u32, u32>(|s, _, mut y| {
        let rows = y.len() / ROW;
        (0..rows).try_for_each(|n| s.copy(&other, &mut y.reborrow().slice(ROW * n..ROW * (n + 1))))
    });
    let error =
        pipeline.replay(Replay::Fixed).prepare(&x, &mut y, ROW).expect_err("memory of its own");
    assert!(error.to_string().contains("no argument of the graph"), "{error}");
    Ok(())
}

/// The copies of a graph are made by the streams of the graph, not by those that runs share.
#[test]
fn a_run_whose_copies_use_the_shared_streams_is_not_replayed() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, 10 * ROW, 0), numbers(&device, 10 * ROW, 0));
    for (sharing, schedule) in [
        (Sharing::Bulk, Schedule::RoleStreams),
        (Sharing::Latency, Schedule::RoleStreams),
        (Sharing::Latency, Schedule::Tuned),
    ] {
        let job = copying(&device, 0).sharing(sharing).schedule(schedule).replay(Replay::Fixed);
        let error = job.prepare(&x, &mut y, ROW).expect_err("copies in shared streams");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{sharing:?} {schedule:?}");
    }
    let job = copying(&device, 0)
        .sharing(Sharing::Latency)
        .schedule(Schedule::InPlace)
        .replay(Replay::Fixed);
    job.prepare(&x, &mut y, ROW)?.run(&x, &mut y)?;
    assert_eq!(y.read()?[3], x.read()?[3]);
    Ok(())
}

/// Hashes with numbers of rounds that a test may change, and one that reads other memory.
fn chain<'a>(device: &Device, rounds: &'a AtomicU32, weights: &'a Buffer<u32>) -> Pipeline<'a> {
    Pipeline::on(device)
        .stage::<u32, u32>(|s, x, mut y| {
            (0..5).try_for_each(|n| s.launch(&WORK, (rounds.load(Relaxed) * n, x, y.reborrow())))
        })
        .stage::<u32, u32>(|s, x, mut y| {
            s.launch(&WORK, (0, weights.slice(..y.len()), y.reborrow()))?;
            s.launch(&WORK, (rounds.load(Relaxed), x, y))
        })
        .schedule(Schedule::RoleStreams)
        .chunk(Bytes(8 * ROW as u64 * 4))
}

/// The law of an automatic replay: each run computes the same as an ordinary one, with the data,
/// the memory and the scalars of that run.
#[test]
fn an_automatic_replay_follows_each_run() -> Result<()> {
    for device in [threads(), simulated(Order::Greedy), simulated(Order::Seeded(5))] {
        let rounds = AtomicU32::new(3);
        let weights = device.stream()?.upload(&[7_u32; 8 * ROW])?;
        for schedule in [Schedule::RoleStreams, Schedule::SlotStreams, Schedule::InPlace] {
            let (x, mut y) = (numbers(&device, 60 * ROW, 0), numbers(&device, 60 * ROW, 1));
            let job = |replay| chain(&device, &rounds, &weights).reads(&weights).replay(replay);
            let job = |replay| job(replay).schedule(schedule);
            let job = |replay| match schedule {
                // All rows are one chunk.
                Schedule::InPlace => copies_of_rows(&device, &rounds).replay(replay),
                _ => job(replay),
            };
            let mut ordinary = job(Replay::Never).prepare(&x, &mut y, ROW)?;
            let mut automatic = job(Replay::Automatic).prepare(&x, &mut y, ROW)?;
            for (run, now) in [3, 3, 3, 4, 4, 3].into_iter().enumerate() {
                rounds.store(now, Relaxed);
                let x = numbers(&device, 60 * ROW, u32::try_from(run).expect("few"));
                let (mut y, mut z) = (numbers(&device, 60 * ROW, 1), numbers(&device, 60 * ROW, 2));
                ordinary.run(&x, &mut y)?;
                automatic.run(&x, &mut z)?;
                assert_eq!(*z.read()?, *y.read()?, "{schedule:?}, run {run}");
                let is_replayed = matches!(automatic.replayed(), Replayed::Yes { .. });
                assert_eq!(is_replayed, run > 0, "run {run}: {}", automatic.replayed());
            }
            assert_eq!(ordinary.replayed(), Replayed::No("`Replay::Never` was set".to_owned()));
        }
    }
    Ok(())
}

/// Ten hashes in one chunk.
fn copies_of_rows<'a>(device: &Device, rounds: &'a AtomicU32) -> Pipeline<'a> {
    let hash = |pipeline: Pipeline<'a>| {
        pipeline.stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds.load(Relaxed), x, y)))
    };
    (0..10).fold(Pipeline::on(device).schedule(Schedule::InPlace), |pipeline, _| hash(pipeline))
}

#[test]
fn a_run_that_is_no_graph_is_an_ordinary_one_and_says_why() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (rounds, turn) = (AtomicU32::new(2), AtomicU32::new(0));
    let weights = device.stream()?.upload(&[7_u32; 8 * ROW])?;
    let plain = || chain(&device, &rounds, &weights);
    let few = copying(&device, 1).schedule(Schedule::RoleStreams).chunk(Bytes(8 * ROW as u64 * 4));
    let calls = plain().stage::<u32, u32>(|s, x, mut y| {
        s.copy(&x, &mut y)?;
        s.host_fn(|| ())
    });
    let other = plain().reads(&weights).stage::<u32, u32>(|s, x, mut y| {
        // Another operation from the third run.
        if turn.load(Relaxed) > 2 {
            s.fill_bytes(&mut y, 0)?
        }
        s.launch(&WORK, (1, x, y))
    });
    let twice = plain().reads(&weights).reads(&weights);
    let allocates = plain().reads(&weights).stage::<u32, u32>(|s, x, y| {
        let mut scratch = s.alloc::<u32>(x.len())?;
        s.launch(&WORK, (1, x, &mut scratch))?;
        s.launch(&WORK, (1, &scratch, y))
    });
    let own = device.stream()?;
    let beside = plain().reads(&weights).stage::<u32, u32>(|_, x, y| own.launch(&WORK, (1, x, y)));
    for (name, job, why, first_off) in [
        ("few launches", few, "a graph needs at least", 2),
        ("memory that was not named", plain(), "no argument of the graph", 2),
        ("a host function", calls.reads(&weights), "cannot be recorded", 2),
        ("other operations", other, "operations, and has", 3),
        ("memory that was named twice", twice, "shares bytes", 2),
        ("an allocation", allocates, "an allocation cannot be recorded", 2),
        ("a stream of its own", beside, "does not belong to the recording", 2),
    ] {
        let (x, mut y) = (numbers(&device, 60 * ROW, 0), numbers(&device, 60 * ROW, 1));
        let mut automatic = job.prepare(&x, &mut y, ROW)?;
        let mut results = Vec::new();
        for run in 1..6 {
            turn.store(run, Relaxed);
            automatic.run(&x, &mut y)?;
            results.push(y.read()?.to_vec());
            let is_off = matches!(automatic.replayed(), Replayed::No(_));
            assert_eq!(is_off, run >= first_off, "{name}, run {run}: {}", automatic.replayed());
        }
        assert!(automatic.replayed().to_string().contains(why), "{}", automatic.replayed());
        assert!(results.iter().all(|result| *result == results[0]), "{name}");
    }
    Ok(())
}

/// The error of a stage is the error of the run, and is no reason to run in another way.
#[test]
fn the_error_of_a_stage_is_the_error_of_a_replayed_run() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (rounds, calls) = (AtomicU32::new(2), AtomicU32::new(0));
    let weights = device.stream()?.upload(&[7_u32; 8 * ROW])?;
    for fails_in in [2, 4] {
        let turn = AtomicU32::new(0);
        let job = chain(&device, &rounds, &weights).reads(&weights).stage::<u32, u32>(|s, x, y| {
            if turn.load(Relaxed) == fails_in {
                calls.fetch_add(1, Relaxed);
                return Err(trijet::Error::new(ErrorKind::Cancelled, "stage", "enough"));
            }
            s.launch(&WORK, (1, x, y))
        });
        let (x, mut y) = (numbers(&device, 60 * ROW, 0), numbers(&device, 60 * ROW, 1));
        let mut automatic = job.prepare(&x, &mut y, ROW)?;
        for run in 1..6 {
            turn.store(run, Relaxed);
            let before = calls.load(Relaxed);
            match automatic.run(&x, &mut y) {
                Ok(()) => assert_ne!(run, fails_in),
                Err(error) => {
                    assert_eq!((run, error.kind()), (fails_in, ErrorKind::Cancelled));
                    assert!(error.to_string().contains("stage 2"), "{error}");
                    assert_eq!(calls.load(Relaxed) - before, 1, "the stage is called once");
                }
            }
        }
        assert!(matches!(automatic.replayed(), Replayed::Yes { .. }), "{}", automatic.replayed());
    }
    Ok(())
}

/// The memory that a stage allocates belongs to the graph of a fixed replay.
#[test]
fn a_fixed_replay_has_the_scratch_memory_of_its_stages() -> Result<()> {
    for device in [threads(), simulated(Order::Greedy), simulated(Order::Seeded(9))] {
        let job = |replay| {
            Pipeline::on(&device)
                .stage::<u32, u32>(|s, x, y| {
                    let mut scratch = s.alloc::<u32>(x.len())?;
                    s.launch(&WORK, (1, x, &mut scratch))?;
                    s.launch(&WORK, (1, &scratch, y))
                })
                .schedule(Schedule::SlotStreams)
                .chunk(Bytes(8 * ROW as u64 * 4))
                .replay(replay)
        };
        let (x, mut y) = (numbers(&device, 60 * ROW, 0), numbers(&device, 60 * ROW, 1));
        let mut ordinary = job(Replay::Never).prepare(&x, &mut y, ROW)?;
        let mut fixed = job(Replay::Fixed).prepare(&x, &mut y, ROW)?;
        for run in 0..4 {
            let x = numbers(&device, 60 * ROW, run);
            let mut z = numbers(&device, 60 * ROW, 2);
            ordinary.run(&x, &mut y)?;
            fixed.run(&x, &mut z)?;
            assert_eq!(*z.read()?, *y.read()?, "run {run}");
        }
    }
    Ok(())
}

#[test]
fn a_run_of_very_many_chunks_is_not_recorded() -> Result<()> {
    let device = simulated(Order::Greedy);
    let rounds = AtomicU32::new(1);
    let weights = device.stream()?.upload(&[7_u32; ROW])?;
    let (x, mut y) = (numbers(&device, 1025 * ROW, 0), numbers(&device, 1025 * ROW, 1));
    let job = chain(&device, &rounds, &weights).reads(&weights).chunk(Bytes(ROW as u64 * 4));
    let mut job = job.prepare(&x, &mut y, ROW)?;
    for _ in 0..3 {
        job.run(&x, &mut y)?;
        assert!(job.replayed().to_string().contains("1025 chunks"), "{}", job.replayed());
    }
    Ok(())
}
