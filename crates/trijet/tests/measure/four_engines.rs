//! Uploads, kernels, copies between devices and downloads of one program run at once, on the
//! virtual clock. This file computes the expected times from the numbers of the model, without the
//! library.

use std::ops::Range;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::sim::{CostModel, Executor, HostConfig, Order};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::exposed::Exposure;
use trijet::trace::metrics::{Metrics, Parameters, measure};
use trijet::trace::{DeviceId, Engine, Op, Route, TimesFrom, Union};
use trijet::training::{Direction, LayerPipeline, MicroBatchOrder};
use trijet::{Buffer, Device, Nanos, Result, Stream, View, ViewMut};

/// A kernel has four tiles of this length, so that no time is rounded.
const LEN: usize = 4 * 16 * 1024;
const BYTES: u64 = 4 * LEN as u64;
const LATENCY: u64 = 400;
/// The nanoseconds of a copy of a micro-batch, at one byte per nanosecond.
const COPY: u64 = LATENCY + BYTES;
/// The nanoseconds of a kernel, which reads and writes a micro-batch at eight bytes per nanosecond.
const KERNEL: u64 = LATENCY + 2 * BYTES / 8;
const COUNT: usize = 10;

/// The source of the memory between the kernels of a stage.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    /// The memory was allocated before the run.
    Kept,
    /// Each kernel allocates its result, and the next kernel drops it.
    Dropped,
    /// Like `Dropped`, and the host waits for each stage.
    Waited,
}

/// A cost model with a host that needs no time, and engines with simple rates.
fn cost() -> CostModel {
    CostModel {
        link_rate: 1e9,
        duplex_rate: 1e9,
        memory_rate: 8e9,
        op_rate: 1e18,
        copy_latency: Nanos(LATENCY),
        kernel_latency: Nanos(LATENCY),
        enqueue: Nanos(0),
        event_call: Nanos(0),
        ..CostModel::default()
    }
}

fn config() -> HostConfig {
    HostConfig::new().executor(Executor::Virtual(Order::Greedy)).devices(2).cost(cost())
}

/// A trace with the times of the graph.
struct Traced(Vec<Op>, Dag);

impl Traced {
    /// The times of the operations of an engine, in the order of the trace.
    fn spans(&self, device: u32, engine: Engine) -> Vec<Range<u64>> {
        let Self(ops, dag) = self;
        let mine = |op: &usize| (ops[*op].device, ops[*op].engine) == (DeviceId(device), engine);
        let mut spans: Vec<_> =
            (0..ops.len()).filter(mine).map(|op| dag.work(op).expect("it has times")).collect();
        spans.sort_by_key(|span| span.start);
        spans
    }

    fn busy(&self, device: u32, engine: Engine) -> Union {
        Union::of(self.spans(device, engine))
    }

    fn metrics(&self) -> Metrics {
        measure(&self.0, &self.1, None, &Parameters::default())
    }
}

/// The trace of `program` on these devices.
fn traced(
    devices: &[Device],
    from: TimesFrom,
    program: impl FnOnce() -> Result<()>,
) -> Result<Traced> {
    devices.iter().try_for_each(|device| device.load(&AFFINE_F32))?;
    devices[0].start_trace_from(&devices[0].stream()?, from)?;
    program()?;
    devices.iter().try_for_each(Device::synchronize)?;
    let trace = devices[0].take_trace()?;
    let dag = Dag::with_times(&trace.ops, Kernels::OneAtATime, trace.times);
    assert_eq!((trace.untimed, dag.contradictions()), (0, 0), "one clock for both devices");
    Ok(Traced(trace.ops, dag))
}

/// `kernels` kernels. The last one writes `y`.
fn stage(
    (s, kernels, between): (&Stream, usize, Between),
    kept: &mut [Buffer<f32>],
    x: View<'_, f32>,
    y: ViewMut<'_, f32>,
) -> Result<()> {
    if kernels == 1 {
        return s.launch(&AFFINE_F32, (1.0, 1.0, x, y));
    }
    if between == Between::Kept {
        s.launch(&AFFINE_F32, (1.0, 1.0, x, &mut kept[0]))?;
        for at in 1..kernels - 1 {
            let [from, to] = kept.get_disjoint_mut([at - 1, at]).expect("two buffers");
            s.launch(&AFFINE_F32, (1.0, 1.0, &*from, to))?;
        }
        return s.launch(&AFFINE_F32, (1.0, 1.0, &kept[kernels - 2], y));
    }
    let mut last = s.alloc(LEN)?;
    s.launch(&AFFINE_F32, (1.0, 1.0, x, &mut last))?;
    for _ in 1..kernels - 1 {
        let mut next = s.alloc(LEN)?;
        s.launch(&AFFINE_F32, (1.0, 1.0, &last, &mut next))?;
        last = next;
    }
    s.launch(&AFFINE_F32, (1.0, 1.0, &last, y))
}

