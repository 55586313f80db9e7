//! A loader that uploads the next batches while a batch is consumed. No batch is lost.
//!
//! The loader is at most `DEPTH` batches ahead. The consumer works on another stream. It waits for
//! each upload, and the free of a batch waits for it (law A22), without explicit events. Dropping
//! the loader frees the batches that are left. All counts and all early stops are tried.

mod common;

use common::{Outcome, run, sample, verify};
use std::collections::VecDeque;
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Buffer, Device, Result, Stream};

const DEPTH: usize = 2;
const LEN: usize = 5_003;

fn load(device: &Device, upload: &Stream, k: usize) -> Result<Buffer<f32>> {
    let mut staging = device.pinned::<f32>(LEN)?;
    staging.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(k + i));
    let mut batch = upload.alloc(LEN)?;
    upload.copy(&staging, &mut batch)?;
    Ok(batch)
}

/// The items of `loads` in order. Up to `DEPTH` items are loaded before they are needed.
fn prefetch<T>(mut loads: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut ready = VecDeque::new();
    std::iter::from_fn(move || {
        ready.extend(loads.by_ref().take(DEPTH - ready.len()));
        ready.pop_front()
    })
}

fn example(device: &Device) -> Outcome<String> {
    let (upload, compute) = (device.stream()?, device.stream()?);
    let (mut runs, mut consumed) = (0, 0);
    for (count, stop) in (0..=5).flat_map(|count| (0..=count).map(move |stop| (count, stop))) {
        let mut outputs = Vec::new();
        for batch in prefetch((0..count).map(|k| load(device, &upload, k))).take(stop) {
            let (mut y, mut output) = (compute.alloc(LEN)?, device.pinned(LEN)?);
            compute.launch(&AFFINE_F32, (2.0, 3.0, &batch?, &mut y))?;
            compute.copy(&y, &mut output)?;
            outputs.push(output);
        }
        verify("batches", &[outputs.len()], |_| stop)?;
        for (k, output) in outputs.iter().enumerate() {
            verify(&format!("batch {k}"), &output.read()?, |i| 2.0 * sample(k + i) + 3.0)?;
        }
        device.synchronize()?;
        verify("bytes left", &[device.memory_stats()?.used.0], |_| 0)?;
        (runs, consumed) = (runs + 1, consumed + stop);
    }
    Ok(format!("{consumed} batches in order over {runs} runs, none lost, 0 B left"))
}

fn main() -> ExitCode {
    run(example)
}
