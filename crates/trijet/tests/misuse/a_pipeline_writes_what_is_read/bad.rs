// A pipeline borrows its target exclusively until it has run.

use trijet::{Device, Pipeline, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let (x, mut y) = (device.pinned::<u8>(64)?, device.pinned::<u8>(64)?);
    let pipeline = Pipeline::on(&device)
        .pinned_source(&x, 1)
        .stage::<u8, u8>(|s, x, mut y| s.copy(&x, &mut y))
        .pinned_sink(&mut y);
    let seen = y.read()?;
    pipeline.run()?;
    assert_eq!(seen.len(), 64);
    Ok(())
}
