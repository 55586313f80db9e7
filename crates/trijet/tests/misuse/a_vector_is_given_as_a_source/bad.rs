// A pipeline reads rows, and a vector does not say how long they are.

use trijet::pipeline::rows_of;
use trijet::{Device, Pipeline, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let data = vec![1_u8, 2, 3, 4];
    let mut results: Vec<u8> = Vec::new();
    drop(rows_of(&data, 2));
    Pipeline::on(&device).source(&data).sink(&mut results).run()?;
    Ok(())
}
