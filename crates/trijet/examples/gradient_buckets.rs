//! A training step on two GPUs as one graph. A layer is updated after the sum of its bucket.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY, Sum};
use trijet::training::{BucketPlan, GradientBuckets};
use trijet::{Buffer, Bytes, Device, Result, Stream, Uses};

const LENS: [usize; 5] = [3000, 10, 7001, 4096, 512];
type Weights = [Vec<Buffer<f32>>];
type Gradients = GradientBuckets<f32, Sum>;

fn step(weights: &mut Weights, gradients: &mut Gradients, streams: &[Stream]) -> Result<()> {
    for layer in (0..LENS.len()).rev() {
        for (rank, s) in streams.iter().enumerate() {
            let (weight, gradient) = (&weights[rank][layer], gradients.gradient_mut(rank, layer));
            s.launch(&AFFINE_F32, (1.0, rank as f32, weight, gradient))?;
        }
        gradients.ready(layer)?;
    }
    gradients.finish()?;
    gradients.order().iter().try_for_each(|&layer| {
        let on = |(rank, s): (usize, &Stream)| {
            s.launch(&AXPY, (-0.5, gradients.gradient(rank, layer), &mut weights[rank][layer]))
        };
        streams.iter().enumerate().try_for_each(on)
    })
}

fn example(devices: &[Device]) -> Outcome<String> {
    let streams = devices.iter().map(Device::stream).collect::<Result<Vec<_>>>()?;
    let start: Vec<f32> = (0..7001).map(sample).collect();
    let of = |s: &Stream| LENS.iter().map(|len| s.upload(&start[..*len])).collect();
    let mut weights: Vec<Vec<_>> = streams.iter().map(of).collect::<Result<_>>()?;
    let mut gradients = Gradients::new(devices, &LENS, Sum)?;
    gradients.set_plan(BucketPlan { rest: Bytes(20_000), ..BucketPlan::default() })?;
    let mut graph = devices[0].record(|g| {
        weights.iter().flatten().try_for_each(|layer| g.argument(layer))?;
        let on: Result<Vec<_>> = devices.iter().map(|one| g.stream_on(one)).collect();
        gradients.record(g, |gradients| step(&mut weights, gradients, &on?))
    })?;
    for _ in 0..3 {
        let all = weights.iter_mut().flatten().map(Buffer::view_mut);
        let all = gradients.arguments(all.fold(Uses::new(), Uses::write));
        streams[0].launch_graph(&mut graph, all)?;
    }
    let sum = |w: f32| (0..devices.len()).map(|rank| w + rank as f32).sum::<f32>();
    let want = |i| (0..3).fold(sample(i), |w, _| w - 0.5 * sum(w));
    for (at, layer) in weights.iter().flatten().enumerate() {
        verify("weights", &streams[at / LENS.len()].download(layer)?, want)?;
    }
    Ok(format!("3 steps of {} operations", graph.len()))
}

fn main() -> ExitCode {
    run(example)
}
