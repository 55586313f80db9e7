//! Images of different sizes pass through three models on separate streams.
//!
//! Two models read the same pixels, and the third one combines their results. While image n is in
//! one stage, n - 1 and n - 2 are in the stages after it, and later images are decoded.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::staged::{ItemCx, Staged};
use trijet::{Buffer, Device};

const IMAGES: usize = 40;
fn len(image: usize) -> usize {
    1_000 + 777 * (image % 7)
}

fn example(device: &Device) -> Outcome<String> {
    let mut staged = Staged::<usize>::on(device);
    let decoded = staged.host_stage("decode", staged.item(), |_, image| {
        let mut pixels = device.pinned::<f32>(len(*image))?;
        pixels.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(image + i));
        Ok(pixels)
    });
    let x = staged.stage("upload", decoded, |s, pixels| {
        let mut x = s.alloc::<f32>(pixels.len())?;
        s.copy(pixels, &mut x)?;
        Ok(x)
    });
    let model = |scale: f32, offset: f32| {
        move |s: &ItemCx<'_>, x: &Buffer<f32>| {
            let mut y = s.alloc::<f32>(x.len())?;
            s.launch(&AFFINE_F32, (scale, offset, x, &mut y))?;
            Ok(y)
        }
    };
    let texture = staged.stage("texture", x, model(2.0, 1.0));
    let position = staged.stage("position", x, model(3.0, -1.0));
    let result = staged.stage("join", (texture, position), |s, (texture, position)| {
        let (mut y, mut result) = (s.alloc(texture.len())?, device.pinned::<f32>(texture.len())?);
        s.copy(texture, &mut y)?;
        s.launch(&AXPY, (0.5, position, &mut y))?;
        s.copy(&y, &mut result)?;
        Ok(result)
    });
    let mut results = Vec::new();
    staged.run((0..IMAGES).map(Ok), result, |y| y.read().map(|y| results.push(y.to_vec())))?;
    let lens: Vec<usize> = results.iter().map(Vec::len).collect();
    verify("images and their lengths", &[lens], |_| (0..IMAGES).map(len).collect())?;
    for (n, y) in results.iter().enumerate() {
        verify(&format!("image {n}"), y, |i| 3.5 * sample(n + i) + 0.5)?;
    }
    Ok(format!("{IMAGES} images of {} to {} pixels, in order", len(0), len(6)))
}

fn main() -> ExitCode {
    run(example)
}