/// Micro-batches are uploaded to device 0, computed, copied to device 1, computed there and
/// downloaded. Each stage has this many kernels.
fn four_engines(
    config: HostConfig,
    (kernels, between): (usize, Between),
    from: TimesFrom,
) -> Result<Traced> {
    let devices = Device::host(config)?;
    let (up, down) = (devices[0].stream()?, devices[1].stream()?);
    let mut input = devices[0].pinned::<f32>(COUNT * LEN)?;
    let mut output = devices[1].pinned::<f32>(COUNT * LEN)?;
    input.write()?.fill(3.0);
    let mut slots = [up.alloc(LEN)?, up.alloc(LEN)?, down.alloc(LEN)?, down.alloc(LEN)?];
    let kept = |s: &Stream| (1..kernels).map(|_| s.alloc(LEN)).collect::<Result<Vec<_>>>();
    let mut kept = [kept(&up)?, kept(&down)?];
    let mut pipeline = LayerPipeline::new(&devices, &[LEN], MicroBatchOrder::Forward, COUNT)?;
    let trace = traced(&devices, from, || {
        pipeline.run(|work| {
            let part = work.micro_batch * LEN..(work.micro_batch + 1) * LEN;
            let slot = &mut slots[2 * work.stage + work.micro_batch % 2];
            let (how, kept) = ((work.stream, kernels, between), &mut kept[work.stage]);
            if let (0, Some(y)) = (work.stage, work.output) {
                up.copy(&input.slice(part), slot)?;
                stage(how, kept, slot.view(), y)?;
            } else if let Some(x) = work.input {
                stage(how, kept, x, slot.view_mut())?;
                down.copy(&*slot, &mut output.slice_mut(part))?;
            }
            if between == Between::Waited { work.stream.synchronize() } else { Ok(()) }
        })
    })?;
    let want = 3.0 + 2.0 * kernels as f32;
    assert!(output.read()?.iter().all(|y| *y == want), "each kernel adds 1");
    Ok(trace)
}

/// Equal micro-batches take the time of one micro-batch through all engines. Each further
/// micro-batch adds the time that the busiest engine needs for it.
#[test]
fn four_engines_take_as_long_as_the_busiest_with_fill_and_drain() -> Result<()> {
    for kernels in [1, 2, 4, 7] {
        let from = TimesFrom::Activity;
        let run = four_engines(config(), (kernels, Between::Dropped), from)?;
        let stage = kernels as u64 * KERNEL;
        let fill_and_drain = COPY + stage + COPY + stage + COPY;
        let expected = fill_and_drain + (COUNT as u64 - 1) * stage.max(COPY);
        let metrics = run.metrics();
        assert_eq!(metrics.elapsed(), Nanos(expected), "{kernels} kernels");
        let busy: Vec<_> =
            metrics.engines.iter().map(|e| (e.engine.0.0, e.engine.1, e.busy.0)).collect();
        let times = |time: u64| COUNT as u64 * time;
        let all = [
            (0, Engine::Upload, times(COPY)),
            (0, Engine::Compute, times(stage)),
            (0, Engine::Peer, times(COPY)),
            (1, Engine::Compute, times(stage)),
            (1, Engine::Download, times(COPY)),
        ];
        assert_eq!(busy, all);
    }
    Ok(())
}

/// With short kernels, copies follow each other without a gap. Uploads start at 0. Copies between
/// devices start after one upload and one kernel. Downloads start after two uploads, two kernels
/// and one copy between devices. From then to the last upload, all engines work. In this time
/// device 0 runs a kernel for each upload except the first three.
#[test]
fn four_engines_work_at_once() -> Result<()> {
    let run = four_engines(config(), (1, Between::Dropped), TimesFrom::Activity)?;
    let count = COUNT as u64;
    let copies = run.busy(0, Engine::Upload).and(&run.busy(0, Engine::Peer));
    let copies = copies.and(&run.busy(1, Engine::Download));
    assert_eq!(copies.length(), Nanos((count - 2) * COPY - 2 * KERNEL));
    let all = copies.and(&run.busy(0, Engine::Compute));
    assert_eq!(all.length(), Nanos((count - 3) * KERNEL));
    // Device 0 computes during each copy between devices except the last one.
    let metrics = run.metrics();
    let time =
        Exposure { busy: Nanos(count * COPY), exposed: Nanos(count * COPY - (count - 1) * KERNEL) };
    assert_eq!(metrics.communication, time);
    let [first, second] = &metrics.devices[..] else { panic!("{:?}", metrics.devices) };
    let [route] = &first.routes[..] else { panic!("{first:?}") };
    assert_eq!((route.copies, route.bytes, route.time), (COUNT, count * BYTES, time));
    assert_eq!(route.route, Route { from: DeviceId(0), to: DeviceId(1) });
    assert_eq!((second.communication.busy, second.routes.len()), (Nanos(0), 0));
    Ok(())
}

