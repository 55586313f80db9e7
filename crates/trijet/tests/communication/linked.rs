//! Collectives on host devices: results, orders, races and refusals.

use crate::common::{checked, demand_clean};
use crate::{collectives, comm};
use std::panic::{AssertUnwindSafe, catch_unwind};
use trijet::comm::Communicator;
use trijet::graph::Recording;
use trijet::kernels::{AFFINE_F32, Reduction, Sum};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, Prng};
use trijet::trace::{Engine, Op};
use trijet::training::{
    BucketPlan, Direction, GradientBuckets, LayerPipeline, MicroBatchOrder, Transport,
};
use trijet::{Bytes, Device, ErrorKind, Result, Stream, View, ViewMut};

/// A reduction that copies `part` over `total`. It panics for three elements.
#[derive(Debug, Clone, Copy)]
struct Part;

impl<const BYTES: usize> Reduction<[u8; BYTES]> for Part {
    const IDENTITY: [u8; BYTES] = [0; BYTES];

    fn combine(
        stream: &Stream,
        part: View<'_, [u8; BYTES]>,
        mut total: ViewMut<'_, [u8; BYTES]>,
    ) -> Result<()> {
        assert_ne!(part.len(), 3, "on purpose");
        stream.copy(&part, &mut total)
    }
}

fn devices(devices: u32, executor: Executor) -> Result<Vec<Device>> {
    let config = HostConfig::new().executor(executor).devices(devices);
    checked(config)
}

#[test]
fn results_are_those_of_the_promised_order_on_two_to_eight_devices() -> Result<()> {
    for count in 1..=8 {
        let mut draw = Prng::new(u64::from(count));
        // Fewer elements than devices, parts of different lengths, none at all, and more than a
        // chunk.
        let mut lengths = vec![0, 1, 2, 7, 64, 1000];
        lengths.extend((0..10).map(|_| usize::try_from(draw.below(300)).expect("few")));
        let long = 2 * (1 << 20) + 5;
        lengths.extend((count == 2).then_some(long));
        let order = Order::Seeded(u64::from(count));
        let devices = devices(count, Executor::Virtual(order))?;
        comm::results_are_those_of_the_promised_order(&devices, &lengths)?;
        demand_clean(&devices[0]);
    }
    Ok(())
}

#[test]
fn results_are_the_same_on_threads() -> Result<()> {
    let devices = devices(4, Executor::Threads)?;
    comm::results_are_those_of_the_promised_order(&devices, &[3, 100, 5000])?;
    demand_clean(&devices[0]);
    Ok(())
}

#[test]
fn every_collective_gives_what_each_device_must_have() -> Result<()> {
    for count in 1..=8 {
        let order = Order::Seeded(u64::from(count));
        let devices = devices(count, Executor::Virtual(order))?;
        let communicator = Communicator::builder().devices(&devices).open()?;
        for (seed, len) in (0..).zip([0, 1, 7, 64, 129, 1000]) {
            collectives::all::<f32>(&communicator, &devices, len, seed)?;
        }
        demand_clean(&devices[0]);
    }
    Ok(())
}

#[test]
fn minima_and_maxima_of_floats_do_not_depend_on_the_place() -> Result<()> {
    for count in 2..=5 {
        let devices = devices(count, Executor::Virtual(Order::Seeded(u64::from(count))))?;
        collectives::extremes::follow_the_rule(
            &Communicator::builder().devices(&devices).open()?,
            &devices,
        )?;
    }
    let devices = devices(4, Executor::Threads)?;
    collectives::extremes::follow_the_rule(
        &Communicator::builder().devices(&devices).open()?,
        &devices,
    )
}

