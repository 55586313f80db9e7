//! The cache of keys and values of a language model. It grows by a token in each step, and is never
//! copied.
//!
//! Each layer of a sequence has a buffer that grows. One stream loads prompts while another
//! decodes, and a third copies results to the host; the library orders them. A later sequence gets
//! the memory of a sequence that has ended, so calls for memory become rare.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::Device;
use trijet::kernels::AFFINE_F32;

const LAYERS: usize = 2;
const WIDTH: usize = 256;
const TOKENS_MAX: usize = 512;
/// The numbers of prompt tokens and of generated tokens, for each sequence.
const SEQUENCES: [(usize, usize); 8] =
    [(300, 9), (17, 40), (120, 25), (210, 60), (64, 3), (250, 30), (5, 80), (180, 12)];

fn example(device: &Device) -> Outcome<String> {
    let [loading, decoding, results] = [device.stream()?, device.stream()?, device.stream()?];
    let calls = || device.heap_stats().map_or(0, |stats| stats.calls);
    let mut taken = [0; 2];
    for (number, (tokens, generated)) in SEQUENCES.iter().cycle().take(16).enumerate() {
        let before = calls();
        let mut prompt = device.pinned::<f32>(tokens * WIDTH)?;
        prompt.write()?.iter_mut().enumerate().for_each(|(i, x)| *x = sample(i));
        let mut layers = Vec::new();
        for _ in 0..LAYERS {
            let mut cache = loading.growing(prompt.len(), TOKENS_MAX * WIDTH)?;
            loading.copy(&prompt, &mut cache)?;
            layers.push(cache);
        }
        let mut out = device.pinned::<f32>(generated * WIDTH)?;
        for step in 0..*generated {
            let end = (tokens + step) * WIDTH;
            for cache in &mut layers {
                cache.grow_to(end + WIDTH)?;
                // The new row and then the whole cache, as a layer of a model reads it.
                decoding.fill_bytes(&mut cache.slice_mut(end..), 0)?;
                let mut y = decoding.alloc::<f32>(cache.len())?;
                decoding.launch(&AFFINE_F32, (1.0, step as f32, cache.slice(..), &mut y))?;
                let row = step * WIDTH..(step + 1) * WIDTH;
                results.copy(&y.slice(..WIDTH), &mut out.slice_mut(row))?;
            }
        }
        verify("results", &out.read()?, |i| sample(i % WIDTH) + (i / WIDTH) as f32)?;
        taken[number / 8] += calls() - before;
    }
    Ok(format!("{} calls for memory in the first half, {} in the second", taken[0], taken[1]))
}

fn main() -> ExitCode {
    run(example)
}
