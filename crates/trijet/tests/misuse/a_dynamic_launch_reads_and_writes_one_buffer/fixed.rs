// Arguments collected at run time hold their borrows too.

use trijet::{Args, Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let mut x = s.alloc::<u64>(8)?;
    let y = s.alloc::<u64>(8)?;
    let args = Args::new().read(y.view())?.write(x.view_mut())?;
    drop(args);
    Ok(())
}