/// Each part communicates independently.
#[test]
fn parts_are_communicators() -> Result<()> {
    for seed in 0..20 {
        let mut draw = Prng::new(seed);
        let mut below = |limit: u64| usize::try_from(draw.below(limit)).expect("few");
        let count = 1 + u32::try_from(below(6)).expect("few");
        let devices = devices(count, Executor::Virtual(Order::Seeded(seed)))?;
        let numbers: Vec<u32> =
            devices.iter().map(|_| u32::try_from(below(3)).expect("few")).collect();
        let communicator = Communicator::builder().devices(&devices).open()?;
        let parts = communicator.split(&numbers)?;
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(parts.len(), distinct.len());
        for (part, number) in parts.iter().zip(distinct) {
            let own = devices.iter().zip(&numbers).filter(|(_, one)| **one == number);
            let own: Vec<Device> = own.map(|(device, _)| device.clone()).collect();
            collectives::all::<f32>(part, &own, 40, seed)?;
        }
        assert!(communicator.split(&[]).is_err());
        demand_clean(&devices[0]);
    }
    Ok(())
}

/// The program enqueues work in its own streams before and after the communication. The order is
/// kept.
#[test]
fn the_work_of_the_program_is_ordered_with_the_communication() -> Result<()> {
    for seed in 0..30 {
        let devices = devices(3, Executor::Virtual(Order::Seeded(seed)))?;
        let communicator = Communicator::builder().devices(&devices).open()?;
        let streams: Vec<_> = devices.iter().map(Device::stream).collect::<Result<_>>()?;
        let mut data = Vec::new();
        for stream in &streams {
            data.push(stream.alloc::<u32>(50)?);
        }
        for round in 0..3 {
            for (value, (stream, one)) in (1..).zip(streams.iter().zip(&mut data)) {
                stream.fill(one, value << round)?;
            }
            let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
            communicator.all_reduce(&mut views, Sum)?;
            for (stream, one) in streams.iter().zip(&data) {
                assert_eq!(stream.download(one)?, [6 << round; 50]);
            }
        }
        demand_clean(&devices[0]);
    }
    Ok(())
}

/// A missing wait is a race between two devices, and the checker names it.
#[test]
fn a_missing_wait_is_found() -> Result<()> {
    let mut found = 0;
    for number in 1..=6 {
        let devices = devices(2, Executor::Virtual(Order::Greedy))?;
        let communicator = Communicator::builder().devices(&devices).open()?;
        let mut data = Vec::new();
        for device in &devices {
            data.push(device.stream()?.upload(&[1_u32; 40])?);
        }
        testing::drop_wait(&devices[0], number);
        let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
        communicator.all_reduce(&mut views, Sum)?;
        for (device, one) in devices.iter().zip(&data) {
            device.stream()?.download(one)?;
        }
        let verdict = devices[0].verdict().expect("it is checked");
        found += u32::from(!verdict.findings.is_empty());
    }
    assert_eq!(found, 6, "each wait is needed");
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let told = |error: trijet::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        error.to_string()
    };
    let twice = [devices[0].clone(), devices[0].clone()];
    assert!(
        told(Communicator::builder().devices(&twice).open().expect_err("twice"))
            .contains("is given twice")
    );
    assert!(
        told(Communicator::builder().devices(&[]).open().expect_err("none"))
            .contains("list of devices is empty")
    );
    let communicator = Communicator::builder().devices(&devices).open()?;
    let (mut x, mut y) = (devices[0].stream()?.alloc::<f32>(4)?, devices[1].stream()?.alloc(5)?);
    let one = communicator.all_reduce(&mut [x.view_mut()], Sum);
    assert!(told(one.expect_err("one view")).contains("1 views for 2 devices"));
    let lengths = communicator.all_reduce(&mut [x.view_mut(), y.view_mut()], Sum);
    assert!(told(lengths.expect_err("lengths")).contains("view 1 has 5 elements, but needs 4"));
    let turned = communicator.all_reduce(&mut [y.slice_mut(..4), x.view_mut()], Sum);
    assert!(told(turned.expect_err("turned")).contains("view 0 is not in the memory of"));
    Ok(())
}

