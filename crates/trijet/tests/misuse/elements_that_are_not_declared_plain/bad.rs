// A struct is an element only if it implements `Pod`.

use bytemuck::{Pod, Zeroable};
use trijet::{Device, Select};

#[derive(Clone, Copy, Zeroable)]
#[repr(C)]
struct Pair {
    small: u32,
    large: u32,
}

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let x = s.alloc::<Pair>(4)?;
    drop(x);
    Ok(())
}
