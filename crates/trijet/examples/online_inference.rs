//! Online requests over background work: an urgent stream and one that has no hurry.
//!
//! All background work is enqueued at the start. Each request is enqueued on the urgent stream. If
//! both streams have kernels, a GPU prefers the urgent ones (law A43). The host waits only for the
//! answer. The streams share no memory, so neither waits for the other. Every request gets its
//! answer, in order, and the background work is complete in the end.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::{Buffer, Device, PinnedBuffer, Readiness, Stream, StreamOptions};

const REQUESTS: usize = 50;
const LEN: usize = 2_048;
const STEPS: usize = 200;
/// The number of background elements, for a host device and for a GPU, which must stay busy.
const BACKGROUND: [usize; 2] = [100_003, 16_000_003];

/// Computes `3 * x + 1` for a request, and combines it with a model that stays on the device.
fn answer(s: &Stream, model: &Buffer<f32>, h: &mut PinnedBuffer<f32>, n: usize) -> Outcome<()> {
    h.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(n + i));
    let (mut x, mut y) = (s.alloc(LEN)?, s.alloc(LEN)?);
    s.copy(&*h, &mut x)?;
    s.launch(&AFFINE_F32, (3.0, 1.0, &x, &mut y))?;
    s.launch(&AXPY, (2.0, model, &mut y))?;
    s.copy(&y, h)?;
    let want = |i| 3.0 * sample(n + i) + 1.0 + 2.0 * sample(i);
    verify(&format!("answer {n}"), &h.read()?, want) // waits for this copy only
}

fn example(device: &Device) -> Outcome<String> {
    let (patient, urgent) = device.info().priorities;
    let with = |priority| device.stream_with(StreamOptions::new().priority(priority));
    let (background, online) = (with(patient)?, with(urgent)?);
    let len = BACKGROUND[usize::from(device.info().compute.0 > 0)];
    let ones = background.upload(&vec![1.0_f32; len])?;
    let mut sums = background.alloc_zeroed::<f32>(len)?;
    let model = online.upload(&(0..LEN).map(sample).collect::<Vec<f32>>())?;
    // Loading a kernel, and freeing page-locked memory, may wait for running work (laws A42, A24).
    device.load(&AFFINE_F32).and(device.load(&AXPY))?;
    let mut h = device.pinned::<f32>(LEN)?;
    let before = device.ordering().waits;
    (0..STEPS).try_for_each(|n| background.launch(&AXPY, (n as f32, &ones, &mut sums)))?;
    let mut beside = 0;
    for request in 0..REQUESTS {
        answer(&online, &model, &mut h, request)?;
        beside += usize::from(background.query()? == Readiness::NotReady);
    }
    verify("waits between streams", &[device.ordering().waits - before], |_| 0)?;
    let total = (STEPS * (STEPS - 1) / 2) as f32;
    verify("background", &background.download(&sums)?, |_| total)?;
    Ok(format!("{REQUESTS} answers in order, {beside} of them before the background work ended"))
}

fn main() -> ExitCode {
    run(example)
}
