//! A chain of tiny kernels, launched one by one or by one launch of a graph.
#![forbid(unsafe_code)]

use crate::common::chain::{Chain, there_and_back};
use crate::common::ground::Ground;
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::graph::Graph;
use trijet::{Result, Uses};

pub(crate) const LESSON: Lesson = Lesson {
    name: "graph",
    topic: Topic::Kernels,
    texts: &["book:1137", "examples:231"],
    claim: "One launch of a graph takes less time than a launch of each of its kernels.",
    forms: &["a launch of each kernel", "one launch of a graph"],
    expect: Expect::Faster,
    flag: Flag::None("no rule is about the number of launches"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model enqueues the operations of a graph one by one"),
    make: chain,
};

/// The number of pairs of kernels.
const PAIRS: u32 = 250;

struct Launched {
    chain: Chain,
    graph: Graph,
}

fn chain(ground: &Ground) -> Result<Box<dyn Program>> {
    let mut chain = Chain::new(ground)?;
    let Chain { x, y, .. } = &mut chain;
    let graph = ground.device.record(|g| {
        g.argument(x)?;
        g.argument(y)?;
        let s = g.stream()?;
        (0..PAIRS).try_for_each(|_| there_and_back(&s, x, y))
    })?;
    Ok(Box::new(Launched { chain, graph }))
}

impl Program for Launched {
    fn prepare(&mut self) -> Result<()> {
        self.chain.prepare()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Chain { stream, x, y, .. } = &mut self.chain;
        match form {
            BAD => (0..PAIRS).try_for_each(|_| there_and_back(stream, x, y)),
            _ => stream.launch_graph(&mut self.graph, Uses::new().update(x).write(y)),
        }
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.chain.wrong(2 * PAIRS)
    }
}
