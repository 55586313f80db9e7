//! A model in two halves on two GPUs: layers 0 to 5 on one GPU, layers 6 to 11 on the other.
//!
//! Micro-batches go through both halves. While the second GPU computes one, the first GPU computes
//! the next, and copies between the GPUs run at the same time. The waits between copies and kernels
//! follow from the memory that they use. On one device the results are the same.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::training::{LayerPipeline, MicroBatchOrder};
use trijet::{Device, Result, Stream, View, ViewMut};

const COUNT: usize = 16;
const LEN: usize = 20_011;
/// The number of layers of a half.
const LAYERS: usize = 6;
/// Layer k computes `SCALE[k % 2] * x + k`. The layers do not commute.
const SCALE: [f32; 2] = [2.0, 1.0];

fn half(s: &Stream, first: usize, x: View<'_, f32>, y: ViewMut<'_, f32>) -> Result<()> {
    let layer = |at: usize| (SCALE[at % 2], (first + at) as f32);
    let mut between = s.alloc(LEN)?;
    s.launch(&AFFINE_F32, (layer(0).0, layer(0).1, x, &mut between))?;
    for at in 1..LAYERS - 1 {
        let mut next = s.alloc(LEN)?;
        s.launch(&AFFINE_F32, (layer(at).0, layer(at).1, &between, &mut next))?;
        between = next;
    }
    s.launch(&AFFINE_F32, (layer(LAYERS - 1).0, layer(LAYERS - 1).1, &between, y))
}

fn example(devices: &[Device]) -> Outcome<String> {
    let halves = [devices[0].clone(), devices[devices.len() - 1].clone()];
    let (first, last) = (halves[0].stream()?, halves[1].stream()?);
    let inputs = first.upload(&(0..COUNT * LEN).map(sample).collect::<Vec<f32>>())?;
    let mut outputs = last.alloc::<f32>(COUNT * LEN)?;
    let mut pipeline = LayerPipeline::new(&halves, &[LEN], MicroBatchOrder::Forward, COUNT)?;
    pipeline.run(|work| {
        let part = work.micro_batch * LEN..(work.micro_batch + 1) * LEN;
        let x = work.input.unwrap_or_else(|| inputs.slice(part.clone()));
        let y = work.output.unwrap_or_else(|| outputs.slice_mut(part));
        half(work.stream, work.stage * LAYERS, x, y)
    })?;
    let want = |i| (0..2 * LAYERS).fold(sample(i), |x, k| SCALE[k % 2] * x + k as f32);
    verify("outputs", &last.download(&outputs)?, want)?;
    let waits = 100.0 * MicroBatchOrder::bubble(2, COUNT);
    Ok(format!(
        "{COUNT} micro-batches through halves on {} devices; each waits {waits:.1} % of the time, if halves are equal",
        devices.len()
    ))
}

fn main() -> ExitCode {
    run(example)
}
