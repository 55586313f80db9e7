// The host still writes what a copy would read.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut h = device.pinned::<u32>(4)?;
    let mut x = s.alloc::<u32>(4)?;
    let mut words = h.write()?;
    words.fill(7);
    s.copy(&h, &mut x)?;
    Ok(())
}
