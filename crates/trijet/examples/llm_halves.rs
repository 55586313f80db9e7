//! A model in two halves: layers 0 to 5 on one stream, and layers 6 to 11 on another.
//!
//! Two buffers carry the activations of micro-batches from the first half to the second. The second
//! half waits until a buffer is written. The first half waits until the buffer was read before it
//! writes the buffer again. The waits follow from the buffers. On one stream there are no waits.

mod common;

use common::{Outcome, run, sample, verify};
use std::ops::Range;
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Buffer, Device, Result, Stream};

const COUNT: usize = 12;
const SLOTS: usize = 2;
const LEN: usize = 20_011;
/// Layer k computes `SCALE[k] * x + k`. The layers do not commute.
const SCALE: [f32; 12] = [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0];

fn half(s: &Stream, mut layers: Range<usize>, x: Buffer<f32>) -> Result<Buffer<f32>> {
    layers.try_fold(x, |x, layer| {
        let mut y = s.alloc(LEN)?;
        s.launch(&AFFINE_F32, (SCALE[layer], layer as f32, &x, &mut y)).map(|()| y)
    })
}

/// The results, and the number of waits between streams that the library inserted.
fn model(device: &Device, first: &Stream, second: &Stream) -> Outcome<(Vec<Vec<f32>>, u64)> {
    let mut slots = [first.alloc(LEN)?, first.alloc(LEN)?];
    let inputs = (0..COUNT).map(|n| (0..LEN).map(|i| sample(n + i)).collect::<Vec<f32>>());
    let inputs = inputs.map(|input| first.upload(&input)).collect::<Result<Vec<_>>>()?;
    let (before, mut outputs) = (device.ordering().waits, Vec::new());
    for (n, x) in inputs.into_iter().enumerate() {
        first.copy(&half(first, 0..6, x)?, &mut slots[n % SLOTS])?;
        let mut x = second.alloc(LEN)?;
        second.copy(&slots[n % SLOTS], &mut x)?;
        outputs.push(half(second, 6..12, x)?);
    }
    let waits = device.ordering().waits - before;
    Ok((outputs.iter().map(|y| second.download(y)).collect::<Result<_>>()?, waits))
}

fn example(device: &Device) -> Outcome<String> {
    let (first, second) = (device.stream()?, device.stream()?);
    let (serial, none) = model(device, &first, &first)?;
    let (halves, edges) = model(device, &first, &second)?;
    verify("waits", &[none, edges], |i| [0, (COUNT + COUNT - SLOTS) as u64][i])?;
    verify("micro-batches", &halves, |n| serial[n].clone())?;
    for (n, y) in halves.iter().enumerate() {
        let want = |i| (0..12).fold(sample(n + i), |x, layer| SCALE[layer] * x + layer as f32);
        verify(&format!("micro-batch {n}"), y, want)?;
    }
    Ok(format!("{COUNT} micro-batches through 2 halves as on one stream, {edges} waits"))
}

fn main() -> ExitCode {
    run(example)
}
