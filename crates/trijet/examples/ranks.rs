//! Several processes, each with a device, train one model. Without a launcher there is one process.
//! A launcher: `torchrun --no-python --nproc_per_node 2 target/release/examples/ranks cuda:0`

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use trijet::kernels::{AFFINE_F32, AXPY, Sum};
use trijet::ranks::{LauncherRank, Ranks};
use trijet::training::GradientBuckets;
use trijet::{Device, Result};

const LAYERS: usize = 4;
const LEN: usize = 10_007;
const STEPS: usize = 3;
/// If a rank ends, or is late by this time, the others end with an error that names the rank.
const TIMEOUT: Duration = Duration::from_secs(60);

fn example(devices: &[Device]) -> Outcome<String> {
    let launch = LauncherRank::of_environment()?;
    let ranks = match &launch {
        Some(launch) => launch.join(TIMEOUT)?,
        None => Ranks::join(0, 1, "127.0.0.1:29500", TIMEOUT)?,
    };
    let (rank, ranks) = (ranks.rank(), Arc::new(ranks));
    let local = launch.and_then(|launch| launch.local).unwrap_or(rank);
    let device = &devices[local % devices.len()];
    let stream = device.stream()?;
    let start: Vec<f32> = (0..LEN).map(sample).collect();
    let mut weights = (0..LAYERS).map(|_| stream.upload(&start)).collect::<Result<Vec<_>>>()?;
    let mut gradients = GradientBuckets::of_rank(device, &ranks, &[LEN; LAYERS], Sum)?;
    for _ in 0..STEPS {
        gradients.begin()?;
        for layer in (0..LAYERS).rev() {
            // Each rank has other data, so its gradient differs.
            let (scale, add) = (1.0 + rank as f32, layer as f32);
            let gradient = gradients.gradient_mut(0, layer);
            stream.launch(&AFFINE_F32, (scale, add, &weights[layer], gradient))?;
            gradients.ready(layer)?;
        }
        gradients.finish()?;
        for &layer in gradients.order() {
            let gradient = gradients.gradient(0, layer);
            stream.launch(&AXPY, (-0.125_f32, gradient, &mut weights[layer]))?;
        }
    }
    for (layer, weights) in weights.iter().enumerate() {
        let sum = |x| (1..=ranks.count()).map(|n| n as f32 * x + layer as f32).sum::<f32>();
        let want = |i| (0..STEPS).fold(sample(i), |x, _| x - 0.125 * sum(x));
        verify("weights", &stream.download(weights)?, want)?;
    }
    Ok(format!("rank {rank} of {}: {STEPS} steps of {LAYERS} layers", ranks.count()))
}

fn main() -> ExitCode {
    run(example)
}