/// If there is no memory for the received data, the call returns an error, and the devices stay
/// usable.
#[test]
fn no_room_for_what_arrives_is_an_error() -> Result<()> {
    let config = HostConfig::new().devices(2).memory(Bytes(64 << 20));
    let devices = Device::host(config)?;
    let communicator = Communicator::builder().devices(&devices).open()?;
    let stream = |at: usize| devices[at].stream();
    let (mut x, mut y) = (stream(0)?.alloc::<u32>(15 << 20)?, stream(1)?.alloc(15 << 20)?);
    let outcome = communicator.all_reduce(&mut [x.view_mut(), y.view_mut()], Sum);
    assert_eq!(outcome.expect_err("4 MiB are left of 64").kind(), ErrorKind::OutOfMemory);
    drop((x, y));
    let (mut x, mut y) = (stream(0)?.upload(&[1_u32; 9])?, stream(1)?.upload(&[2_u32; 9])?);
    communicator.all_reduce(&mut [x.view_mut(), y.view_mut()], Sum)?;
    assert_eq!(stream(1)?.download(&y)?, [3; 9]);
    Ok(())
}

/// NCCL runs on GPUs only, and the error names the transports that need no GPU.
#[test]
fn a_host_device_has_no_nccl() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let error = Communicator::builder()
        .devices(&devices)
        .nccl()
        .open()
        .expect_err("these are host devices");
    assert_eq!(error.kind(), ErrorKind::NoTwin);
    assert!(error.to_string().contains("a communicator without `nccl()` needs no NCCL"), "{error}");
    Ok(())
}

/// For every plan and every order in which gradients become ready, each device has the sums, and
/// all accesses are in order.
#[test]
fn gradients_are_summed_in_buckets_of_any_size_and_in_any_order() -> Result<()> {
    for seed in 0..40 {
        let mut draw = Prng::new(seed);
        let mut below = |limit: u64| usize::try_from(draw.below(limit)).expect("few");
        let count = 1 + u32::try_from(below(4)).expect("few");
        let devices = devices(count, Executor::Virtual(Order::Seeded(seed)))?;
        let streams: Vec<_> = devices.iter().map(Device::stream).collect::<Result<_>>()?;
        let lens: Vec<usize> = (0..1 + below(12)).map(|_| 1 + below(60)).collect();
        let mut gradients = GradientBuckets::<u32, _>::new(&devices, &lens, Sum)?;
        for step in 0..4_u32 {
            if below(2) == 0 {
                let (first, rest) = (Bytes(below(300) as u64), Bytes(below(300) as u64));
                gradients.set_plan(BucketPlan { transport: Transport::Copies, first, rest })?;
            }
            let mut order: Vec<usize> = (0..lens.len()).collect();
            (1..order.len()).for_each(|at| order.swap(at, below(at as u64 + 1)));
            gradients.begin()?;
            for &gradient in &order {
                for (rank, stream) in streams.iter().enumerate() {
                    let value = u32::try_from(gradient * 100 + rank).expect("small") + step;
                    stream.fill(&mut gradients.gradient_mut(rank, gradient), value)?;
                }
                gradients.ready(gradient)?;
            }
            gradients.finish()?;
            for &gradient in gradients.order() {
                let of_rank = |rank| u32::try_from(gradient * 100).expect("small") + rank + step;
                let sum = (0..count).map(of_rank).sum::<u32>();
                for (rank, stream) in streams.iter().enumerate() {
                    let found = stream.download(&gradients.gradient(rank, gradient))?;
                    assert_eq!(found, vec![sum; lens[gradient]], "seed {seed}, step {step}");
                }
            }
            gradients.begin()?;
            assert_eq!(gradients.order(), order, "seed {seed}: the order of the last step");
        }
        demand_clean(&devices[0]);
    }
    Ok(())
}

