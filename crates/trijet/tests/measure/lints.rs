//! For each rule, a program that gets the remark and a corrected program that does not.

use crate::live::{WORDS, recorded, role_streams};
use crate::script::Script;
use std::num::NonZeroU32;
use trijet::Uses;
use trijet::check::lint::{Lint, Rule, lints, lints_of};
use trijet::sim::{CostModel, Executor, HostConfig, Order};
use trijet::testing::{MIX, WORK};
use trijet::trace::Engine::{Compute, Upload};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::file::{Reader, Writer};
use trijet::trace::{
    Asked, HostStep, LedgerNote, MemoryCall, Named, Op, OpKind, StreamClass, StreamMark, TimesFrom,
    Waited,
};
use trijet::{Bytes, Device, Nanos, Result, StreamOptions};

fn found(ops: &[Op], rule: Rule) -> Option<Lint> {
    lints_of(ops, Kernels::OneAtATime).into_iter().find(|lint| lint.rule == rule)
}

/// The remark of a rule, which the program must get.
fn flagged(ops: &[Op], rule: Rule) -> Lint {
    let all = lints_of(ops, Kernels::OneAtATime);
    found(ops, rule).unwrap_or_else(|| panic!("{} is not among {all:#?}", rule.name()))
}

fn silent(ops: &[Op], rule: Rule) {
    assert_eq!(found(ops, rule), None);
}

/// Case 13.
#[test]
fn a_kernel_of_the_legacy_stream_between_blocking_streams_is_flagged() {
    let program = |device: &Device, legacy: bool| -> Result<()> {
        let stream = || {
            if legacy {
                device.stream_with(StreamOptions::new().blocking())
            } else {
                device.stream()
            }
        };
        let (a, b) = (stream()?, stream()?);
        let between = if legacy { device.legacy_stream()? } else { device.stream()? };
        let (x, mut y) = (a.alloc::<u32>(WORDS)?, a.alloc::<u32>(WORDS)?);
        let (mut z, mut w) = (a.alloc::<u32>(WORDS)?, a.alloc::<u32>(WORDS)?);
        a.launch(&WORK, (50, &x, &mut y))?;
        between.launch(&WORK, (50, &y, &mut z))?;
        b.launch(&WORK, (50, &x, &mut w))
    };
    let faulty = recorded(|device| program(device, true));
    let lint = flagged(&faulty, Rule::LegacyBarrier);
    assert!(lint.text.contains("lints.rs"), "{lint}");
    silent(&recorded(|device| program(device, false)), Rule::LegacyBarrier);
}

/// The cost of a barrier, computed by hand: the second kernel could have started at 2, when it was
/// enqueued.
#[test]
fn a_legacy_barrier_costs_the_time_that_no_other_cause_explains() {
    let mut s = Script::default();
    s.called(Upload, 1, 0..1, 1..30).stream = StreamClass::Blocking;
    s.called(Compute, 0, 1..2, 30..40).stream = StreamClass::Legacy;
    let lint = flagged(&s.ops, Rule::LegacyBarrier);
    assert_eq!((lint.saved, lint.ops), (Nanos(28), vec![1]));
}

/// Operations of the legacy stream follow each other like those of any stream.
#[test]
fn a_program_with_the_legacy_stream_alone_has_no_barrier() {
    let ops = recorded(|device| {
        let stream = device.legacy_stream()?;
        let (x, mut y) = (stream.alloc::<u32>(WORDS)?, stream.alloc::<u32>(WORDS)?);
        let mut z = stream.alloc::<u32>(WORDS)?;
        stream.launch(&WORK, (50, &x, &mut y))?;
        stream.launch(&WORK, (50, &x, &mut z))
    });
    silent(&ops, Rule::LegacyBarrier);
}

