//! Scratch memory for batches of different lengths, while another lane works on.
//!
//! A batch allocates memory for its tokens and frees it, in stream order (laws A21, A22). So the
//! peak is the memory of the two batches in flight. No stream waits for an allocation: on a
//! simulated GPU, the uploads of another stream follow each other without a gap.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Device, Nanos};

const TOKENS: [usize; 10] = [512, 1024, 64, 300, 2048, 17, 700, 1, 1024, 90];
const WIDTH: usize = 64;
/// Bytes of scratch memory for the longest two neighbours, and for two of the longest batches.
const PEAK: u64 = 4 * WIDTH as u64 * (300 + 2048);
const MOST: u64 = 4 * WIDTH as u64 * (2048 + 2048);

/// The time of the second upload, and the time from its start to the end of the last upload.
fn batches(device: &Device) -> Outcome<[Nanos; 2]> {
    let (other, lanes) = (device.stream()?, [device.stream()?, device.stream()?]);
    let prompt = lanes[0].upload(&(0..2048 * WIDTH).map(sample).collect::<Vec<f32>>())?;
    let (locked, mut rows) =
        (device.pinned::<u8>(4 << 20)?, device.pinned::<f32>(TOKENS.len() * WIDTH)?);
    let (mut weights, mut scratch) = (other.alloc(locked.len())?, [None, None]);
    let [begin, one, end] = [device.timed_event()?, device.timed_event()?, device.timed_event()?];
    device.synchronize()?;
    let held = device.memory_stats()?.used.0;
    for (n, tokens) in TOKENS.into_iter().enumerate() {
        other.copy(&locked, &mut weights)?;
        [&begin, &one, &end][n.min(2)].record(&other)?;
        let (s, len) = (&lanes[n % 2], tokens * WIDTH);
        scratch[n % 2] = None; // frees the memory of batch n - 2
        let y = scratch[n % 2].insert(s.alloc::<f32>(len)?);
        s.launch(&AFFINE_F32, (3.0, n as f32, prompt.slice(..len), &mut *y))?;
        s.copy(&y.slice(len - WIDTH..), &mut rows.slice_mut(WIDTH * n..WIDTH * (n + 1)))?;
    }
    end.synchronize()?;
    let at = |i: usize| (TOKENS[i / WIDTH] - 1) * WIDTH + i % WIDTH;
    verify("last rows", &rows.read()?, |i| 3.0 * sample(at(i)) + (i / WIDTH) as f32)?;
    let peak = device.memory_stats()?.used_high.0 - held;
    verify("waits between streams, and peak", &[device.ordering().waits, peak], |i| [0, PEAK][i])?;
    Ok([one.elapsed_since(&begin)?, end.elapsed_since(&begin)?])
}

fn example(device: &Device) -> Outcome<String> {
    let executor = Executor::Virtual(Order::Greedy);
    let gpu = Device::host(HostConfig::new().executor(executor))?.remove(0);
    batches(device)?;
    let [one, all] = batches(&gpu)?;
    verify("time of uploads", &[all.0], |_| (TOKENS.len() - 1) as u64 * one.0)?;
    Ok(format!("peak {PEAK} B of scratch, not {MOST} B; uploads {all} (simulated), without a gap"))
}

fn main() -> ExitCode {
    run(example)
}
