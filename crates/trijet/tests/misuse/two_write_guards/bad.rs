// Two guards would lend the same bytes for writing.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let mut h = device.pinned::<u32>(4)?;
    let mut one = h.write()?;
    let mut two = h.write()?;
    one.fill(1);
    two.fill(2);
    Ok(())
}