/// Cases 28 and 29.
#[test]
fn pageable_copies_are_flagged_with_the_time_that_they_block() {
    let kernels = |device: &Device| -> Result<_> {
        let streams = [device.stream()?, device.stream()?, device.stream()?, device.stream()?];
        let mut buffers = Vec::new();
        for stream in &streams {
            buffers.push((stream.alloc::<u32>(WORDS)?, stream.alloc::<u32>(WORDS)?));
        }
        Ok((streams, buffers))
    };
    let faulty = recorded(|device| {
        let (streams, mut buffers) = kernels(device)?;
        let host = device.pageable::<u32>(WORDS)?;
        for (stream, (x, y)) in streams.iter().zip(&mut buffers) {
            stream.launch(&WORK, (400, &*x, &mut *y))?;
            stream.copy(&host, x)?;
            stream.launch(&WORK, (400, &*x, y))?;
        }
        Ok(())
    });
    let lint = flagged(&faulty, Rule::Pageable);
    assert_eq!(lint.ops.len(), 4);
    let corrected = recorded(|device| {
        let (streams, mut buffers) = kernels(device)?;
        let host = device.pinned::<u32>(WORDS)?;
        for (stream, (x, y)) in streams.iter().zip(&mut buffers) {
            stream.launch(&WORK, (400, &*x, &mut *y))?;
            stream.copy(&host, x)?;
            stream.launch(&WORK, (400, &*x, y))?;
        }
        Ok(())
    });
    silent(&corrected, Rule::Pageable);
}

/// Case 30, and case 50 in its first form: the host waits for a copy, then for a kernel, and so on.
#[test]
fn synchronous_copies_in_a_loop_are_flagged() {
    let faulty = recorded(|device| {
        let a = device.stream()?;
        let host = device.pinned::<u32>(WORDS)?;
        let (mut x, mut y) = (a.alloc::<u32>(WORDS)?, a.alloc::<u32>(WORDS)?);
        for _ in 0..6 {
            device.copy_now(&host, &mut x)?;
            a.launch(&WORK, (50, &x, &mut y))?;
            a.synchronize()?;
        }
        Ok(())
    });
    let lint = flagged(&faulty, Rule::SyncCopy);
    // 1 MiB at 55.5 GB/s takes 18.9 us. There are six such copies, and no kernel runs meanwhile.
    assert!((Nanos(113_000)..Nanos(160_000)).contains(&lint.saved), "{lint}");
    silent(&recorded(|device| role_streams(device, 6, 2)), Rule::SyncCopy);
}

/// Case 49.
#[test]
fn far_more_streams_than_work_at_once_are_flagged() {
    let program = |device: &Device, count: usize| -> Result<()> {
        let streams: Vec<_> = (0..count).map(|_| device.stream()).collect::<Result<_>>()?;
        let keeper = device.stream()?;
        let mut pairs = Vec::new();
        for _ in 0..64 {
            pairs.push((keeper.alloc::<u32>(64)?, keeper.alloc::<u32>(64)?));
        }
        keeper.synchronize()?;
        for (n, (x, y)) in pairs.iter_mut().enumerate() {
            streams[n % count].launch(&WORK, (1, &*x, y))?;
        }
        device.synchronize()
    };
    flagged(&recorded(|device| program(device, 64)), Rule::TooManyStreams);
    silent(&recorded(|device| program(device, 2)), Rule::TooManyStreams);
}

/// A run with 8 hardware queues. The driver assigned the streams to the queues in rotation. Each
/// stream enqueues a kernel of 1000 and a kernel of `second`, before the next stream does. The
/// first kernel of a stream waits for the first kernel of the previous stream in its queue. The
/// second kernel of a stream follows the first one.
fn dealt(streams: u32, second: u64) -> Vec<Op> {
    let mut s = Script::default();
    for stream in 0..streams {
        let (turn, at) = (u64::from(stream / 8) * 1_000_000, u64::from(stream) * 2);
        let end = turn + 1_000_000;
        s.called(Compute, stream, at..at + 1, turn.max(at + 1)..end);
        s.called(Compute, stream, at + 1..at + 2, end..end + second);
    }
    s.ops
}

fn shared(ops: &[Op], queues: Option<u32>, kernels: Kernels) -> Option<Lint> {
    let all = lints(ops, &Dag::new(ops, kernels), queues);
    all.into_iter().find(|lint| lint.rule == Rule::QueueShared)
}

