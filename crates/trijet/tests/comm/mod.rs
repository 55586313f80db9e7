//! Collectives: each device gets the result that one device would compute, in the promised order.

use trijet::Uses;
use trijet::comm::Communicator;
use trijet::graph::Recording;
use trijet::kernels::{AFFINE_F32, AXPY, Max, Reduction, Sum};
use trijet::testing::Prng;
use trijet::training::{BucketPlan, GradientBuckets, Transport};
use trijet::{Buffer, Bytes, Device, Result, Stream};

/// Combines segment `k` of the values of all devices, in the order of the devices, starting with
/// device `k`.
fn in_order<T: Copy>(values: &[Vec<T>], combine: impl Fn(T, T) -> T) -> Vec<T> {
    let (count, len) = (values.len(), values[0].len());
    let (each, more) = (len / count, len % count);
    let mut result = Vec::new();
    for segment in 0..count {
        let begin = each * segment + more.min(segment);
        let end = begin + each + usize::from(segment < more);
        result.extend((begin..end).map(|at| {
            let order = (0..count).map(|turn| values[(segment + turn) % count][at]);
            order.reduce(&combine).expect("a device")
        }));
    }
    result
}

fn upload<T: trijet::Element>(devices: &[Device], values: &[Vec<T>]) -> Result<Vec<Buffer<T>>> {
    devices.iter().zip(values).map(|(device, values)| device.stream()?.upload(values)).collect()
}

/// Several reductions one after another without a wait, then a comparison of the results.
fn all_reduce<R: Reduction<f32> + Copy>(
    devices: &[Device],
    (len, rounds): (usize, usize),
    how: R,
    combine: fn(f32, f32) -> f32,
    seed: u64,
) -> Result<()> {
    let communicator = Communicator::builder().devices(devices).open()?;
    let mut draw = Prng::new(seed);
    let mut all = Vec::new();
    for _ in 0..rounds {
        // The numbers have different sizes, so that their sums depend on the order.
        let mut number = || {
            let size = usize::try_from(draw.below(3)).expect("few");
            draw.below(1 << 20) as f32 * [1.0, 1e-3, 1e5][size]
        };
        let values: Vec<Vec<f32>> =
            devices.iter().map(|_| (0..len).map(|_| number()).collect()).collect();
        let mut data = upload(devices, &values)?;
        let mut views: Vec<_> = data.iter_mut().map(|one| one.view_mut()).collect();
        communicator.all_reduce(&mut views, how)?;
        all.push((values, data));
    }
    for (values, data) in all {
        let expected = in_order(&values, combine);
        for (place, (device, data)) in devices.iter().zip(&data).enumerate() {
            let found = device.stream()?.download(data)?;
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let count = devices.len();
            assert!(bits(&found) == bits(&expected), "device {place} of {count}, {len} elements");
        }
    }
    Ok(())
}

/// The bits of the sums on each device show the promised order, and so do the bits of the maxima.
pub(crate) fn results_are_those_of_the_promised_order(
    devices: &[Device],
    lengths: &[usize],
) -> Result<()> {
    for (seed, len) in (1..).zip(lengths) {
        all_reduce(devices, (*len, 2), Sum, |a, b| a + b, seed)?;
        all_reduce(devices, (*len, 1), Max, f32::max, seed)?;
    }
    Ok(())
}

/// The parameters of a model on each device, and their gradients.
struct Training {
    weights: Vec<Vec<Buffer<f32>>>,
    gradients: GradientBuckets<f32, Sum>,
}

const LENS: [usize; 4] = [1000, 37, 4096, 1];

impl Training {
    fn new(devices: &[Device], transport: Transport) -> Result<Self> {
        let mut gradients = GradientBuckets::new(devices, &LENS, Sum)?;
        let (first, rest) = (Bytes(100), Bytes(5000));
        gradients.set_plan(BucketPlan { transport, first, rest })?;
        let of_device = |device: &Device| -> Result<Vec<_>> {
            let stream = device.stream()?;
            let layer =
                |len: usize| stream.upload(&(0..len).map(|at| at as f32).collect::<Vec<_>>());
            LENS.into_iter().map(layer).collect()
        };
        Ok(Self { weights: devices.iter().map(of_device).collect::<Result<_>>()?, gradients })
    }