/// The communication of the first bucket does not wait for the kernels that compute later
/// gradients.
#[test]
fn a_bucket_is_summed_while_later_gradients_are_computed() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let streams = [devices[0].stream()?, devices[1].stream()?];
    let mut gradients = GradientBuckets::<u32, _>::new(&devices, &[64; 6], Sum)?;
    let bytes = Bytes(256);
    gradients.set_plan(BucketPlan { transport: Transport::Copies, first: bytes, rest: bytes })?;
    assert_eq!(gradients.buckets(), 6);
    devices[0].start_trace(&streams[0])?;
    for layer in (0..6).rev() {
        for (rank, stream) in streams.iter().enumerate() {
            stream.fill(&mut gradients.gradient_mut(rank, layer), 1)?;
        }
        gradients.ready(layer)?;
    }
    gradients.finish()?;
    devices.iter().try_for_each(Device::synchronize)?;
    let ops = devices[0].take_trace()?.ops;
    let of = |engine: Engine| ops.iter().filter(move |op| op.engine == engine);
    let writes = |op: &&Op| op.label.starts_with("fill");
    assert_eq!(of(Engine::Compute).filter(writes).count(), 12, "two devices write six gradients");
    let hidden = of(Engine::Peer).filter(|copy| {
        of(Engine::Compute).filter(writes).any(|write| match (&copy.times, &write.times) {
            (Some(copy), Some(write)) => copy.begin < write.end && write.begin < copy.end,
            _ => false,
        })
    });
    assert!(hidden.count() > 0, "no copy runs while a later gradient is written: {ops:#?}");
    Ok(())
}

#[test]
fn steps_that_are_not_whole_are_refused() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let told = |outcome: Result<()>| {
        let error = outcome.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        error.to_string()
    };
    let new = |lens: &[usize]| GradientBuckets::<u32, _>::new(&devices, lens, Sum);
    assert!(
        told(new(&[]).map(|_| ())).contains("the list of gradients is empty; give at least one")
    );
    assert!(told(new(&[4, 0]).map(|_| ())).contains("gradient 1 is empty"));
    let mut gradients = new(&[5, 6, 7])?;
    for (rank, device) in devices.iter().enumerate() {
        for layer in 0..3 {
            device.stream()?.fill(&mut gradients.gradient_mut(rank, layer), 3)?;
        }
    }
    gradients.ready(1)?;
    assert!(told(gradients.ready(1)).contains("gradient 1 is ready twice"));
    assert!(told(gradients.finish()).contains("gradients 0, 2 are not ready"));
    assert!(told(gradients.begin()).contains("within another step"));
    assert!(told(gradients.set_plan(BucketPlan::default())).contains("within a step"));
    gradients.ready(0)?;
    gradients.ready(2)?;
    gradients.finish()?;
    assert_eq!(devices[1].stream()?.download(&gradients.gradient(1, 2))?, [6; 7]);
    let plan = BucketPlan { transport: Transport::Nccl, ..BucketPlan::default() };
    let error = gradients.set_plan(plan).expect_err("these are host devices");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let times = gradients.tune(&[plan, BucketPlan::default()], |gradients| {
        gradients.begin()?;
        (0..3).try_for_each(|gradient| gradients.ready(gradient))?;
        gradients.finish()
    })?;
    assert_eq!(times.len(), 1, "NCCL is left out");
    assert!(gradients.tune(&[plan], |_| Ok(())).is_err());
    Ok(())
}