/// Nine streams wait: eight of them for one kernel, and one for two kernels.
#[test]
fn more_streams_of_two_kernels_than_hardware_queues_are_flagged() {
    let mut ops = dealt(17, 10_000);
    let position = ops[16].position;
    let name = LedgerNote::Name { of: Named::Stream };
    let named = Op::new(name, trijet::trace::Engine::None, ops[16].device, position);
    ops.push(Op { label: "late".into(), ..named });
    let lint = shared(&ops, Some(8), Kernels::Several).expect("nine streams waited");
    let text = &lint.text;
    assert!(
        text.starts_with(
            "17 streams had their next operation enqueued before a kernel ended, but there are \
             only 8"
        ),
        "{text}"
    );
    assert!(
        text.contains("9 kernels were ready") && text.contains("the kernels of `late`, `stream 9`"),
        "{text}"
    );
    assert!(text.ends_with("`stream 15` and 1 more"), "{text}");
    assert!((Nanos(1_900_000)..=Nanos(2_000_000)).contains(&lint.saved), "{lint}");
}

#[test]
fn as_many_streams_as_hardware_queues_are_not_flagged() {
    assert_eq!(shared(&dealt(8, 10_000), Some(8), Kernels::Several), None);
}

/// The times are the same, but the driver has a different or unknown number of queues.
#[test]
fn waits_beside_another_number_of_kernels_are_not_blamed_on_queues() {
    let ops = dealt(17, 10_000);
    for queues in [Some(4), Some(16), Some(32), None] {
        assert_eq!(shared(&ops, queues, Kernels::Several), None, "{queues:?}");
    }
}

/// Kernels that fill the device run one after the other, whatever the queues.
#[test]
fn kernels_that_wait_for_a_full_device_are_not_blamed_on_queues() {
    let mut s = Script::default();
    for stream in 0..17 {
        let (at, begin) = (u64::from(stream) * 2, u64::from(stream) * 200_000 + 100);
        s.called(Compute, stream, at..at + 1, begin..begin + 100_000);
        s.called(Compute, stream, at + 1..at + 2, begin + 100_000..begin + 200_000);
    }
    assert_eq!(shared(&s.ops, Some(8), Kernels::Several), None);
    // Here the number of kernels at once varies, and is eight for a third of the time.
    let mut s = Script::default();
    for stream in 0..18_u32 {
        let width = [6, 8, 4][stream as usize % 3];
        for kernel in 0..2 {
            let turn = u64::from(stream) * 2 + kernel;
            for beside in 0..width {
                let (lane, begin) = (stream * 8 + beside, turn * 100_000 + 1000);
                s.called(Compute, lane, turn..turn + 1, begin..begin + 100_000);
            }
        }
    }
    assert_eq!(shared(&s.ops, Some(8), Kernels::Several), None);
}

/// Streams with one kernel each hold back nothing.
#[test]
fn lone_kernels_that_wait_are_not_blamed_on_queues() {
    let mut s = Script::default();
    for stream in 0..24 {
        let turn = u64::from(stream / 8) * 100_000;
        s.called(Compute, stream, 0..1, turn + 1..turn + 100_000);
    }
    assert_eq!(shared(&s.ops, Some(8), Kernels::Several), None);
}

