//! Sums of batches in three streams, by a plain kernel or by warps with different roles.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, part};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::kernels::AXPY;
use trijet::testing::warp_specialized::{ADD, config};
use trijet::{Buffer, LaunchConfig, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "warp-roles",
    topic: Topic::Kernels,
    texts: &["examples:20", "book:95"],
    claim: "Streams and warps with different roles together give more overlap than streams alone.",
    forms: &["a plain kernel in three streams", "warps with roles in three streams"],
    expect: Expect::Faster,
    flag: Flag::None("a trace does not show what the warps of a kernel do"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model does not know the warps of a kernel"),
    make: warp_roles,
};

struct Sums {
    streams: [Stream; 3],
    /// For each slot: the first operand of a batch, its second operand, and its sum. The plain
    /// kernel does not use the third array, because it adds the first operand to the second one.
    slots: Vec<[Buffer<f32>; 3]>,
    config: LaunchConfig,
    /// The operands of all sums. Sum `i` adds element `i` and element `i + 1`.
    elements: PinnedBuffer<f32>,
    sums: PinnedBuffer<f32>,
    words: usize,
}

/// The element at `index`: a small integer, so that sums are exact.
fn element(index: usize) -> f32 {
    (index % 4093) as f32
}

fn warp_roles(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, words) = (&ground.device, ground.size.race_words);
    let all = words * ground.size.chunks;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let array = || streams[0].alloc::<f32>(words);
    let slots = (0..ground.size.slots).map(|_| Ok([array()?, array()?, array()?]));
    let (slots, mut elements) = (slots.collect::<Result<_>>()?, device.pinned(all + 1)?);
    elements.write()?.iter_mut().enumerate().for_each(|(index, x)| *x = element(index));
    let config = config(words, device.info().multiprocessors);
    Ok(Box::new(Sums { streams, slots, config, elements, sums: device.pinned(all)?, words }))
}

impl Program for Sums {
    fn prepare(&mut self) -> Result<()> {
        self.sums.write()?.fill(-1.0);
        Ok(())
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { streams: [up, run, down], slots, elements, sums, words, .. } = self;
        let depth = slots.len();
        for part in (0..sums.len() / *words).map(|chunk| part(chunk, *words)) {
            let [x, y, z] = &mut slots[part.start / *words % depth];
            up.copy(&elements.slice(part.clone()), x)?;
            up.copy(&elements.slice(part.start + 1..=part.end), y)?;
            match form {
                BAD => run.launch(&AXPY, (1.0, &*x, &mut *y))?,
                _ => run.launch_with(&ADD, self.config, (&*x, &*y, &mut *z))?,
            }
            down.copy(if form == BAD { y } else { z }, &mut sums.slice_mut(part))?;
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let (found, right) = (self.sums.read()?, |at| element(at) + element(at + 1));
        let wrong = (0..found.len()).find(|at| found[*at] != right(*at));
        Ok(wrong.map(|at| format!("sum {at} is {}, not {}", found[at], right(at))))
    }
}
