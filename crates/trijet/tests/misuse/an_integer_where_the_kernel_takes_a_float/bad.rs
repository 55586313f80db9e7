// A scalar has exactly the type of its parameter.

use trijet::kernels::AXPY;
use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let (x, mut y) = (s.alloc_zeroed::<f32>(4)?, s.alloc_zeroed::<f32>(4)?);
    s.launch(&AXPY, (2, &x, &mut y))?;
    Ok(())
}
