//! A step of work on two streams, recorded once and launched many times, with other memory each
//! time.
//!
//! The recorded operations do not run. The edges follow from the bytes that they use: both kernels
//! follow the upload, and the sum follows both. A launch is one operation of a stream (law A31).
//! All other uses of its memory are ordered with it, so the host may fill the other buffer
//! meanwhile.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::{Device, PinnedBuffer, Uses};

const N: usize = 20_011;
const STEPS: usize = 12;

fn example(device: &Device) -> Outcome<String> {
    let s = device.stream()?;
    let pinned = || device.pinned::<f32>(N);
    let (mut inputs, mut outputs) = ([pinned()?, pinned()?], [pinned()?, pinned()?]);
    let (mut x, mut y, mut z) = (s.alloc::<f32>(N)?, s.alloc::<f32>(N)?, s.alloc::<f32>(N)?);
    let mut graph = device.record(|g| {
        g.argument(&inputs[0])?;
        g.argument(&outputs[0])?;
        [&x, &y, &z].into_iter().try_for_each(|scratch| g.argument(scratch))?;
        let (a, b) = (g.stream()?, g.stream()?);
        a.copy(&inputs[0], &mut x)?;
        a.launch(&AFFINE_F32, (3.0, 1.0, &x, &mut y))?;
        b.launch(&AFFINE_F32, (5.0, 0.0, &x, &mut z))?;
        a.launch(&AXPY, (2.0, &z, &mut y))?;
        a.copy(&y, &mut outputs[0])
    })?;
    let check = |step: usize, output: &PinnedBuffer<f32>| -> Outcome<()> {
        let x = |i| sample(step + i);
        verify(&format!("step {step}"), &output.read()?, |i| 3.0 * x(i) + 1.0 + 2.0 * (5.0 * x(i)))
    };
    for step in 0..STEPS {
        let (input, output) = (&mut inputs[step % 2], &mut outputs[step % 2]);
        if step >= 2 {
            check(step - 2, output)?; // waits for the launch before the last
        }
        input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(step + i));
        let arguments = Uses::new().read(&*input).write(&mut *output);
        let scratch = arguments.write(&mut x).write(&mut y).write(&mut z);
        s.launch_graph(&mut graph, scratch)?;
    }
    (STEPS - 2..STEPS).try_for_each(|step| check(step, &outputs[step % 2]))?;
    let nodes = graph.len();
    Ok(format!("{STEPS} launches of {nodes} operations on two streams, with two inputs in turn"))
}

fn main() -> ExitCode {
    run(example)
}
