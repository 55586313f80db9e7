//! A kernel, two kernels that follow it, and a kernel that joins the two: a graph of one stream or
//! of two streams.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, differs, source};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::graph::Graph;
use trijet::testing::WORK;
use trijet::{Buffer, PinnedBuffer, Result, Stream, Uses};

pub(crate) const LESSON: Lesson = Lesson {
    name: "branches",
    topic: Topic::Kernels,
    texts: &["book:1126"],
    claim: "A graph of two streams keeps their branches, which then run at the same time.",
    forms: &["a graph of one stream", "a graph of two streams"],
    expect: Expect::Faster,
    flag: Flag::None("operations of one stream in a graph may depend on each other"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model runs one kernel at a time"),
    make: branches,
};

/// The number of rounds of the first kernel and of the last kernel.
const SHORT: u32 = 1;

struct Diamond {
    stream: Stream,
    /// The first kernel writes the second array, the branches write the halves of the third array,
    /// and the last kernel writes the fourth array.
    arrays: [Buffer<u32>; 4],
    graphs: [Graph; 2],
    rounds: u32,
    back: PinnedBuffer<u32>,
}

fn branches(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, words, rounds) = (&ground.device, ground.size.small_words, ground.small_rounds);
    let (stream, half) = (device.stream()?, words / 2);
    let x = stream.upload(&(0..words).map(source).collect::<Vec<_>>())?;
    let mut arrays = [x, stream.alloc(words)?, stream.alloc(words)?, stream.alloc(words)?];
    let mut diamond = |is_split: bool| {
        device.record(|g| {
            arrays.iter().try_for_each(|array| g.argument(array))?;
            let [x, y, z, w] = &mut arrays;
            let (a, b) = (g.stream()?, g.stream()?);
            let b = if is_split { &b } else { &a };
            a.launch(&WORK, (SHORT, &*x, &mut *y))?;
            a.launch(&WORK, (rounds, y.slice(..half), z.slice_mut(..half)))?;
            b.launch(&WORK, (rounds, y.slice(half..), z.slice_mut(half..)))?;
            a.launch(&WORK, (SHORT, &*z, &mut *w))
        })
    };
    let graphs = [diamond(false)?, diamond(true)?];
    let back = device.pinned(words)?;
    Ok(Box::new(Diamond { stream, arrays, graphs, rounds, back }))
}

impl Program for Diamond {
    fn prepare(&mut self) -> Result<()> {
        self.arrays[1..].iter_mut().try_for_each(|array| self.stream.fill_bytes(array, 0xee))
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let [x, y, z, w] = &mut self.arrays;
        let uses = Uses::new().read(&*x).write(y).write(z).write(w);
        let graph = if form == BAD { 0 } else { 1 };
        self.stream.launch_graph(&mut self.graphs[graph], uses)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.arrays[3], &mut self.back)?;
        Ok(differs(&self.back.read()?, 2 * SHORT + self.rounds, |index| index))
    }
}
