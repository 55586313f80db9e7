// The declaration says that the kernel writes its last argument.

use trijet::{Device, Select};
use trijet::testing::MIX;

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(4)?;
    let mut y = s.alloc::<u64>(4)?;
    s.fill_bytes(&mut y, 1)?;
    s.launch(&MIX, (1, &x, &y))?;
    Ok(())
}
