// The buffer is freed in stream order while a view still names it.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(8)?;
    let mut y = s.alloc::<u64>(8)?;
    let view = x.view();
    s.copy(&view, &mut y)?;
    drop(x);
    Ok(())
}
