//! If a kernel writes beyond its buffer, its launch call reports the write.

use trijet::kernels::{Code, KernelSpec, Shape, Write};
use trijet::memory::DamagePlace;
use trijet::{Device, Kernel, Result, Select};

const CODE: &str = r#"extern "C" __global__ void past(float* y, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 2.0f;
}"#;

/// A kernel that is declared to write its buffer, and writes one element more.
static PAST: Kernel<(Write<f32>,)> = {
    let shape = Shape::Elements { per_thread: 1 };
    // SAFETY: this is wrong by one element. The element is in a red zone, which nothing else uses.
    unsafe { Kernel::declare(KernelSpec::new("past", Code::source(CODE), shape)) }
};

#[test]
fn a_kernel_that_writes_past_its_buffer_is_found_with_the_call() -> Result<()> {
    let device = Device::builder().select(Select::Cuda(0)).red_zones().open()?;
    let s = device.stream()?;
    let (mut x, mut y) = (s.alloc::<f32>(1000)?, s.alloc::<f32>(5000)?);
    let line = line!() - 1;
    s.launch(&PAST, (&mut x,))?;
    s.fill_bytes(&mut y, 1)?;
    drop(y);
    let found = device.check_memory()?;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].place, found[0].bytes), (DamagePlace::Behind, (4000, 4003)));
    assert_eq!((found[0].site.line(), found[0].size.0), (line, 4000));
    assert_eq!(device.check_memory()?, [], "{found:?}");
    Ok(())
}
