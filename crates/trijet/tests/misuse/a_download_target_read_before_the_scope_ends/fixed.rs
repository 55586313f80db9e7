// The bytes of a download are complete when the scope ends, and not before.

use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut x = s.alloc::<u16>(3)?;
    s.fill_bytes(&mut x, 1)?;
    let mut target = [0u16; 3];
    device.scope(|scope| {
        scope.download(&s, &x, &mut target)?;
        Ok(())
    })?;
    assert_eq!(target, [0x0101; 3]);
    Ok(())
}
