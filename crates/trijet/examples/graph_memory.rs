//! A graph with its own memory, a graph within it, and values that change between launches.
//!
//! Memory that a stream of a recording allocates belongs to the graph. A graph that is launched in
//! a recording becomes a part of the recorded graph. The work is recorded again for new values,
//! which changes two kernels in place and allocates nothing.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::graph::{Graph, Recording};
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::{Buffer, Device, Result, Uses};

const N: usize = 30_011;
const STEPS: usize = 9;

/// `y = 0.5 * x + 1`, through a buffer that belongs to the graph.
fn gradient(g: &Recording, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<()> {
    g.argument(x)?;
    g.argument(y)?;
    let s = g.stream()?;
    let mut scaled = s.alloc::<f32>(N)?;
    s.launch(&AFFINE_F32, (0.5, 0.0, x, &mut scaled))?;
    s.launch(&AFFINE_F32, (1.0, 1.0, &scaled, y))
}

/// The arguments of `step`, which computes `w += size * gradient(x)` twice.
type Step<'a> = (&'a mut Graph, f32, &'a Buffer<f32>, &'a mut Buffer<f32>);
fn step(g: &Recording, (part, size, x, w): Step<'_>) -> Result<()> {
    g.argument(x)?;
    g.argument(w)?;
    let s = g.stream()?;
    (0..2).try_for_each(|_| {
        let mut y = s.alloc::<f32>(N)?;
        s.launch_graph(part, Uses::new().read(x).update(&mut y))?;
        s.launch(&AXPY, (size, &y, &mut *w))
    })
}

fn example(device: &Device) -> Outcome<String> {
    let s = device.stream()?;
    let x = s.upload(&(0..N).map(|i| 2.0 * sample(i)).collect::<Vec<_>>())?;
    let (mut w, mut y, mut sum) = (s.alloc_zeroed::<f32>(N)?, s.alloc::<f32>(N)?, 0.0);
    let mut part = device.record(|g| gradient(g, &x, &mut y))?;
    let mut graph = device.record(|g| step(g, (&mut part, 1.0, &x, &mut w)))?;
    for size in (0..STEPS).map(|n| 1.0 + (n / 3) as f32) {
        device.record_again(&mut graph, |g| step(g, (&mut part, size, &x, &mut w)))?;
        s.launch_graph(&mut graph, Uses::new().read(&x).update(&mut w))?;
        sum += 2.0 * size;
    }
    verify("weights", &s.download(&w)?, |i| sum * (sample(i) + 1.0))?;
    Ok(format!("{STEPS} launches of {} operations, with step sizes 1 to 3", graph.len()))
}

fn main() -> ExitCode {
    run(example)
}
