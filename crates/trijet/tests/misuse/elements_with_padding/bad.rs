// Padding has no value: its bytes may never have been written.

use bytemuck::{Pod, Zeroable};
use trijet::{Device, Select};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Pair {
    small: u8,
    large: u32,
}

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<Pair>(4)?;
    drop(x);
    Ok(())
}
