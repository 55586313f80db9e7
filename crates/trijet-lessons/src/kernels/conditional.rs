//! A loop in which the host decides after each step whether to go on, or a loop in a conditional
//! node of a graph.
#![forbid(unsafe_code)]

use crate::common::chain::{Chain, there_and_back};
use crate::common::ground::Ground;
use crate::lesson::{BAD, Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::graph::Graph;
use trijet::kernels::{Reduction, Sum};
use trijet::{Buffer, Result, Uses};

pub(crate) const LESSON: Lesson = Lesson {
    name: "conditional",
    topic: Topic::Kernels,
    texts: &["book:1139"],
    claim: "A conditional node of a graph decides on the device, so no step waits for the host.",
    forms: &["the host fetches the condition", "a conditional node"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::OverSync),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model gives a conditional node the time of one operation"),
    make: conditional,
};

const STEPS: u32 = 100;

struct Loop {
    chain: Chain,
    remaining: Buffer<u32>,
    minus_one: Buffer<u32>,
    graph: Graph,
}

fn conditional(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, mut chain) = (&ground.device, Chain::new(ground)?);
    let Chain { stream, x, y, .. } = &mut chain;
    let (mut remaining, minus_one) = (stream.upload(&[0])?, stream.upload(&[u32::MAX])?);
    let mut body = device.record(|g| {
        [&remaining, &minus_one, x, y].into_iter().try_for_each(|memory| g.argument(memory))?;
        let s = g.stream()?;
        there_and_back(&s, x, y)?;
        Sum::combine(&s, minus_one.view(), remaining.view_mut())
    })?;
    let graph = device.record(|g| {
        [&remaining, &minus_one, x, y].into_iter().try_for_each(|memory| g.argument(memory))?;
        let uses = Uses::new().update(&mut remaining).read(&minus_one).update(x).update(y);
        g.stream()?.launch_graph_while(0, &mut body, uses)
    })?;
    Ok(Box::new(Loop { chain, remaining, minus_one, graph }))
}

impl Program for Loop {
    fn prepare(&mut self) -> Result<()> {
        self.chain.stream.fill(&mut self.remaining, STEPS)?;
        self.chain.prepare()
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { chain: Chain { stream: s, x, y, back, .. }, remaining, minus_one, graph } = self;
        if form != BAD {
            let uses = Uses::new().update(remaining).read(&*minus_one).update(x).update(y);
            return s.launch_graph(graph, uses);
        }
        loop {
            s.copy(remaining, &mut back.slice_mut(..1))?;
            s.synchronize()?;
            if back.read()?[0] == 0 {
                return Ok(());
            }
            there_and_back(s, x, y)?;
            Sum::combine(s, minus_one.view(), remaining.view_mut())?;
        }
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.chain.wrong(2 * STEPS)
    }
}