/// Stage `s` computes `y = a x + s` in the forward pass, and the gradient `a g` in the backward
/// pass. The results are the same as on one device.
fn pass_layers(
    devices: &[Device],
    (order, count): (MicroBatchOrder, usize),
    rounds: usize,
) -> Result<()> {
    const LEN: usize = 40;
    let stages = devices.len();
    let factor = |stage: usize| [2.0_f32, 0.5, 3.0, 1.0][stage % 4];
    let lens = vec![LEN; stages - 1];
    let mut pipeline = LayerPipeline::new(devices, &lens, order, count)?;
    let start: Vec<f32> = (0..LEN * count).map(|at| (at % 17) as f32).collect();
    let [first, last] = [0, stages - 1].map(|at| devices[at].stream());
    let (first, last) = (first?, last?);
    let inputs = first.upload(&start)?;
    let mut results = last.alloc_zeroed::<f32>(LEN * count)?;
    let mut gradients = first.alloc_zeroed::<f32>(LEN * count)?;
    for _ in 0..rounds {
        pipeline.run(|work| {
            let (a, stage) = (factor(work.stage), work.stage as f32);
            let part = work.micro_batch * LEN..(work.micro_batch + 1) * LEN;
            let (x, y) = match work.direction {
                Direction::Forward => {
                    (work.input.or(Some(inputs.slice(part.clone()))), results.slice_mut(part))
                }
                // The gradient of the last stage is its input.
                Direction::Backward => {
                    let begin = work.input.or(Some(inputs.slice(part.clone())));
                    (work.gradient.or(begin), gradients.slice_mut(part))
                }
            };
            let add = if work.direction == Direction::Forward { stage } else { 0.0 };
            let x = x.expect("an input");
            work.stream.launch(&AFFINE_F32, (a, add, x, work.output.unwrap_or(y)))
        })?;
    }
    let forward = |x: f32, upto: usize| (0..upto).fold(x, |x, s| factor(s) * x + s as f32);
    let expected: Vec<f32> = start.iter().map(|x| forward(*x, stages)).collect();
    assert_eq!(last.download(&results)?, expected, "{order:?}, {stages} stages, {count}");
    if order != MicroBatchOrder::Forward {
        let back = |x: f32| (0..stages).rev().fold(forward(x, stages - 1), |g, s| factor(s) * g);
        let expected: Vec<f32> = start.iter().map(|x| back(*x)).collect();
        assert_eq!(first.download(&gradients)?, expected, "{order:?}, {stages} stages, {count}");
    }
    Ok(())
}

#[test]
fn layers_on_several_devices_compute_what_one_device_computes() -> Result<()> {
    for (stages, count) in (1..=4).flat_map(|stages| [1, 2, 3, 7].map(|count| (stages, count))) {
        for order in [MicroBatchOrder::Forward, MicroBatchOrder::FillDrain, MicroBatchOrder::InTurn]
        {
            let drawn = Order::Seeded(u64::from(stages) * 100 + count as u64);
            let devices = devices(stages, Executor::Virtual(drawn))?;
            pass_layers(&devices, (order, count), 2)?;
            demand_clean(&devices[0]);
        }
    }
    let eight = devices(8, Executor::Virtual(Order::Seeded(8)))?;
    pass_layers(&eight, (MicroBatchOrder::InTurn, 19), 1)?;
    demand_clean(&eight[0]);
    let one = devices(1, Executor::Threads)?;
    pass_layers(&[one[0].clone(), one[0].clone()], (MicroBatchOrder::InTurn, 5), 3)?;
    demand_clean(&one[0]);
    Ok(())
}

