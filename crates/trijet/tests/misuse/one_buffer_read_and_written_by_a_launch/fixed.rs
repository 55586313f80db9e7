// A launch would read and write the same words.

use trijet::{Device, Select};
use trijet::testing::MIX;

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut x = s.alloc::<u64>(4)?;
    let mut y = s.alloc::<u64>(4)?;
    s.fill_bytes(&mut y, 1)?;
    s.launch(&MIX, (1, &y, &mut x))?;
    Ok(())
}
