// Bytes that a device wrote are not a valid reference.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(4)?;
    drop(x);
    Ok(())
}