/// A run with nine streams: with four queues, if the seed makes streams share them, and with 32
/// queues.
#[test]
fn a_run_of_the_host_device_is_flagged_only_if_streams_shared_queues() -> Result<()> {
    let run = |seed, queues| -> Result<bool> {
        let executor = Executor::Virtual(Order::Seeded(seed));
        let hardware_queues = NonZeroU32::new(queues);
        // The long kernel takes about a millisecond.
        let cost = CostModel { op_rate: 3.2e6, ..CostModel::default() };
        let config =
            HostConfig::new().executor(executor).hardware_queues(hardware_queues).cost(cost);
        let device = Device::host(config)?.remove(0);
        device.load(&WORK)?;
        let streams = (0..9).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
        let mut pairs = Vec::new();
        for stream in &streams {
            pairs.push([stream.alloc::<u32>(64)?, stream.alloc::<u32>(64)?]);
        }
        device.synchronize()?;
        device.start_trace_from(&streams[0], TimesFrom::Activity)?;
        for (stream, [x, y]) in streams.iter().zip(&mut pairs) {
            stream.launch(&WORK, (50, &*x, &mut *y))?;
            stream.launch(&WORK, (1, &*x, y))?;
        }
        device.synchronize()?;
        let trace = device.take_trace()?;
        assert_eq!(trace.hardware_queues, Some(queues));
        // As `trijet check` reads it from a file.
        let mut file = Writer::new(Vec::new(), &trace.about("nine streams"))?;
        trace.ops.iter().try_for_each(|op| file.push(op))?;
        let bytes = file.finish()?;
        let reader = Reader::new(&bytes[..])?;
        let about = reader.about().clone();
        assert_eq!(about.hardware_queues, Some(queues));
        let ops = reader.collect::<Result<Vec<_>>>()?;
        let dag = Dag::with_times(&ops, Kernels::Several, about.times);
        let all = lints(&ops, &dag, Some(4));
        Ok(all.iter().any(|lint| lint.rule == Rule::QueueShared))
    };
    let flagged = |queues| -> Result<usize> {
        let seeds = (0..40).map(|seed| run(seed, queues)).collect::<Result<Vec<bool>>>()?;
        Ok(seeds.into_iter().filter(|flagged| *flagged).count())
    };
    let (four, many) = (flagged(4)?, flagged(32)?);
    // Most seeds draw durations that differ too much for the evidence.
    assert!(four > 0 && many == 0, "{four} and {many} of 40");
    Ok(())
}

/// Case 42: one graph is launched over two memories in two streams. The corrected program has a
/// graph for each memory.
#[test]
fn launches_of_one_graph_in_two_streams_are_flagged() -> Result<()> {
    let run = |graphs: usize| -> Result<Vec<Op>> {
        let device = Device::host(
            HostConfig::new()
                .executor(Executor::Virtual(Order::Greedy))
                .cost(CostModel { op_rate: 3.2e6, ..CostModel::default() }),
        )?
        .remove(0);
        let streams = [device.stream()?, device.stream()?];
        let mut pairs = Vec::new();
        for _ in &streams {
            pairs.push((streams[0].alloc_zeroed::<u32>(64)?, streams[0].alloc_zeroed::<u32>(64)?));
        }
        let mut all = Vec::new();
        for (x, y) in pairs.iter_mut().take(graphs) {
            all.push(device.record(|g| {
                g.argument(x)?;
                g.argument(y)?;
                g.stream()?.launch(&WORK, (50, &*x, y))
            })?);
        }
        device.synchronize()?;
        device.start_trace_from(&streams[0], TimesFrom::Activity)?;
        for turn in 0..4 {
            let ((x, y), graph) = (&mut pairs[turn % 2], &mut all[turn % graphs]);
            let arguments = Uses::new().read(x.view()).write(y.view_mut());
            streams[turn % 2].launch_graph(graph, arguments)?;
        }
        device.synchronize()?;
        Ok(device.take_trace()?.ops)
    };
    let lint_of = |ops: &[Op]| {
        let all = lints_of(ops, Kernels::Several);
        all.into_iter().find(|lint| lint.rule == Rule::GraphSerialized)
    };
    let lint = lint_of(&run(1)?).expect("each launch waited for the one in the other stream");
    assert_eq!(lint.ops.len(), 3, "{lint}");
    assert!(lint.text.contains("3 launches of a graph in 2 streams waited"), "{lint}");
    assert_eq!(lint_of(&run(2)?), None);
    Ok(())
}

/// The cost of a launch that waits, computed by hand: it was enqueued at 2.
#[test]
fn a_serialized_launch_costs_the_time_that_no_other_cause_explains() {
    let mut s = Script::default();
    s.called(Compute, 0, 0..1, 1..30).label = "graph 1: work".into();
    s.called(Compute, 1, 1..2, 30..60).label = "graph 1: work".into();
    let ops = s.ops;
    let all = lints_of(&ops, Kernels::Several);
    let found = all.iter().find(|lint| lint.rule == Rule::GraphSerialized).expect("it waited");
    assert_eq!((found.saved, &found.ops[..]), (Nanos(28), &[1][..]));
    for (lane, label) in [(0, "graph 1: work"), (1, "graph 2: work")] {
        let mut s = Script::default();
        s.called(Compute, 0, 0..1, 1..30).label = "graph 1: work".into();
        s.called(Compute, lane, 1..2, 30..60).label = label.into();
        let all = lints_of(&s.ops, Kernels::Several);
        assert!(all.iter().all(|lint| lint.rule != Rule::GraphSerialized), "{label} in {lane}");
    }
}