/// Memory that the stages allocate and drop for each micro-batch delays no copy between devices,
/// whether it comes from the heap or from a pool of the driver. A host that waits does delay
/// copies.
#[test]
fn temporary_buffers_leave_no_gap_between_copies_of_devices() -> Result<()> {
    let from = TimesFrom::Activity;
    let peers = |config: HostConfig, kernels, between| -> Result<Vec<Range<u64>>> {
        Ok(four_engines(config, (kernels, between), from)?.spans(0, Engine::Peer))
    };
    let without_heap = || config().without_ranges();
    for kernels in [2, 4, 7] {
        let kept = peers(config(), kernels, Between::Kept)?;
        assert_eq!(kept.len(), COUNT);
        assert_eq!(peers(config(), kernels, Between::Dropped)?, kept, "{kernels} kernels, heap");
        assert_eq!(
            peers(without_heap(), kernels, Between::Dropped)?,
            kept,
            "{kernels} kernels, pool"
        );
        assert_ne!(peers(config(), kernels, Between::Waited)?, kept, "{kernels} kernels");
    }
    // The host needs time for its calls, but makes no call for memory of the heap.
    let cost = CostModel { enqueue: Nanos(1000), event_call: Nanos(120), ..cost() };
    let slow = config().cost(cost);
    let kept = peers(slow.clone(), 3, Between::Kept)?;
    assert_eq!(peers(slow, 3, Between::Dropped)?, kept);
    Ok(())
}

/// The second device uploads the weights of its half while the first device uploads, computes and
/// copies the first micro-batch. So the second half starts as early as it would without weights.
#[test]
fn a_device_fetches_weights_while_the_one_before_it_works() -> Result<()> {
    let devices = Device::host(config())?;
    let (up, fetch) = (devices[0].stream()?, devices[1].stream()?);
    let mut input = devices[0].pinned::<f32>(COUNT * LEN)?;
    input.write()?.fill(3.0);
    let mut staged = devices[1].pinned::<f32>(2 * LEN)?;
    staged.write()?.fill(0.5);
    let (mut weights, mut slot) = (fetch.alloc::<f32>(2 * LEN)?, up.alloc::<f32>(LEN)?);
    let mut output = fetch.alloc::<f32>(COUNT * LEN)?;
    let mut pipeline = LayerPipeline::new(&devices, &[LEN], MicroBatchOrder::Forward, COUNT)?;
    devices[1].load(&AXPY)?;
    let trace = traced(&devices, TimesFrom::Activity, || {
        fetch.copy(&staged, &mut weights)?;
        pipeline.run(|work| {
            let (s, part) = (work.stream, work.micro_batch * LEN..(work.micro_batch + 1) * LEN);
            if let (0, Some(y)) = (work.stage, work.output) {
                up.copy(&input.slice(part), &mut slot)?;
                s.launch(&AFFINE_F32, (1.0, 1.0, &slot, y))
            } else if let Some(x) = work.input {
                s.launch(&AFFINE_F32, (1.0, 1.0, x, &mut output.slice_mut(part.clone())))?;
                let weights = weights.slice(work.micro_batch % 2 * LEN..).slice(..LEN);
                s.launch(&AXPY, (2.0, weights, &mut output.slice_mut(part)))
            } else {
                Ok(())
            }
        })
    })?;
    assert!(fetch.download(&output)?.iter().all(|y| *y == 3.0 + 1.0 + 1.0 + 2.0 * 0.5));
    let [fetched] = &trace.spans(1, Engine::Upload)[..] else { panic!("one upload of weights") };
    assert_eq!(fetched.end - fetched.start, LATENCY + 2 * BYTES);
    assert_eq!(fetched.start, trace.spans(0, Engine::Upload)[0].start);
    let [arrived, first] =
        [trace.spans(0, Engine::Peer)[0].end, trace.spans(1, Engine::Compute)[0].start];
    assert_eq!(first, arrived, "the second half waits for the first one, and for no weights");
    let beside = |engine| trace.busy(0, engine).and(&trace.busy(1, Engine::Upload)).length().0;
    assert!(beside(Engine::Compute) > 0 && beside(Engine::Peer) > 0);
    Ok(())
}

