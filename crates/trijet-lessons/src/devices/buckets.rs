//! Gradients that are summed over two devices: all at once after the backward pass, or in buckets
//! during the backward pass.
#![forbid(unsafe_code)]

use crate::common::both::Both;
use crate::common::ground::Ground;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::kernels::Sum;
use trijet::testing::WORK;
use trijet::training::{BucketPlan, GradientBuckets};
use trijet::{Bytes, Result};

pub(crate) const LESSON: Lesson = Lesson {
    name: "buckets",
    topic: Topic::Devices,
    texts: &["guide:440", "guide:465", "guide:484"],
    claim: "Gradients summed in buckets during the backward pass hide most of their communication.",
    forms: &["one sum after the backward pass", "a sum for each bucket"],
    expect: Expect::Faster,
    flag: Flag::None("no rule looks for communication that could start earlier"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: buckets,
};

/// The kernel of layer `k` makes `rounds[k]` rounds. Each form has its own buckets.
struct Buckets {
    both: Both,
    gradients: [GradientBuckets<u32, Sum>; 2],
    rounds: Vec<u32>,
}

fn buckets(ground: &Ground) -> Result<Box<dyn Program>> {
    let (layers, words) = (ground.size.chunks, 2 * ground.size.words);
    let both = Both::new(ground, words)?;
    let of = |count: usize| -> Result<_> {
        let mut all = GradientBuckets::new(&both.devices, &vec![words; layers], Sum)?;
        let size = Bytes((count * words * size_of::<u32>()) as u64);
        all.set_plan(BucketPlan { first: size, rest: size, ..BucketPlan::default() })?;
        Ok(all)
    };
    // The first form has one bucket for all layers. The second form has a bucket for every two
    // layers.
    let gradients = [of(layers)?, of(2)?];
    Ok(Box::new(Buckets { both, gradients, rounds: (ground.rounds..).take(layers).collect() }))
}

impl Program for Buckets {
    fn prepare(&mut self) -> Result<()> {
        for (device, stream) in self.both.streams.iter().enumerate() {
            for layer in 0..self.rounds.len() {
                for all in &mut self.gradients {
                    stream.fill_bytes(&mut all.gradient_mut(device, layer), 0xee)?;
                }
            }
        }
        self.both.synchronize()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let (Both { streams, x, .. }, gradients) = (&self.both, &mut self.gradients[form]);
        for (layer, rounds) in self.rounds.iter().enumerate().rev() {
            for (device, (stream, x)) in streams.iter().zip(x).enumerate() {
                stream.launch(&WORK, (*rounds, x, gradients.gradient_mut(device, layer)))?;
            }
            gradients.ready(layer)?;
        }
        gradients.finish()
    }

    fn wrong(&mut self, form: Form) -> Result<Option<String>> {
        for (layer, rounds) in self.rounds.iter().enumerate() {
            let sums = [0, 1].map(|device| self.gradients[form].gradient(device, layer));
            if let Some(found) = self.both.wrong_sum(sums, *rounds)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
