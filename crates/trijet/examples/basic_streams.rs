//! Five kernels on two streams, and host work between the launches.
//!
//! A stream runs its kernels in the order of the launches (law A1). Two streams may overlap or not
//! (law A3). A launch returns before its kernel has run, so the host computes the expected values
//! meanwhile. The maps do not commute, so a wrong order changes the result.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::{Buffer, Device, Readiness, Result, Stream};

const N: usize = 300_007;

fn apply(s: &Stream, k: (f32, f32), from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result<()> {
    s.launch(&AFFINE_F32, (k.0, k.1, from, to))
}

/// The expected values. The host computes them while the streams work.
fn cpu(maps: &[(f32, f32)]) -> Vec<f32> {
    let chain = |x| maps.iter().fold(x, |x, (scale, offset)| scale * x + offset);
    (0..N).map(|i| chain(sample(i))).collect()
}

fn example(device: &Device) -> Outcome<String> {
    let (s1, s2) = (device.stream()?, device.stream()?);
    let [ker_1, ker_b, ker_3] = [(2.0, 1.0), (3.0, 2.0), (5.0, 3.0)];
    let [ker_a, ker_2] = [(7.0, 4.0), (4.0, 7.0)];
    let mut h = device.pinned::<f32>(N)?;
    h.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(i));
    let (mut x1, mut y1) = (s1.alloc(N)?, s1.alloc(N)?);
    let (mut x2, mut y2) = (s2.alloc(N)?, s2.alloc(N)?);
    s1.copy(&h, &mut x1)?;
    s2.copy(&h, &mut x2)?;

    apply(&s1, ker_1, &x1, &mut y1)?;
    let want_1 = cpu(&[ker_1, ker_b, ker_3]);
    apply(&s2, ker_a, &x2, &mut y2)?;
    apply(&s1, ker_b, &y1, &mut x1)?;
    apply(&s2, ker_2, &y2, &mut x2)?;
    let want_2 = cpu(&[ker_a, ker_2]);
    apply(&s1, ker_3, &x1, &mut y1)?;
    let busy = [s1.query()?, s2.query()?].iter().filter(|r| **r == Readiness::NotReady).count();

    let (mut out_1, mut out_2) = (device.pinned(N)?, device.pinned(N)?);
    s1.copy(&y1, &mut out_1)?;
    s2.copy(&x2, &mut out_2)?;
    verify("stream 1", &out_1.read()?, |i| want_1[i])?;
    verify("stream 2", &out_2.read()?, |i| want_2[i])?;
    Ok(format!("5 kernels on 2 streams of {N} elements; {busy} busy after the last launch"))
}

fn main() -> ExitCode {
    run(example)
}
