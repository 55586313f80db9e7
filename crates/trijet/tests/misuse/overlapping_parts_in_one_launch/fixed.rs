// Two parts of a buffer may overlap; only buffers that were split cannot.

use trijet::{Device, Select};
use trijet::testing::MIX;

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<u64>(8)?;
    let (left, mut right) = x.split(4);
    s.launch(&MIX, (1, &left, &mut right))?;
    Ok(())
}
