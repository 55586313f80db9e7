// The host still reads what a copy would overwrite.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut h = device.pinned::<u32>(4)?;
    let x = s.alloc::<u32>(4)?;
    let seen = h.read()?;
    s.copy(&x, &mut h)?;
    assert_eq!(seen.len(), 4);
    Ok(())
}
