//! A launch passes the parameters that the kernel has, or is refused before the driver is called.

use trijet::kernels::{Code, Dynamic, KernelSpec, Shape};
use trijet::{Args, Device, Error, ErrorKind, Kernel, Result};

/// A kernel that does nothing, of (const float* x, u64 n, float* y, u64 m, float k).
const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry gain(
    .param .u64 x, .param .u64 n, .param .u64 y, .param .u64 m, .param .f32 k
) { ret; }
.visible .entry pair(.param .align 8 .b8 numbers[16]) { ret; }
.visible .entry nothing() { ret; }
";

fn kernel(entry: &'static str) -> Kernel<Dynamic> {
    let shape = Shape::Given(|_, _| Ok(()));
    // SAFETY: the kernels touch no memory.
    unsafe { Kernel::declare(KernelSpec::new(entry, Code::ptx(PTX), shape)) }
}

fn refused(outcome: Result<()>, words: &[&str]) {
    let error: Error = outcome.expect_err("the driver would read beyond the arguments");
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` does not contain `{word}`");
    }
}

/// A kernel that got fewer arguments than it has parameters once read the memory after them.
pub(crate) fn a_launch_passes_the_parameters_of_the_kernel(device: &Device) -> Result<()> {
    let (gain, pair, nothing) = (kernel("gain"), kernel("pair"), kernel("nothing"));
    assert_eq!(device.parameters(&gain)?, Some(vec![8, 8, 8, 8, 4]));
    let s = device.stream()?;
    let (x, mut y) = (s.alloc::<f32>(8)?, s.alloc::<f32>(8)?);
    let one = trijet::LaunchConfig::new([1, 1, 1], [1, 1, 1]);
    let sizes = "5 parameters of 8, 8, 8, 8, 4 bytes";
    let four = Args::new().read(x.view())?.write(y.view_mut())?;
    let words = ["`gain`", sizes, "4 arguments of 8, 8, 8, 8 bytes"];
    refused(s.launch_with(&gain, one, four), &words);
    refused(s.launch_with(&gain, one, Args::new()), &[sizes, "no arguments"]);
    let double = Args::new().read(x.view())?.write(y.view_mut())?.scalar(2.0_f64)?;
    refused(s.launch_with(&gain, one, double), &[sizes, "8, 8, 8, 8, 8 bytes"]);
    for k in [2.0_f32, 3.0] {
        let right = Args::new().read(x.view())?.write(y.view_mut())?.scalar(k)?;
        s.launch_with(&gain, one, right)?;
        let six = Args::new().read(x.view())?.write(y.view_mut())?.scalar(k)?.scalar(1_u8)?;
        refused(s.launch_with(&gain, one, six), &[sizes, "6 arguments"]);
    }
    s.launch_with(&pair, one, Args::new().scalar([1_u64, 2])?)?;
    let two = Args::new().scalar(1_u64)?.scalar(2_u64)?;
    refused(s.launch_with(&pair, one, two), &["`pair`", "1 parameter of 16 bytes"]);
    s.launch_with(&nothing, one, Args::new())?;
    refused(s.launch_with(&nothing, one, Args::new().scalar(1_u32)?), &["no parameters"]);
    s.synchronize()
}
