//! Tasks make frames on the host, upload and scale them, add them to a total, and download them. A
//! task declares its reads and writes. The library derives its stream and its waits from them.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::Device;
use trijet::kernels::{AFFINE_F32, AXPY};

const LEN: usize = 200_003;
const FRAMES: usize = 8;

fn example(device: &Device) -> Outcome<String> {
    let tasks = device.tasks();
    let total = tasks.alloc::<f32>(LEN)?;
    tasks.task(total.write()).named("zero").run(|s, mut total| s.fill_bytes(&mut total, 0))?;
    let mut scaled = Vec::new();
    for frame in 0..FRAMES {
        let host = tasks.data(device.pinned::<f32>(LEN)?);
        let (x, y) = (tasks.alloc::<f32>(LEN)?, tasks.alloc::<f32>(LEN)?);
        tasks.task(host.write()).named("make").host(move |mut host| {
            host.iter_mut().enumerate().for_each(|(i, value)| *value = sample(frame + i));
            Ok(())
        })?;
        let uses = (host.read(), x.write());
        tasks.task(uses).named("upload").run(|s, (host, mut x)| s.copy(&host, &mut x))?;
        let uses = (x.read(), y.write());
        tasks.task(uses).named("scale").run(|s, (x, y)| s.launch(&AFFINE_F32, (2.0, 1.0, x, y)))?;
        let uses = (y.read(), total.update());
        tasks.task(uses).named("sum").run(|s, (y, total)| s.launch(&AXPY, (1.0, y, total)))?;
        // The host memory of the frame is reused. The download into it follows the upload, and runs
        // at the same time as the sum.
        let uses = (y.read(), host.write());
        tasks.task(uses).named("download").run(|s, (y, mut host)| s.copy(&y, &mut host))?;
        scaled.push(host);
    }
    for (frame, host) in scaled.into_iter().enumerate() {
        let found = tasks.take(host)?;
        let expected = |i| 2.0 * sample(frame + i) + 1.0;
        verify(&format!("frame {frame}"), &found.read()?, expected)?;
    }
    let found = device.stream()?.download(&tasks.take(total)?)?;
    let sum = |i| (0..FRAMES).map(|frame| 2.0 * sample(frame + i) + 1.0).sum::<f32>();
    verify("total", &found, sum)?;
    tasks.finish()?;
    let counts = tasks.counts();
    verify("failed tasks", &[counts.failed + counts.skipped], |_| 0)?;
    Ok(format!("{} tasks on {} streams", counts.submitted, counts.streams))
}

fn main() -> ExitCode {
    run(example)
}
