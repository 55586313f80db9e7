//! Classes: runs on one device that share its streams for copies.

use crate::{noise, simulated, threads};
use trijet::pipeline::{HostWork, Schedule, Sharing, StageCx, rows_of};
use trijet::sim::Order;
use trijet::testing::{self, WORK};
use trijet::trace::{Engine, Op, OpKind, StreamWork};
use trijet::{Bytes, Device, ErrorKind, PinnedBuffer, Pipeline, Result, View, ViewMut};

const ROW: usize = 64;
/// The bytes of a small job. No piece of a bulk run has this size.
const SMALL: usize = 100 * ROW * 4;
/// The largest copy of a bulk run during a small job.
const PIECE: u64 = 1 << 20;

fn copy(s: &StageCx<'_>, x: View<'_, u32>, y: ViewMut<'_, u32>) -> Result<()> {
    s.launch(&WORK, (0, x, y))
}

fn numbers(device: &Device, len: usize, first: u32) -> PinnedBuffer<u32> {
    let mut x = device.pinned::<u32>(len).expect("memory of the host");
    x.write().expect("nothing uses it").iter_mut().zip(first..).for_each(|(x, n)| *x = n);
    x
}

#[test]
fn every_way_of_sharing_computes_the_same_bytes_in_all_counts_of_chunks_and_slots() -> Result<()> {
    for device in [threads(), simulated(Order::Greedy), simulated(Order::Seeded(5))] {
        for sharing in [Sharing::Alone, Sharing::Latency, Sharing::Bulk] {
            for (rows, depth) in
                [0, 1, 2, 3, 4, 7].into_iter().flat_map(|n| [1, 2, 3, 5].map(|d| (n, d)))
            {
                let what = format!("{sharing:?}, {rows} chunks, {depth} slots");
                let (x, mut y) = (numbers(&device, rows * ROW, 1), numbers(&device, rows * ROW, 0));
                let chunk = Bytes(ROW as u64 * 4);
                let pipeline = Pipeline::on(&device).sharing(sharing).chunk(chunk).depth(depth);
                let mut job = pipeline.stage(copy).stage(copy).prepare(&x, &mut y, ROW)?;
                y.write()?.fill(0);
                job.run(&x, &mut y)?;
                assert_eq!(*y.read()?, *x.read()?, "prepared, {what}");

                let data = noise(9, rows * 100);
                for host_work in [HostWork::Inline, HostWork::Threads] {
                    let mut z: Vec<u8> = Vec::new();
                    let pipeline =
                        Pipeline::on(&device).sharing(sharing).chunk(Bytes(100)).depth(depth);
                    let pipeline = pipeline.source(rows_of(&data, 100)).host_work(host_work);
                    pipeline.sink(&mut z).run()?;
                    assert_eq!(z, data, "{host_work:?}, without a stage, {what}");
                }
            }
        }
    }
    Ok(())
}

/// The copies of a bulk run that were enqueued in the stream of a small copy before it, and had not
/// ended when it was enqueued.
fn before<'a>(small: &Op, all: &'a [Op]) -> Vec<&'a Op> {
    let call = small.call.expect("a call of the host").begin;
    let is_before = |op: &&Op| {
        op.kind == OpKind::Work(StreamWork::Copy)
            && op.position.lane == small.position.lane
            && op.position.seq < small.position.seq
            && op.bytes != SMALL as u64
            && op.times.expect("it ran").end > call
    };
    all.iter().filter(is_before).collect()
}

/// The kernel of the chunk of a download.
fn kernel_of<'a>(download: &Op, all: &'a [Op]) -> &'a Op {
    let is_kernel = |op: &&Op| op.engine == Engine::Compute && op.thread == download.thread;
    let kernel = all.iter().filter(is_kernel).find(|op| op.chunk == download.chunk);
    kernel.expect("each chunk has a kernel")
}

