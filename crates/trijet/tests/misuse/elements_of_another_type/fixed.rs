// A copy does not reinterpret its bytes.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<f32>(4)?;
    let mut y = s.alloc::<f32>(4)?;
    s.copy(&x, &mut y)?;
    Ok(())
}