    /// One step: gradients that depend on the weights and on the rank, the sums of the gradients,
    /// and new weights.
    fn step(&mut self, streams: &[Stream]) -> Result<()> {
        step(&mut self.weights, &mut self.gradients, streams)
    }

    /// Records a whole step as one graph of the first device.
    fn record(&mut self, devices: &[Device]) -> Result<trijet::graph::Graph> {
        let Self { weights, gradients } = self;
        devices[0].record(|g: &Recording| {
            let streams = devices.iter().map(|device| g.stream_on(device));
            let streams = streams.collect::<Result<Vec<_>>>()?;
            weights.iter().flatten().try_for_each(|layer| g.argument(layer))?;
            gradients.record(g, |gradients| step(weights, gradients, &streams))
        })
    }

    fn launch(&mut self, stream: &Stream, graph: &mut trijet::graph::Graph) -> Result<()> {
        let weights = self.weights.iter_mut().flatten();
        let all = weights.fold(Uses::new(), |all, layer| all.write(layer.view_mut()));
        stream.launch_graph(graph, self.gradients.arguments(all))
    }

    fn bits(&self, devices: &[Device]) -> Result<Vec<u32>> {
        let mut all = Vec::new();
        for (device, layers) in devices.iter().zip(&self.weights) {
            for layer in layers {
                all.extend(device.stream()?.download(layer)?.into_iter().map(f32::to_bits));
            }
        }
        Ok(all)
    }
}

fn step(
    weights: &mut [Vec<Buffer<f32>>],
    gradients: &mut GradientBuckets<f32, Sum>,
    streams: &[Stream],
) -> Result<()> {
    gradients.begin()?;
    for layer in (0..LENS.len()).rev() {
        for (rank, stream) in streams.iter().enumerate() {
            let gradient = gradients.gradient_mut(rank, layer);
            let (a, b) = (0.37 + rank as f32 / 7.0, layer as f32 - 1.5);
            stream.launch(&AFFINE_F32, (a, b, &weights[rank][layer], gradient))?;
        }
        gradients.ready(layer)?;
    }
    gradients.finish()?;
    for &layer in gradients.order() {
        for (rank, stream) in streams.iter().enumerate() {
            let gradient = gradients.gradient(rank, layer);
            stream.launch(&AXPY, (-0.013_f32, gradient, &mut weights[rank][layer]))?;
        }
    }
    Ok(())
}

/// Launches of a graph with one step give the same bits as steps that are enqueued one operation
/// after another.
pub(crate) fn an_iteration_as_one_graph_equals_eager_ones(
    devices: &[Device],
    steps: usize,
    transport: Transport,
) -> Result<()> {
    let streams = devices.iter().map(Device::stream).collect::<Result<Vec<_>>>()?;
    let (mut eager, mut replayed) =
        (Training::new(devices, transport)?, Training::new(devices, transport)?);
    let mut graph = replayed.record(devices)?;
    for number in 0..steps {
        eager.step(&streams)?;
        replayed.launch(&streams[0], &mut graph)?;
        if number % 97 == 0 {
            assert!(eager.bits(devices)? == replayed.bits(devices)?, "step {number}");
        }
    }
    let bits = eager.bits(devices)?;
    assert!(bits == replayed.bits(devices)?, "after {steps} steps");
    assert!(bits.iter().any(|bits| *bits != bits_of_start(bits)), "the weights changed");
    Ok(())
}

/// Rounds a weight to a whole number. Weights are whole numbers before the first step.
fn bits_of_start(bits: &u32) -> u32 {
    f32::from_bits(*bits).round().to_bits()
}
