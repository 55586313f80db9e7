// A device may leave any byte; only two of them are a `bool`.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<bool>(4)?;
    drop(x);
    Ok(())
}