/// Four stages with forward and backward passes. The last stage never waits between its first and
/// its last work, so copies between devices, which are shorter than a pass, add only to the time
/// that fills and drains the pipeline. The same time for one micro-batch forward and one backward
/// in turn as for all forward and then all backward.
#[test]
fn copies_of_gradients_add_only_to_filling_and_draining() -> Result<()> {
    const STAGES: usize = 4;
    let passes = [6, 9];
    for order in [MicroBatchOrder::FillDrain, MicroBatchOrder::InTurn] {
        let devices = Device::host(config().devices(4))?;
        let mut buffers = Vec::new();
        for device in &devices {
            let s = device.stream()?;
            buffers.push([s.alloc::<f32>(LEN)?, s.alloc(LEN)?]);
        }
        let mut pipeline = LayerPipeline::new(&devices, &[LEN; STAGES - 1], order, COUNT)?;
        let trace = traced(&devices, TimesFrom::Activity, || {
            pipeline.run(|work| {
                let is_forward = work.direction == Direction::Forward;
                let [input, output] = &mut buffers[work.stage];
                let kept = if is_forward { work.input } else { work.gradient };
                let x = kept.unwrap_or_else(|| input.view());
                let mut y = work.output.unwrap_or_else(|| output.view_mut());
                for _ in 0..if is_forward { passes[0] } else { passes[1] } {
                    work.stream.launch(&AFFINE_F32, (1.0, 1.0, x, y.reborrow()))?;
                }
                Ok(())
            })
        })?;
        let both = (passes[0] + passes[1]) * KERNEL;
        let fill_and_drain = (STAGES as u64 - 1) * (both + 2 * COPY);
        let expected = Nanos(COUNT as u64 * both + fill_and_drain);
        assert_eq!(trace.metrics().elapsed(), expected, "{order:?}");
    }
    Ok(())
}

/// Pairs of events give each operation the end that the engines give it, on both devices.
#[test]
fn the_devices_of_a_trace_have_one_clock() -> Result<()> {
    let [pairs, engines] = [TimesFrom::Events, TimesFrom::Activity]
        .map(|from| four_engines(config(), (2, Between::Dropped), from));
    let (pairs, engines) = (pairs?, engines?);
    let of = |run: &Traced| -> Vec<Vec<u64>> {
        let all =
            [(0, Engine::Upload), (0, Engine::Peer), (1, Engine::Compute), (1, Engine::Download)];
        let spans = all.map(|(device, engine)| run.spans(device, engine));
        spans.into_iter().map(|list| list.iter().map(|span| span.end).collect()).collect()
    };
    assert_eq!(of(&pairs), of(&engines));
    Ok(())
}

/// A kernel and a copy of its result to the other device take turns. With one buffer the next
/// kernel waits for the copy, so every copy is exposed. With two buffers the next kernel runs at
/// the start of the copy, and the rest of the copy is exposed.
#[test]
fn communication_that_no_kernel_hides_is_reported_exactly() -> Result<()> {
    for buffers in [1, 2] {
        let devices = Device::host(config())?;
        let (kernels, copies) = (devices[0].stream()?, devices[0].stream()?);
        let input = kernels.alloc_zeroed::<f32>(LEN)?;
        let mut results = [kernels.alloc::<f32>(LEN)?, kernels.alloc(LEN)?];
        let mut arrived = devices[1].stream()?.alloc::<f32>(LEN)?;
        let run = traced(&devices, TimesFrom::Activity, || {
            (0..COUNT).try_for_each(|turn| {
                let result = &mut results[turn % buffers];
                kernels.launch(&AFFINE_F32, (1.0, 1.0, &input, &mut *result))?;
                copies.copy(&*result, &mut arrived)
            })
        })?;
        let count = COUNT as u64;
        let hidden = if buffers == 1 { 0 } else { (count - 1) * KERNEL };
        let (busy, exposed) = (Nanos(count * COPY), Nanos(count * COPY - hidden));
        let metrics = run.metrics();
        assert_eq!(metrics.communication, Exposure { busy, exposed }, "{buffers} buffers");
        assert_eq!(
            (metrics.exposed_copy, metrics.hidden),
            (Nanos(0), None),
            "nothing else is copied"
        );
        assert_eq!(metrics.devices[0].communication, metrics.communication);
    }
    Ok(())
}