/// The law of the shared streams: a small copy has at most two pieces of bulk runs before it, none
/// of them waits for a kernel, and both runs compute the same as alone.
#[test]
fn a_small_copy_waits_for_two_pieces_of_a_bulk_run_at_most() -> Result<()> {
    for seed in 0..12 {
        let device = simulated(if seed == 0 { Order::Greedy } else { Order::Seeded(seed) });
        let (x, mut y) = (numbers(&device, 4 << 20, 3), numbers(&device, 4 << 20, 0));
        let (small, mut answer) = (numbers(&device, SMALL / 4, 7), numbers(&device, SMALL / 4, 0));
        let on = |sharing, chunk| {
            let pipeline = Pipeline::on(&device).stage(copy).sharing(sharing);
            pipeline.schedule(Schedule::RoleStreams).chunk(Bytes(chunk))
        };
        // Made before the bulk run starts, so that all of its copies are cut.
        let waiting = on(Sharing::Latency, SMALL as u64).prepare(&small, &mut answer, ROW)?;
        answer.write()?.fill(0);
        let stream = device.stream()?;
        device.start_trace(&stream)?;
        testing::script(
            &device,
            vec![
                Box::new(|| {
                    let mut bulk =
                        on(Sharing::Bulk, 3 << 20).prepare(&x, &mut y, ROW).expect("a job");
                    bulk.run(&x, &mut y).expect("the bulk run");
                }),
                Box::new(|| {
                    let request = on(Sharing::Latency, SMALL as u64);
                    let mut request = request.prepare(&small, &mut answer, ROW).expect("a job");
                    (0..20).for_each(|_| request.run(&small, &mut answer).expect("a request"));
                }),
            ],
        );
        drop(waiting);
        let trace = device.take_trace()?;
        assert_eq!(*answer.read()?, *small.read()?, "seed {seed}");
        assert_eq!(*y.read()?, *x.read()?, "seed {seed}");
        let copies = || trace.ops.iter().filter(|op| op.kind == OpKind::Work(StreamWork::Copy));
        let largest = copies().map(|op| op.bytes).max();
        assert_eq!(largest, Some(PIECE), "seed {seed}");
        for op in copies().filter(|op| op.engine == Engine::Download && op.bytes == PIECE) {
            let kernel = kernel_of(op, &trace.ops).times.expect("it ran");
            let call = op.call.expect("a call of the host").begin;
            assert!(kernel.end <= call, "seed {seed}: {op:?} waits in its stream for a kernel");
        }
        let mut behind_one = 0;
        for op in copies().filter(|op| op.bytes == SMALL as u64) {
            let before = before(op, &trace.ops);
            assert!(before.len() <= 2, "seed {seed}: {op:?} is behind {before:?}");
            behind_one += usize::from(!before.is_empty());
        }
        assert!(behind_one > 0, "seed {seed}: no small copy met the bulk run");
    }
    Ok(())
}

/// Where no small job copies, a bulk run has the chunks of its plan.
#[test]
fn copies_of_a_bulk_run_are_cut_only_while_a_small_job_copies_too() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, 2 << 20, 3), numbers(&device, 2 << 20, 0));
    let (small, mut answer) = (numbers(&device, SMALL / 4, 7), numbers(&device, SMALL / 4, 0));
    let bulk = Pipeline::on(&device).stage(copy).sharing(Sharing::Bulk).chunk(Bytes(4 << 20));
    let mut bulk = bulk.prepare(&x, &mut y, ROW)?;
    let stream = device.stream()?;
    let mut largest = || -> Result<u64> {
        device.start_trace(&stream)?;
        bulk.run(&x, &mut y)?;
        let ops = device.take_trace()?.ops;
        let copies = ops.iter().filter(|op| matches!(op.engine, Engine::Upload | Engine::Download));
        Ok(copies.map(|op| op.bytes).max().unwrap_or(0))
    };
    assert_eq!(largest()?, 4 << 20);
    let request = |schedule| {
        let pipeline = Pipeline::on(&device).stage(copy).sharing(Sharing::Latency);
        pipeline.schedule(schedule)
    };
    let in_place = request(Schedule::InPlace).prepare(&small, &mut answer, ROW)?;
    assert_eq!(largest()?, 4 << 20, "a job in place copies nothing");
    drop(in_place);
    let copying = request(Schedule::RoleStreams).prepare(&small, &mut answer, ROW)?;
    assert_eq!(largest()?, PIECE);
    drop(copying);
    assert_eq!(largest()?, 4 << 20);
    Ok(())
}

#[test]
fn a_way_of_sharing_that_its_schedule_does_not_allow_is_refused() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, 10 * ROW, 3), numbers(&device, 10 * ROW, 0));
    let refused = [
        (Sharing::Latency, Schedule::OneStream),
        (Sharing::Latency, Schedule::SlotStreams),
        (Sharing::Bulk, Schedule::OneStream),
        (Sharing::Bulk, Schedule::SlotStreams),
        (Sharing::Bulk, Schedule::InPlace),
    ];
    for (sharing, schedule) in refused {
        let pipeline = Pipeline::on(&device).stage(copy).sharing(sharing).schedule(schedule);
        let error = pipeline.prepare(&x, &mut y, ROW).expect_err("no streams of copies");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains(&format!("{schedule:?}")), "{error}");
    }
    Ok(())
}

