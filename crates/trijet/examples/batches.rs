//! Batches on three streams in turn: allocate, upload, compute, download, free.
//!
//! Each batch stays in one stream, which orders all its steps (law A1), including the allocation
//! and the free (laws A21, A22). Parts of a buffer that do not overlap need no order. So the
//! library inserts no wait between streams, and the host waits once, for the result. When it does,
//! freed memory above a threshold goes back to the driver (law A25).

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Bytes, Device, Stream};

const STREAMS: usize = 3;
const BATCH: usize = 65_536;
const N: usize = 500_009;

fn example(device: &Device) -> Outcome<String> {
    device.keep_memory(Bytes(64 << 20))?;
    let streams: Vec<Stream> = (0..STREAMS).map(|_| device.stream()).collect::<Result<_, _>>()?;
    let mut input = device.pinned::<f32>(N)?;
    let mut output = device.pinned::<f32>(N)?;
    input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(i));
    let before = device.ordering().waits;
    let starts: Vec<usize> = (0..N).step_by(BATCH).collect();
    for (start, s) in starts.iter().zip(streams.iter().cycle()) {
        let range = *start..(start + BATCH).min(N);
        let len = range.end - range.start;
        let (mut x, mut y) = (s.alloc(len)?, s.alloc(len)?);
        s.copy(&input.slice(range.clone()), &mut x)?;
        s.launch(&AFFINE_F32, (3.0, 1.0, &x, &mut y))?;
        s.copy(&y, &mut output.slice_mut(range))?;
    }
    let waits = device.ordering().waits - before;
    verify("waits between streams", &[waits], |_| 0)?;
    for (k, batch) in output.read()?.chunks(BATCH).enumerate() {
        verify(&format!("batch {k}"), batch, |i| 3.0 * sample(BATCH * k + i) + 1.0)?;
    }
    device.synchronize()?;
    verify("bytes still allocated", &[device.memory_stats()?.used.0], |_| 0)?;
    let (count, last) = (starts.len(), N % BATCH);
    Ok(format!("{count} batches on {STREAMS} streams, the last one of {last}, {waits} waits"))
}

fn main() -> ExitCode {
    run(example)
}
