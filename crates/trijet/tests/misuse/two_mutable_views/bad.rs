// Two mutable views of one buffer.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut x = s.alloc::<u64>(8)?;
    let mut one = x.view_mut();
    let mut two = x.view_mut();
    s.fill_bytes(&mut one, 1)?;
    s.fill_bytes(&mut two, 2)?;
    Ok(())
}