/// Case 50.
#[test]
fn waiting_for_the_device_after_each_chunk_is_flagged() {
    let faulty = recorded(|device| {
        let (up, run) = (device.stream()?, device.stream()?);
        let host = device.pinned::<u32>(WORDS)?;
        let (mut x, mut y) = (up.alloc::<u32>(WORDS)?, up.alloc::<u32>(WORDS)?);
        for _ in 0..6 {
            up.copy(&host, &mut x)?;
            run.launch(&WORK, (50, &x, &mut y))?;
            device.synchronize()?;
        }
        Ok(())
    });
    let lint = flagged(&faulty, Rule::OverSync);
    // After each of five waits the limiting engine is idle for a call and perhaps a copy.
    assert!(lint.saved > Nanos(5_000), "{lint}");
    let corrected = recorded(|device| role_streams(device, 6, 2));
    silent(&corrected, Rule::OverSync);
}

/// Case 51.
#[test]
fn a_second_wait_for_the_same_work_is_flagged() {
    let program = |device: &Device, waits: usize, work_between: bool| -> Result<()> {
        let (a, b) = (device.stream()?, device.stream()?);
        let event = device.event()?;
        let (x, mut y) = (a.alloc::<u32>(64)?, a.alloc::<u32>(64)?);
        a.launch(&WORK, (1, &x, &mut y))?;
        for _ in 0..waits {
            if work_between {
                a.launch(&WORK, (1, &x, &mut y))?;
            }
            event.record(&a)?;
            b.wait(&event)?;
        }
        Ok(())
    };
    let lint = flagged(&recorded(|device| program(device, 2, false)), Rule::RedundantWait);
    assert_eq!(lint.ops.len(), 1, "the second one");
    silent(&recorded(|device| program(device, 1, false)), Rule::RedundantWait);
    silent(&recorded(|device| program(device, 3, true)), Rule::RedundantWait);
}

/// Case 52.
#[test]
fn all_chunks_in_one_stream_are_flagged_with_the_bound() {
    let faulty = recorded(|device| {
        let one = device.stream()?;
        let (host, mut landed) = (device.pinned::<u32>(WORDS)?, device.pinned::<u32>(WORDS)?);
        let (mut x, mut y) = (one.alloc::<u32>(WORDS)?, one.alloc::<u32>(WORDS)?);
        for _ in 0..8 {
            one.copy(&host, &mut x)?;
            one.launch(&WORK, (60, &x, &mut y))?;
            one.copy(&y, &mut landed)?;
        }
        Ok(())
    });
    let lint = flagged(&faulty, Rule::NoOverlap);
    // Each chunk has two copies of 1 MiB, which take 22 us each with their latency, and a kernel.
    // It could hide more than one copy during another one.
    assert!(lint.saved > Nanos(8 * 18_000), "{lint}");
    silent(&recorded(|device| role_streams(device, 8, 3)), Rule::NoOverlap);
}

/// Case 53, by hand: the library has no allocation that is not stream-ordered.
#[test]
fn allocating_without_a_stream_in_a_loop_is_flagged() {
    let mut faulty = Script::default();
    for n in 0..4 {
        let t = 1_000 * n;
        faulty.call(MemoryCall::AllocNow, t..t + 100);
        faulty.called(Compute, 1, t + 100..t + 110, t + 110..t + 500);
        faulty.call(MemoryCall::FreeNow, t + 510..t + 560);
    }
    // Three allocations of 100 and three frees of 50, without the first allocation and the last
    // free.
    assert_eq!(flagged(&faulty.ops, Rule::SyncAlloc).saved, Nanos(450));
    let mut corrected = Script::default();
    corrected.call(MemoryCall::AllocNow, 0..100);
    for n in 0..4 {
        let t = 1_000 * n + 100;
        corrected.called(Compute, 1, t..t + 10, t + 10..t + 400);
    }
    corrected.call(MemoryCall::FreeNow, 5_000..5_050);
    silent(&corrected.ops, Rule::SyncAlloc);
    // If allocations are kept, there is no loop of allocating and freeing.
    let mut kept = Script::default();
    for n in 0..4 {
        kept.call(MemoryCall::AllocNow, 100 * n..100 * n + 50);
    }
    kept.work(Compute, 1, 400..500);
    silent(&kept.ops, Rule::SyncAlloc);
}

