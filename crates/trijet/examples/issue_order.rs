//! Chunks on several streams, issued depth first (chunk by chunk) or breadth first (step by step).
//!
//! In both orders the steps of a chunk follow each other in its stream (law A1), so the bytes are
//! the same. The device decides which streams overlap (law A3). The buffers are allocated in
//! another stream, so the streams wait for the allocation, but not for each other.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Device, Result, Stream};

const STREAMS: usize = 4;
const CHUNK: usize = 30_000;
const CHUNKS: usize = 11;
const N: usize = CHUNK * (CHUNKS - 1) + 17;

/// Maps the number of an issue to the `(step, chunk)` that is issued.
type Order = fn(usize) -> (usize, usize);
const DEPTH_FIRST: Order = |n| (n % 3, n / 3);
const BREADTH_FIRST: Order = |n| (n / CHUNKS, n % CHUNKS);

/// The result, and the number of waits between streams that the library inserted.
fn issue(device: &Device, order: Order) -> Outcome<(Vec<f32>, u64)> {
    let streams: Vec<Stream> = (0..STREAMS).map(|_| device.stream()).collect::<Result<_>>()?;
    let (mut input, mut output) = (device.pinned::<f32>(N)?, device.pinned(N)?);
    input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(i));
    let maker = device.stream()?;
    let (mut x, mut y) = (maker.alloc(N)?, maker.alloc(N)?);
    let before = device.ordering().waits;
    for (step, chunk) in (0..3 * CHUNKS).map(order) {
        let s = &streams[chunk % STREAMS];
        let range = CHUNK * chunk..(CHUNK * (chunk + 1)).min(N);
        match step {
            0 => s.copy(&input.slice(range.clone()), &mut x.slice_mut(range))?,
            1 => {
                let (from, to) = (x.slice(range.clone()), y.slice_mut(range));
                s.launch(&AFFINE_F32, (3.0, 1.0, from, to))?;
            }
            _ => s.copy(&y.slice(range.clone()), &mut output.slice_mut(range))?,
        }
    }
    let waits = device.ordering().waits - before;
    Ok((output.read()?.to_vec(), waits))
}

fn example(device: &Device) -> Outcome<String> {
    let (deep, deep_waits) = issue(device, DEPTH_FIRST)?;
    let (broad, broad_waits) = issue(device, BREADTH_FIRST)?;
    verify("depth first", &deep, |i| 3.0 * sample(i) + 1.0)?;
    verify("breadth first", &broad, |i| deep[i])?;
    Ok(format!("{CHUNKS} chunks on {STREAMS} streams, {deep_waits} and {broad_waits} waits"))
}

fn main() -> ExitCode {
    run(example)
}
