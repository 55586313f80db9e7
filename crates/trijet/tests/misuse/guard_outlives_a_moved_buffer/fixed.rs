// The guard still lends bytes of the buffer that is split.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let mut h = device.pinned::<u32>(4)?;
    let mut words = h.write()?;
    words.fill(7);
    let (left, right) = h.split(2);
    assert_eq!(left.len(), right.len());
    Ok(())
}
