// A host function runs on another thread.

use std::sync::Arc;
use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let count = Arc::new(3);
    s.host_fn(move || assert_eq!(*count, 3))?;
    s.synchronize()?;
    Ok(())
}
