//! A chain of kernels by ordinary launches, or by dependent launches.
#![forbid(unsafe_code)]

use crate::common::chain::Chain;
use crate::common::ground::{Ground, source};
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::testing::dependent::{CONSUME, Trigger};
use trijet::{LaunchConfig, Result};
use trijet_tools::work::hash;

pub(crate) const LESSON: Lesson = Lesson {
    name: "dependent",
    topic: Topic::Kernels,
    texts: &["book:1157", "book:1171"],
    claim: "A dependent launch starts a kernel while the previous kernel of the stream still runs.",
    forms: &["ordinary launches", "dependent launches"],
    expect: Expect::Faster,
    flag: Flag::None("no rule is about dependent launches"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model starts a kernel when the previous one has ended"),
    make: dependent,
};

/// The number of kernels of the chain. The number is odd, so the last kernel writes the second
/// array.
const KERNELS: u32 = 101;
/// The key of a kernel takes 1 / `KEY` of the rounds in [`Ground::small_rounds`]. The key needs no
/// data of the previous kernel, so a dependent kernel computes the key before it waits for the
/// previous kernel.
const KEY: u32 = 64;
const THREADS: u32 = 256;

struct Dependent {
    chain: Chain,
    rounds: u32,
    config: LaunchConfig,
    expected: Vec<u32>,
}

fn dependent(ground: &Ground) -> Result<Box<dyn Program>> {
    let (words, rounds) = (ground.size.small_words, (ground.small_rounds / KEY).max(1));
    let mut expected: Vec<u32> = (0..words).map(source).collect();
    for salt in 0..KERNELS {
        let key = hash(rounds, salt);
        expected.reverse();
        expected.iter_mut().for_each(|word| *word = hash(1, *word ^ key));
    }
    let blocks = u32::try_from(words).unwrap_or(u32::MAX).div_ceil(THREADS);
    let config = LaunchConfig::new([blocks, 1, 1], [THREADS, 1, 1]);
    Ok(Box::new(Dependent { chain: Chain::new(ground)?, rounds, config, expected }))
}

impl Program for Dependent {
    fn prepare(&mut self) -> Result<()> {
        self.chain.prepare()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Chain { stream, x, y, .. } = &mut self.chain;
        let config = if form == BAD { self.config } else { self.config.dependent() };
        for salt in 0..KERNELS {
            let (from, to) = if salt % 2 == 0 { (&*x, &mut *y) } else { (&*y, &mut *x) };
            let arguments = (salt, self.rounds, Trigger::Early, from, to);
            stream.launch_with(&CONSUME, config, arguments)?;
        }
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        let Chain { stream, y, back, .. } = &mut self.chain;
        stream.copy(y, back)?;
        let found = back.read()?;
        let wrong = (0..found.len()).find(|index| found[*index] != self.expected[*index]);
        Ok(wrong.map(|index| format!("word {index} is {:08x}", found[index])))
    }
}
