// A device may write any byte, and only two values are a valid `bool`.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u8>(4)?;
    drop(x);
    Ok(())
}
