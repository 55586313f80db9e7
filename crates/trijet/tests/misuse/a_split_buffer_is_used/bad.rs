// Splitting moves the buffer: only its two parts can be used.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(8)?;
    let mut y = s.alloc::<u64>(8)?;
    let (left, _right) = x.split(8);
    s.copy(&x, &mut y)?;
    drop(left);
    Ok(())
}