/// Case 54, by hand.
#[test]
fn a_pool_that_gives_back_what_it_needs_is_flagged() {
    let program = |releases: bool| {
        let mut s = Script::default();
        for n in 0..5 {
            let t = 1_000 * n;
            let slow = if releases && n > 0 { 70 } else { 5 };
            s.alloc(1, t..t + slow);
            s.called(Compute, 1, t + 80..t + 90, t + 90..t + 400);
            s.sync(Waited::Stream, 1, t + 90..t + 400);
            if releases {
                s.call(HostStep::Release, t + 400..t + 430);
            }
        }
        s.ops
    };
    // There are four releases of 30 before an allocation. Each such allocation takes 65 longer than
    // the quickest one.
    assert_eq!(flagged(&program(true), Rule::PoolThrash).saved, Nanos(4 * (30 + 65)));
    silent(&program(false), Rule::PoolThrash);
}

/// Case 55, with fewer copies.
#[test]
fn thousands_of_small_copies_are_flagged() {
    let faulty = recorded(|device| {
        let stream = device.stream()?;
        let host = device.pinned::<u32>(200 << 10)?;
        let mut x = stream.alloc::<u32>(200 << 10)?;
        for n in 0..200 {
            let part = n << 10..(n + 1) << 10;
            stream.copy(&host.slice(part.clone()), &mut x.slice_mut(part))?;
        }
        Ok(())
    });
    let lint = flagged(&faulty, Rule::SmallCopy);
    // A call takes 1 us of the host, and 199 calls are too many.
    assert!(lint.saved >= Nanos(199_000), "{lint}");
    let corrected = recorded(|device| {
        let stream = device.stream()?;
        let host = device.pinned::<u32>(200 << 10)?;
        let mut x = stream.alloc::<u32>(200 << 10)?;
        stream.copy(&host, &mut x)
    });
    silent(&corrected, Rule::SmallCopy);
}

/// Law A43.
#[test]
fn a_small_copy_behind_bulk_copies_of_another_stream_is_flagged() {
    let program = |one_stream: bool| {
        recorded(|device| {
            let bulk = device.stream()?;
            let other = device.stream()?;
            let urgent = if one_stream { &bulk } else { &other };
            let (large, small) = (device.pinned::<u32>(4 * WORDS)?, device.pinned::<u32>(64)?);
            let mut x = [bulk.alloc::<u32>(4 * WORDS)?, bulk.alloc::<u32>(4 * WORDS)?];
            let mut y = bulk.alloc::<u32>(64)?;
            device.synchronize()?;
            x.iter_mut().try_for_each(|x| bulk.copy(&large, x))?;
            urgent.copy(&small, &mut y)
        })
    };
    let lint = flagged(&program(false), Rule::SmallCopyStarved);
    // The first bulk copy of 4 MiB takes 78 us at least.
    assert!(lint.saved > Nanos(70_000), "{lint}");
    silent(&program(true), Rule::SmallCopyStarved);
}

/// Law A42, by hand.
#[test]
fn a_kernel_loaded_in_the_middle_is_flagged() {
    let program = |late: bool| {
        let mut s = Script::default();
        if !late {
            s.call(HostStep::Load, 0..100);
        }
        s.called(Compute, 1, 100..101, 101..300);
        if late {
            s.call(HostStep::Load, 101..400).label = "median".into();
        }
        s.called(Compute, 2, 400..401, 401..600);
        s.ops
    };
    let lint = flagged(&program(true), Rule::FirstUseLoad);
    assert_eq!(lint.saved, Nanos(299));
    assert!(lint.text.contains("median"), "{lint}");
    silent(&program(false), Rule::FirstUseLoad);
}

