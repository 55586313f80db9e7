// A graph of runs has the address of the weights, so they live as long as the prepared pipeline.

use trijet::{Device, Pipeline, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let weights = s.upload(&[1.0_f32; 64])?;
    let (x, mut y) = (device.pinned::<f32>(64)?, device.pinned::<f32>(64)?);
    let mut job = Pipeline::on(&device)
        .stage::<f32, f32>(|s, x, mut y| s.copy(&x, &mut y))
        .reads(&weights)
        .prepare(&x, &mut y, 8)?;
    drop(weights);
    job.run(&x, &mut y)?;
    Ok(())
}
