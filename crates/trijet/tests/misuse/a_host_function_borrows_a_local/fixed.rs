// A host function runs later, when the local may be gone.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let count = 3;
    s.host_fn(move || assert_eq!(count, 3))?;
    s.synchronize()?;
    Ok(())
}
