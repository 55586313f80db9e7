//! Two kernels of the program: one with a twin, which runs on every device, and one without.
//!
//! A twin computes the result on the host device. The kernel without a twin needs a GPU, takes a
//! plain pointer, and runs in any grid.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{Code, Cost, KernelSpec, Ptr, Shape, Twin, Update};
use trijet::{Device, ErrorKind, Kernel, LaunchConfig};

const CODE: &str = r#"extern "C" __global__ void square(float* y, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] *= y[i];
}
extern "C" __global__ void add(float* y, int n, float a) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a;
}"#;

const TWIN: Twin = Twin {
    tile_elements: |_| 4096,
    run: |tile| tile.write::<f32>(0).iter_mut().for_each(|y| *y *= *y),
    cost: |args| Cost { bytes: 2 * args.spans()[0].bytes(), ops: 0 },
};

static SQUARE: Kernel<(Update<f32>,)> = {
    let shape = Shape::Elements { per_thread: 1 };
    let spec = KernelSpec::new("square", Code::source(CODE), shape);
    // SAFETY: `square` takes (float*, u64) and updates y[..n].
    unsafe { Kernel::declare(spec.twin(TWIN)) }
};

static ADD: Kernel<(Ptr<Update<f32>>, i32, f32)> = {
    let spec = KernelSpec::new("add", Code::source(CODE), Shape::Given(|_, _| Ok(())));
    let spec = spec.check(|args| match u64::try_from(args.scalar::<i32>(1)) {
        Ok(n) if n <= args.spans()[0].elements => Ok(()),
        _ => Err("n is negative or beyond the end of y".to_owned()),
    });
    // SAFETY: `add` updates y[..n], in any grid; the check refuses another `n`.
    unsafe { Kernel::declare(spec) }
};

fn example(device: &Device) -> Outcome<String> {
    let s = device.stream()?;
    let mut y = s.upload(&(0..5_003).map(sample).collect::<Vec<f32>>())?;
    s.launch(&SQUARE, (&mut y,))?;
    let config = LaunchConfig::new([8, 1, 1], [96, 1, 1]);
    let added = match s.launch_with(&ADD, config, (&mut y, 5_003, 1.0)) {
        Err(error) if error.kind() == ErrorKind::NoTwin => 0.0,
        outcome => outcome.map(|()| 1.0)?,
    };
    verify("y", &s.download(&y)?, |i| sample(i) * sample(i) + added)?;
    Ok(format!("5003 squares, {added} added to each"))
}

fn main() -> ExitCode {
    run(example)
}