/// A slot is written only after it was read, and a stage starts only after its input has arrived.
#[test]
fn each_wait_of_a_layer_pipeline_is_needed() -> Result<()> {
    let mut missed = Vec::new();
    let waits = {
        let devices = devices(2, Executor::Virtual(Order::Greedy))?;
        let before = devices[0].ordering().waits;
        pass_layers(&devices, (MicroBatchOrder::InTurn, 4), 1)?;
        devices[0].ordering().waits - before
    };
    assert!(waits > 8, "{waits}");
    for number in 1..=waits {
        let devices = devices(2, Executor::Virtual(Order::Greedy))?;
        testing::drop_wait(&devices[0], number);
        // Without a wait the results can be wrong; the function panics then.
        let run = || pass_layers(&devices, (MicroBatchOrder::InTurn, 4), 1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let verdict = devices[0].verdict().expect("it is checked");
        if verdict.findings.is_empty() {
            missed.push((number, outcome.is_ok(), testing::dropped_wait(&devices[0])));
        }
    }
    assert!(missed.is_empty(), "of {waits} waits: {missed:?}");
    Ok(())
}

#[test]
fn an_error_of_a_stage_names_it_and_the_pipeline_stays_usable() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let refused = |lens: &[usize], count| {
        let error = LayerPipeline::<f32>::new(&devices, lens, MicroBatchOrder::Forward, count);
        error.expect_err("it is refused").to_string()
    };
    assert!(refused(&[], 2).contains("0 lengths for 2 stages; 1 are needed"));
    assert!(refused(&[0], 2).contains("a length is 0"));
    assert!(refused(&[3], 0).contains("the number of micro-batches"));
    let mut pipeline = LayerPipeline::<f32>::new(&devices, &[3], MicroBatchOrder::Forward, 2)?;
    let fails = pipeline.run(|work| match (work.stage, work.micro_batch, work.output) {
        (1, 1, _) => work.stream.launch(
            &AFFINE_F32,
            (0.0, 0.0, work.input.expect("stage 1"), work.stream.alloc(5)?.view_mut()),
        ),
        (_, _, Some(mut output)) => work.stream.fill(&mut output, 1.0),
        _ => Ok(()),
    });
    let error = fails.expect_err("3 elements into 5").to_string();
    assert!(error.contains("stage 1, micro-batch 1, forward"), "{error}");
    pass_layers(&devices, (MicroBatchOrder::FillDrain, 3), 1)
}

#[test]
fn an_iteration_of_several_devices_as_one_graph_equals_eager_ones() -> Result<()> {
    for count in 1..=8 {
        let order = Order::Seeded(u64::from(count));
        let devices = devices(count, Executor::Virtual(order))?;
        comm::an_iteration_as_one_graph_equals_eager_ones(&devices, 20, Transport::Copies)?;
        demand_clean(&devices[0]);
    }
    let devices = devices(2, Executor::Threads)?;
    comm::an_iteration_as_one_graph_equals_eager_ones(&devices, 1000, Transport::Copies)?;
    demand_clean(&devices[0]);
    Ok(())
}

/// A missing edge between two devices is a race within the graph, and the graph is refused.
#[test]
fn a_missing_edge_between_devices_of_a_graph_is_refused() -> Result<()> {
    let mut refused = 0;
    for number in 1..=12 {
        let devices = devices(2, Executor::Virtual(Order::Greedy))?;
        let communicator = Communicator::builder().devices(&devices).open()?;
        let mut data = Vec::new();
        for device in &devices {
            data.push(device.stream()?.upload(&[1_u32; 40])?);
        }
        let outcome = devices[0].record(|g| {
            data.iter().try_for_each(|one| g.argument(one))?;
            g.drop_edge(number);
            let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
            communicator.recorded(g)?.all_reduce(&mut views, Sum)
        });
        refused += u32::from(outcome.is_err());
    }
    // From each copy to a kernel, and from each kernel to a copy back.
    assert_eq!(refused, 4, "each edge is needed");
    Ok(())
}

#[test]
fn a_step_that_is_recorded_is_whole() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let mut gradients = GradientBuckets::<u32, _>::new(&devices, &[5, 6], Sum)?;
    let outcome = devices[0].record(|g| gradients.record(g, |gradients| gradients.ready(1)));
    let error = outcome.expect_err("gradient 0 is not ready").to_string();
    assert!(error.contains("did not call `finish`"), "{error}");
    for gradient in [0, 1] {
        gradients.ready(gradient)?;
    }
    gradients.finish()?;
    let outcome = devices[0].record(|g| gradients.record(g, |_| Ok(())));
    let error = outcome.expect_err("the order is another one").to_string();
    assert!(error.contains("and then `begin`"), "{error}");
    gradients.begin()?;
    devices[0].record(|g| gradients.record(g, |_| Ok(())))?;
    Ok(())
}

