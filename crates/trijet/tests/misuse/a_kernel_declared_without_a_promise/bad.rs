// Nothing but its author knows what a kernel touches.

use trijet::Kernel;
use trijet::kernels::{Code, InOut, KernelSpec, Shape};

static TOUCH: Kernel<(InOut<u64>,)> = Kernel::declare(SPEC);

const SPEC: KernelSpec =
    KernelSpec::new("touch", Code::ptx(""), Shape::Elements { per_thread: 1 });

fn main() -> trijet::Result<()> {
    assert_eq!(TOUCH.name(), "touch");
    Ok(())
}
