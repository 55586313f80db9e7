// The memory of two arguments of a graph has no bytes in common, if the graph writes one of them.

use trijet::Uses;
use trijet::kernels::AXPY;
use trijet::{Device, Select};

fn main() -> trijet::Result<()> {
    let device = Device::open(Select::Host(0))?;
    let s = device.stream()?;
    let (mut x, mut y) = (s.upload(&[1.0_f32; 8])?, s.upload(&[2.0_f32; 8])?);
    let mut sum = device.record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        g.stream()?.launch(&AXPY, (1.0, &x, &mut y))
    })?;
    s.launch_graph(&mut sum, Uses::new().read(&x).update(&mut y))?;
    s.fill_bytes(&mut x, 0)
}
