// The guard still lends bytes of the buffer that is split.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let mut h = device.pinned::<u32>(4)?;
    let mut words = h.write()?;
    let (left, right) = h.split(2);
    words.fill(7);
    assert_eq!(left.len(), right.len());
    Ok(())
}
