//! A capture of two streams, as a framework makes it. The capture is lost if the second stream does
//! not join the first one at the end.
//!
//! A graph of `Device::record` needs no join: its edges follow from the memory that its operations
//! use.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AXPY;
use trijet::testing::{Capture, CaptureMode, Captured};
use trijet::{Buffer, Device, Result, Stream};

const N: usize = 20_000;

/// A stream that belongs to another library, which may capture it.
fn theirs(device: &Device) -> Result<Stream> {
    let stream = device.stream()?;
    // SAFETY: the stream moves into its owner. The buffers live as long as the graph, and nothing
    // else uses them while it runs.
    unsafe { device.stream_from_raw(stream.as_raw(), stream) }
}

/// Captures additions to two sums, each in its own stream.
fn capture(
    [a, b]: &[Stream; 2],
    x: &Buffer<f32>,
    [y, z]: &mut [Buffer<f32>; 2],
    joins: bool,
) -> Result<Captured> {
    let capture = Capture::begin(a, CaptureMode::ThreadLocal)?;
    a.launch(&AXPY, (1.0, x, &mut *y))?;
    capture.fork(b)?;
    b.launch(&AXPY, (2.0, x, z))?;
    a.launch(&AXPY, (1.0, x, y))?;
    if joins {
        capture.join(b)?;
    }
    capture.end()
}

fn example(device: &Device) -> Outcome<String> {
    let (s, both) = (device.stream()?, [theirs(device)?, theirs(device)?]);
    let x = s.upload(&(0..N).map(sample).collect::<Vec<_>>())?;
    let mut sums = [s.alloc_zeroed::<f32>(N)?, s.alloc_zeroed::<f32>(N)?];
    let lost = capture(&both, &x, &mut sums, false).expect_err("the second stream never joins");
    let graph = capture(&both, &x, &mut sums, true)?;
    // SAFETY: see `theirs`.
    (0..3).try_for_each(|_| unsafe { graph.launch(&both[0]) })?;
    both[0].synchronize()?;
    sums.iter().try_for_each(|sum| verify("sums", &s.download(sum)?, |i| 6.0 * sample(i)))?;
    Ok(format!("3 launches with a join, and without one error {}", lost.code().unwrap_or(0)))
}

fn main() -> ExitCode {
    run(example)
}
