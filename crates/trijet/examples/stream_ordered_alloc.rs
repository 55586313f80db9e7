//! Each batch allocates scratch memory of the size that it needs, from the heap of the device.
//!
//! A freed buffer is allocated again in the order of its users, without a call of the driver.
//! Unused memory may return to the device at every synchronization (law A25); `keep_memory` sets
//! the amount that is kept. So no memory is reserved after the first round of sizes, and no memory
//! is in use at the end.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::{Bytes, Device, Stream};

/// The numbers of elements of the batches, used in turn. The longest batch comes early.
const LENGTHS: [usize; 4] = [70_001, 262_144, 1, 131_072];
const ROUNDS: usize = 5;

/// Computes `2 * (3 * x + 1) + x`. The term in brackets is in scratch memory.
fn batch(device: &Device, s: &Stream, len: usize) -> Outcome<()> {
    let mut h = device.pinned::<f32>(len)?;
    h.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(i));
    let mut y = s.alloc(len)?;
    s.copy(&h, &mut y)?;
    let mut scratch = s.alloc(len)?;
    s.launch(&AFFINE_F32, (3.0, 1.0, &y, &mut scratch))?;
    s.launch(&AXPY, (2.0, &scratch, &mut y))?;
    s.copy(&y, &mut h)?;
    drop((scratch, y)); // enqueues the frees; does not block
    s.synchronize()?; // a pool that keeps nothing would return its memory here
    verify("batch", &h.read()?, |i| 2.0 * (3.0 * sample(i) + 1.0) + sample(i))
}

fn example(device: &Device) -> Outcome<String> {
    device.keep_memory(Bytes(u64::MAX))?;
    let s = device.stream()?;
    let mut reserved = Vec::new();
    for _ in 0..ROUNDS {
        for len in LENGTHS {
            batch(device, &s, len)?;
        }
        reserved.push(device.memory_stats()?.reserved);
    }
    verify("reserved after round", &reserved, |_| reserved[0])?;
    let full = device.memory_stats()?;
    device.trim_memory(Bytes(0))?;
    let trimmed = device.memory_stats()?;
    verify("used, then reserved after the trim", &[full.used, trimmed.reserved], |_| Bytes(0))?;
    let batches = ROUNDS * LENGTHS.len();
    let (kept, high) = (full.reserved, full.used_high);
    Ok(format!("{batches} batches, {kept} reserved in every round, {high} used at most, then 0 B"))
}

fn main() -> ExitCode {
    run(example)
}
