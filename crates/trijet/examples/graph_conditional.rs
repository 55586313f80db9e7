//! A graph clips gradients: the device halves them as long as their norm is too large.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::graph::Recording;
use trijet::kernels::{AFFINE_F32, Code, Cost, KernelSpec, Read, Shape, Tile, Twin, Write};
use trijet::{Buffer, Device, Kernel, LaunchConfig, Result, Uses};

const N: usize = 3000;
const CODE: &str = r#"typedef unsigned long long u64;
extern "C" __global__ void is_large(const float* x, u64 n, unsigned* y, u64 m) {
    float sum = 0; for (u64 i = 0; i < n; i++) sum += x[i] * x[i];
    for (u64 i = 0; i < m; i++) y[i] = sum > 1e6; }"#;
static IS_LARGE: Kernel<(Read<f32>, Write<u32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        tile.write::<u32>(2).fill(u32::from(norm(tile.read::<f32>(0)) > 1e6));
    };
    let twin = Twin { tile_elements: |_| 1, run, cost: |_| Cost { bytes: 4 * N as u64, ops: 0 } };
    let spec = KernelSpec::new("is_large", Code::source(CODE), Shape::Given(|_, _| Ok(())));
    // SAFETY: it takes (const float*, u64, unsigned*, u64), and stays within the lengths.
    unsafe { Kernel::declare(spec.twin(twin)) }
};

fn norm(x: &[f32]) -> f32 {
    x.iter().map(|x| x * x).sum()
}

fn test(g: &Recording, x: &Buffer<f32>, flag: &mut Buffer<u32>) -> Result<()> {
    g.stream()?.launch_with(&IS_LARGE, LaunchConfig::new([1; 3], [1; 3]), (x, flag))
}

fn example(device: &Device) -> Outcome<String> {
    let (s, scaled) = (device.stream()?, |by| (0..N).map(|i| by * sample(i)).collect::<Vec<_>>());
    let (mut x, mut flag) = (s.upload(&scaled(1.0))?, s.alloc_zeroed::<u32>(1)?);
    let mut halve = device.record(|g| {
        g.argument(&flag).and_then(|()| g.argument(&x))?;
        let (s, mut y) = (g.stream()?, g.stream()?.alloc::<f32>(N)?);
        s.launch(&AFFINE_F32, (0.5, 0.0, &x, &mut y))?;
        s.copy(&y, &mut x).and_then(|()| test(g, &x, &mut flag))
    })?;
    let mut clip = device.record(|g| {
        g.argument(&flag).and_then(|()| g.argument(&x)).and_then(|()| test(g, &x, &mut flag))?;
        let all = Uses::new().update(&mut flag).update(&mut x);
        g.stream()?.launch_graph_while(0, &mut halve, all)
    })?;
    for by in [1.0, 64.0, 0.01, 4096.0] {
        x = s.upload(&scaled(by))?;
        s.launch_graph(&mut clip, Uses::new().update(&mut flag).update(&mut x))?;
        let halves = (0..).map(|n| by * 0.5_f32.powi(n)).find(|by| norm(&scaled(*by)) <= 1e6);
        verify("gradients", &s.download(&x)?, |i| halves.unwrap_or(0.0) * sample(i))?;
    }
    Ok(format!("{N} gradients, clipped by {} operations", clip.len()))
}

fn main() -> ExitCode {
    run(example)
}
