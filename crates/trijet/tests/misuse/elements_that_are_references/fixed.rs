// Bytes from a device are no address of the host.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(4)?;
    drop(x);
    Ok(())
}