#[test]
fn a_small_light_job_for_latency_works_in_place() -> Result<()> {
    let device = simulated(Order::Greedy);
    let (x, mut y) = (numbers(&device, SMALL / 4, 3), numbers(&device, SMALL / 4, 0));
    let job =
        Pipeline::on(&device).stage(copy).sharing(Sharing::Latency).prepare(&x, &mut y, ROW)?;
    assert_eq!(job.plan().schedule, Schedule::InPlace);
    assert!(
        job.tried().iter().any(|way| way.schedule == Schedule::RoleStreams),
        "{:?}",
        job.tried()
    );
    assert!(
        !job.tried().iter().any(|way| way.schedule == Schedule::OneStream),
        "{:?}",
        job.tried()
    );
    Ok(())
}

#[test]
fn a_bulk_run_goes_on_after_an_error_of_a_stage() -> Result<()> {
    for device in [threads(), simulated(Order::Seeded(3))] {
        let (x, mut y) = (numbers(&device, 100 * ROW, 5), numbers(&device, 100 * ROW, 0));
        let failing = std::sync::atomic::AtomicBool::new(false);
        let pipeline = Pipeline::on(&device)
            .stage::<u32, u32>(|s, x, y| {
                if failing.load(std::sync::atomic::Ordering::Relaxed) && s.chunk().index == 3 {
                    s.alloc::<u8>(usize::MAX)?;
                }
                s.launch(&WORK, (0, x, y))
            })
            .sharing(Sharing::Bulk)
            .chunk(Bytes(10 * ROW as u64 * 4));
        let mut job = pipeline.prepare(&x, &mut y, ROW)?;
        failing.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = job.run(&x, &mut y).expect_err("no memory is that large");
        assert!(error.to_string().contains("chunk 3"), "{error}");
        failing.store(false, std::sync::atomic::Ordering::Relaxed);
        y.write()?.fill(0);
        job.run(&x, &mut y)?;
        assert_eq!(*y.read()?, *x.read()?);
    }
    Ok(())
}

/// The host threads of a simulation take turns, and a lock that one of them holds stops all.
#[test]
fn two_bulk_runs_of_a_simulation_end() -> Result<()> {
    for seed in 0..8 {
        let device = simulated(if seed == 0 { Order::Greedy } else { Order::Seeded(seed) });
        let run = |first: u32| {
            let device = &device;
            move || {
                let (x, mut y) = (numbers(device, 90 * ROW, first), numbers(device, 90 * ROW, 0));
                let pipeline = Pipeline::on(device).stage(copy).sharing(Sharing::Bulk);
                let pipeline =
                    pipeline.schedule(Schedule::RoleStreams).chunk(Bytes(7 * ROW as u64 * 4));
                let mut job = pipeline.prepare(&x, &mut y, ROW).expect("a job");
                job.run(&x, &mut y).expect("a run");
                assert_eq!(*y.read().expect("it ended"), *x.read().expect("it ended"));
            }
        };
        testing::script(&device, vec![Box::new(run(1)), Box::new(run(1000))]);
    }
    Ok(())
}

/// Two bulk runs at once, on threads of the host.
#[test]
fn two_bulk_runs_share_the_streams() -> Result<()> {
    let device = threads();
    std::thread::scope(|scope| {
        let run = |first: u32| {
            let device = &device;
            move || -> Result<()> {
                let (x, mut y) = (numbers(device, 500 * ROW, first), numbers(device, 500 * ROW, 0));
                let pipeline = Pipeline::on(device).stage(copy).sharing(Sharing::Bulk);
                let mut job = pipeline.chunk(Bytes(7 * ROW as u64 * 4)).prepare(&x, &mut y, ROW)?;
                for _ in 0..3 {
                    y.write()?.fill(0);
                    job.run(&x, &mut y)?;
                    assert_eq!(*y.read()?, *x.read()?);
                }
                Ok(())
            }
        };
        let (a, b) = (scope.spawn(run(1)), scope.spawn(run(1000)));
        a.join().expect("no panic").and(b.join().expect("no panic"))
    })
}
