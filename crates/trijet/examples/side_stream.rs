//! Work on a side stream, like a block `with stream:` in a Python framework.
//!
//! Such a block needs two waits: the side stream waits for its inputs, and the caller's stream
//! waits for the results. Here both follow from the buffers. An error in the block has no other
//! effect: memory of the block is freed in stream order, and the caller continues.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::{Buffer, Device, ErrorKind, Result, Stream};

const LEN: usize = 300_007;
const ROUNDS: usize = 6;

/// Runs `block` on a new stream, which is dropped at the end, even after an error.
fn on_side_stream<T>(device: &Device, block: impl FnOnce(&Stream) -> Result<T>) -> Result<T> {
    block(&device.stream()?.named("side"))
}

/// Computes `2 x + 1`. In some rounds it returns an error, as user code may do.
fn prepare(side: &Stream, x: &Buffer<f32>, round: usize) -> Result<Buffer<f32>> {
    let mut y = side.alloc::<f32>(x.len())?;
    side.launch(&AFFINE_F32, (2.0, 1.0, x, &mut y))?;
    if round % 3 == 2 {
        return Err(trijet::Error::new(ErrorKind::InvalidValue, "prepare", "a bad batch"));
    }
    Ok(y)
}

fn example(device: &Device) -> Outcome<String> {
    let main = device.stream()?;
    let mut failed = 0;
    for round in 0..ROUNDS {
        let (mut input, mut output) = (device.pinned::<f32>(LEN)?, device.pinned::<f32>(LEN)?);
        input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(round + i));
        let mut x = main.alloc::<f32>(LEN)?;
        main.copy(&input, &mut x)?;
        // The side stream waits for the upload, and `main` for `y`, without a call here.
        match on_side_stream(device, |side| prepare(side, &x, round)) {
            Ok(y) => main.launch(&AXPY, (1.0, &y, &mut x))?,
            Err(error) if error.kind() == ErrorKind::InvalidValue => failed += 1,
            Err(error) => return Err(error.into()),
        }
        main.copy(&x, &mut output)?;
        let (factor, offset) = if round % 3 == 2 { (1.0, 0.0) } else { (3.0, 1.0) };
        let expected = |i| factor * sample(round + i) + offset;
        verify(&format!("round {round}"), &output.read()?, expected)?;
    }
    device.synchronize()?;
    verify("bytes left", &[device.memory_stats()?.used.0], |_| 0)?;
    Ok(format!("{ROUNDS} rounds, {failed} with an error in the block, nothing left behind"))
}

fn main() -> ExitCode {
    run(example)
}
