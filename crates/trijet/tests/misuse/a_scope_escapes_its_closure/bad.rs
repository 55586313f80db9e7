// A scope must not outlive its closure: its downloads would have no target.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let mut kept = None;
    device.scope(|scope| {
        kept = Some(scope);
        Ok(())
    })?;
    assert!(kept.is_some());
    Ok(())
}
