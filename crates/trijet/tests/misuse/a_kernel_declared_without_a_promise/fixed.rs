// Only the author of a kernel knows which memory it uses.

use trijet::Kernel;
use trijet::kernels::{Code, Update, KernelSpec, Shape};

// SAFETY: it is never launched.
static TOUCH: Kernel<(Update<u64>,)> = unsafe { Kernel::declare(SPEC) };

const SPEC: KernelSpec =
    KernelSpec::new("touch", Code::ptx(""), Shape::Elements { per_thread: 1 });

fn main() -> trijet::Result<()> {
    assert_eq!(TOUCH.name(), "touch");
    Ok(())
}