/// By hand, because the own code of a program takes no time on the virtual clock.
#[test]
fn a_host_that_computes_between_its_calls_is_flagged() {
    let program = |pause: u64| {
        let mut s = Script::default();
        for n in 0..5 {
            let call = n * (10 + pause);
            let begin = if pause > 100 { call + 10 } else { 10 + 100 * n };
            s.called(Compute, 1, call..call + 10, begin..begin + 100);
        }
        s.ops
    };
    // There is a call every 210. Each kernel ends 100 after its call, and 100 before the next call
    // starts.
    assert_eq!(flagged(&program(200), Rule::HostLate).saved, Nanos(4 * 100));
    silent(&program(20), Rule::HostLate);
}

#[test]
fn a_good_pipeline_gets_no_remark() {
    let ops = recorded(|device| role_streams(device, 12, 3));
    let all = lints_of(&ops, Kernels::OneAtATime);
    assert!(all.is_empty(), "{all:#?}");
}

/// Case 54, as the library records it: a pool that keeps nothing returns memory at each wait.
#[test]
fn a_pool_that_keeps_nothing_is_flagged_in_a_program_that_runs() {
    let program = |device: &Device, keep: Bytes| -> Result<()> {
        let stream = device.stream()?;
        device.keep_memory(keep)?;
        for _ in 0..4 {
            let (x, mut y) = (stream.alloc::<u32>(WORDS)?, stream.alloc::<u32>(WORDS)?);
            stream.launch(&WORK, (50, &x, &mut y))?;
            drop((x, y));
            device.synchronize()?;
        }
        device.keep_memory(Bytes(u64::MAX))
    };
    let faulty = recorded(|device| program(device, Bytes(0)));
    let given: u64 = faulty.iter().filter(|op| op.label == "heap").map(|op| op.bytes).sum();
    assert!(given >= 4 * 2 * 4 * WORDS as u64, "{given} bytes were given back");
    flagged(&faulty, Rule::PoolThrash);
    silent(&recorded(|device| program(device, Bytes(u64::MAX))), Rule::PoolThrash);
}

/// Law A42, as the library records it.
#[test]
fn a_kernel_loaded_between_others_is_flagged_in_a_program_that_runs() {
    let program = |device: &Device, early: bool| -> Result<()> {
        let stream = device.stream()?;
        if early {
            device.load(&MIX)?;
        }
        let (x, mut y) = (stream.alloc::<u32>(WORDS)?, stream.alloc::<u32>(WORDS)?);
        stream.launch(&WORK, (50, &x, &mut y))?;
        let (z, mut w) = (stream.alloc::<u64>(WORDS)?, stream.alloc::<u64>(WORDS)?);
        stream.launch(&MIX, (1, &z, &mut w))
    };
    let lint = flagged(&recorded(|device| program(device, false)), Rule::FirstUseLoad);
    assert!(lint.text.contains("mix") && lint.text.contains("lints.rs"), "{lint}");
    silent(&recorded(|device| program(device, true)), Rule::FirstUseLoad);
}

/// The calls of the program about events have a source line and a time. The calls that the library
/// makes to order operations are inside the call that needed them.
#[test]
fn records_and_waits_of_the_program_say_where_they_are() {
    let ops = recorded(|device| {
        let (a, b, event) = (device.stream()?, device.stream()?, device.event()?);
        event.record(&a)?;
        b.wait(&event)
    });
    let asked = |op: &&Op| {
        matches!(
            op.kind,
            OpKind::Mark(
                StreamMark::Record { by: Asked::User, .. }
                    | StreamMark::Wait { by: Asked::User, .. }
            )
        )
    };
    let calls: Vec<&Op> = ops.iter().filter(asked).collect();
    assert_eq!(calls.len(), 2);
    for op in calls {
        let site = op.site.as_ref().expect("it has a place");
        assert!(site.file.ends_with("lints.rs") && op.call.is_some(), "{op:?}");
    }
}
