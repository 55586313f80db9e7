//! Images and questions: two encoders on separate streams, and a model that joins their results.
//!
//! The encoders reuse their buffers. The buffer of image n is written again for image n + 2. This
//! write waits until the model has read the buffer, without a call in the program. The model has
//! two streams, used in turn, so two pairs are computed at the same time.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::{AFFINE_F32, AXPY};
use trijet::staged::{Issue, Staged};
use trijet::{Device, PinnedBuffer, Result, Stream};

const PAIRS: usize = 30;
const LEN: usize = 4_096;
const SLOTS: usize = 2;

fn locked(device: &Device, first: usize) -> Result<PinnedBuffer<f32>> {
    let mut input = device.pinned::<f32>(LEN)?;
    input.write()?.iter_mut().enumerate().for_each(|(i, value)| *value = sample(first + i));
    Ok(input)
}

fn example(device: &Device) -> Outcome<String> {
    let mut staged = Staged::<usize>::on(device);
    let pair = staged.item();
    let image = staged.host_stage("decode", pair, |_, pair| locked(device, *pair));
    let question = staged.host_stage("tokenize", pair, |_, pair| locked(device, 7 * pair));
    let [vision, language] =
        [("vision", image, 2.0f32), ("language", question, 3.0)].map(|(name, input, scale)| {
            let make = |s: &Stream| s.alloc::<f32>(LEN);
            staged.recycled(name, input, SLOTS, make, move |s, input, encoded| {
                let mut x = s.alloc::<f32>(LEN)?;
                s.copy(input, &mut x)?;
                s.launch(&AFFINE_F32, (scale, 1.0f32, &x, encoded))
            })
        });
    let answer = staged.stage("model", (vision, language), |s, (vision, language)| {
        let (mut y, mut answer) = (s.alloc::<f32>(LEN)?, device.pinned::<f32>(LEN)?);
        s.copy(vision, &mut y)?;
        s.launch(&AXPY, (1.0f32, language, &mut y))?;
        s.copy(&y, &mut answer)?;
        Ok(answer)
    });
    staged.lanes(answer, 2);
    let mut answers = Vec::new();
    let keep = |y: &PinnedBuffer<f32>| y.read().map(|y| answers.push(y.to_vec()));
    staged.issue(Issue::BreadthFirst).run((0..PAIRS).map(Ok), answer, keep)?;
    verify("answers", &[answers.len()], |_| PAIRS)?;
    for (n, y) in answers.iter().enumerate() {
        verify(&format!("answer {n}"), y, |i| 2.0 * sample(n + i) + 3.0 * sample(7 * n + i) + 2.0)?;
    }
    Ok(format!("{PAIRS} answers in order, {SLOTS} buffers for each encoder"))
}

fn main() -> ExitCode {
    run(example)
}
