//! Gradients of two GPUs are summed while kernels compute the next gradients.
//!
//! Each sum starts when both GPUs have computed a gradient. The update of a layer waits only for
//! the sum of its gradients. CUDA programs record an event before and after each sum. Here both
//! orders follow from the uses of the data.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::comm::Communicator;
use trijet::kernels::{AFFINE_F32, AXPY, Sum};
use trijet::{Buffer, Device, Result};

const LAYERS: usize = 8;
const LEN: usize = 30_011;

fn example(devices: &[Device]) -> Outcome<String> {
    let streams = devices.iter().map(Device::stream).collect::<Result<Vec<_>>>()?;
    let communicator = Communicator::builder().devices(devices).open()?;
    let start: Vec<f32> = (0..LEN).map(sample).collect();
    let upload = |_| streams.iter().map(|s| s.upload(&start)).collect::<Result<Vec<_>>>();
    // For each layer and device, the weights and the gradients.
    let mut weights = (0..LAYERS).map(upload).collect::<Result<Vec<_>>>()?;
    let mut gradients: Vec<Vec<Buffer<f32>>> = (0..LAYERS).map(upload).collect::<Result<_>>()?;
    let before = devices[0].ordering().waits;
    for layer in (0..LAYERS).rev() {
        for (rank, stream) in streams.iter().enumerate() {
            let (scale, add) = (1.0 + rank as f32, layer as f32);
            let (weight, gradient) = (&weights[layer][rank], &mut gradients[layer][rank]);
            stream.launch(&AFFINE_F32, (scale, add, weight, gradient))?;
        }
        let mut views: Vec<_> = gradients[layer].iter_mut().map(|one| one.view_mut()).collect();
        communicator.all_reduce(&mut views, Sum)?;
    }
    for layer in (0..LAYERS).rev() {
        for (rank, stream) in streams.iter().enumerate() {
            stream.launch(&AXPY, (-0.5_f32, &gradients[layer][rank], &mut weights[layer][rank]))?;
        }
    }
    let waits = devices[0].ordering().waits - before;
    for (layer, weights) in weights.iter().enumerate() {
        let sum = |x: f32| (1..=devices.len()).map(|n| n as f32 * x + layer as f32).sum::<f32>();
        for (stream, weights) in streams.iter().zip(weights) {
            verify("weights", &stream.download(weights)?, |i| sample(i) - 0.5 * sum(sample(i)))?;
        }
    }
    Ok(format!("{LAYERS} sums over {} devices, {waits} waits", devices.len()))
}

fn main() -> ExitCode {
    run(example)
}
