// A view leaves the block at whose end its buffer is dropped.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut y = s.alloc::<u64>(8)?;
    let view = {
        let x = s.alloc::<u64>(8)?;
        x.slice(0..8)
    };
    s.copy(&view, &mut y)?;
    Ok(())
}
