// Nothing but its author knows what a kernel touches.

use std::borrow::Cow;
use trijet::launch::kernel::any_lengths;
use trijet::launch::{Code, Exactness, InOut, Kernel, KernelSpec, Shape};

static TOUCH: Kernel<(InOut<u64>,)> = Kernel::declare(SPEC);

const SPEC: KernelSpec = KernelSpec {
    name: Cow::Borrowed("touch"),
    code: Code::Ptx(Cow::Borrowed("")),
    shape: Shape::Elements { per_thread: 1 },
    shared_bytes_max: 0,
    check: any_lengths,
    twin: None,
    exactness: Exactness::Exact,
};

fn main() -> trijet::Result<()> {
    assert_eq!(TOUCH.name(), "touch");
    Ok(())
}
