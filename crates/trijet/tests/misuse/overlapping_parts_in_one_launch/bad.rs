// Two parts of a buffer may overlap; only buffers that were split cannot.

use trijet::{Device, Select};
use trijet::testing::MIX;

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut x = s.alloc::<u64>(8)?;
    s.launch(&MIX, (1, x.slice(0..5), x.slice_mut(3..8)))?;
    Ok(())
}