/// Work that is enqueued after the panic must run. It must not be added to the recording that has
/// ended.
#[test]
fn gradients_are_summed_after_a_panic_or_another_plan_in_a_recorded_step() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let mut gradients = GradientBuckets::<u32, _>::new(&devices, &[3, 4], Sum)?;
    let sums = |gradients: &mut GradientBuckets<u32, Sum>| -> Result<Vec<u32>> {
        gradients.begin()?;
        for layer in [1, 0] {
            for (rank, device) in devices.iter().enumerate() {
                device.stream()?.fill(&mut gradients.gradient_mut(rank, layer), 1)?;
            }
            gradients.ready(layer)?;
        }
        gradients.finish()?;
        devices[1].stream()?.download(&gradients.gradient(1, 0))
    };
    let panics = |gradients: &mut GradientBuckets<u32, Sum>| -> Result<()> {
        gradients.ready(1)?;
        panic!("on purpose")
    };
    let record = || devices[0].record(|g| gradients.record(g, panics));
    assert!(catch_unwind(AssertUnwindSafe(record)).is_err());
    assert_eq!(sums(&mut gradients)?, [2; 3]);
    let plan = BucketPlan { first: Bytes(1), rest: Bytes(1), ..BucketPlan::default() };
    devices[0].record(|g| gradients.record(g, |gradients| gradients.set_plan(plan)))?;
    assert_eq!(sums(&mut gradients)?, [2; 3]);
    Ok(())
}

/// If the step went on after the panic, the bucket whose combination ended early would be combined
/// twice, or not at all.
#[test]
fn a_step_with_a_combination_that_panicked_is_given_up() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let mut gradients = GradientBuckets::<[u8; 1], _>::new(&devices, &[4, 6], Part)?;
    gradients.set_plan(BucketPlan { first: Bytes(1), rest: Bytes(1), ..BucketPlan::default() })?;
    let ready = || gradients.ready(1);
    assert!(catch_unwind(AssertUnwindSafe(ready)).is_err(), "half of 6 elements are 3");
    for outcome in [gradients.ready(0), gradients.finish()] {
        let error = outcome.expect_err("the step is not whole");
        assert!(error.to_string().contains("`begin` starts another step"), "{error}");
    }
    gradients.begin()?;
    gradients.ready(0)
}

/// If an element has more than 16 MiB, not even one fits into a chunk of that size.
#[test]
fn elements_larger_than_a_chunk_are_combined() -> Result<()> {
    const BYTES: usize = (16 << 20) + 1;
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let communicator = Communicator::builder().devices(&devices).open()?;
    let mut data = Vec::new();
    for (device, value) in devices.iter().zip([1, 2]) {
        let stream = device.stream()?;
        let mut one = stream.alloc::<[u8; BYTES]>(4)?;
        stream.fill_bytes(&mut one, value)?;
        data.push(one);
    }
    let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
    communicator.all_reduce(&mut views, Part)?;
    // The combination of segment `k` starts with the value of device `k`, which overwrites the
    // value of the other device.
    for (device, one) in devices.iter().zip(&data) {
        let found = device.stream()?.download(one)?;
        let found: Vec<u8> = found.iter().map(|one| one[BYTES - 1]).collect();
        assert_eq!(found, [1, 1, 2, 2]);
    }
    Ok(())
}

#[test]
fn an_operation_that_moves_to_another_device_makes_another_graph() -> Result<()> {
    let devices = devices(2, Executor::Virtual(Order::Greedy))?;
    let (x, mut y) = (devices[0].stream()?.upload(&[1_u32; 9])?, devices[1].stream()?.alloc(9)?);
    let mut copy = |g: &Recording, device: &Device| {
        g.argument(&x)?;
        g.argument(&y)?;
        g.stream_on(device)?.copy(&x, &mut y)
    };
    let mut graph = devices[0].record(|g| copy(g, &devices[1]))?;
    devices[0].record_again(&mut graph, |g| copy(g, &devices[1]))?;
    let moved = devices[0].record_again(&mut graph, |g| copy(g, &devices[0]));
    let error = moved.expect_err("the copy is in a stream of the other device").to_string();
    assert!(error.contains("operation 0: it is in another stream"), "{error}");
    Ok(())
}
