//! Four ways to state the order of the same operations: a stream, events, a graph, tasks.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, wrong};
use crate::common::towers::Towers;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::graph::Graph;
use trijet::task::Tasks;
use trijet::{Result, Stream, Uses};

pub(crate) const LESSON: Lesson = Lesson {
    name: "modes",
    topic: Topic::Pipelines,
    texts: &["research:350", "research:149"],
    claim: "A stream orders everything; events, a graph or tasks order only what depends on each other.",
    forms: &["one stream", "events between streams", "a recorded graph", "tasks"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::NoOverlap),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: modes,
};

/// Each join follows two kernels, each kernel follows its upload, and pairs are independent.
struct Modes {
    streams: [Stream; 3],
    graph: Graph,
    tasks: Tasks,
    towers: Option<Towers>,
}

fn modes(ground: &Ground) -> Result<Box<dyn Program>> {
    let (device, mut towers) = (&ground.device, Towers::new(ground)?);
    let graph = device.record(|g| {
        [&towers.source, &towers.landed].into_iter().try_for_each(|host| g.argument(host))?;
        towers.x.iter().chain(&towers.y).try_for_each(|array| g.argument(array))?;
        let streams = [g.stream()?, g.stream()?, g.stream()?];
        towers.all(streams.each_ref())
    })?;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    Ok(Box::new(Modes { streams, graph, tasks: device.tasks(), towers: Some(towers) }))
}

impl Program for Modes {
    fn prepare(&mut self) -> Result<()> {
        self.towers.as_mut().map_or(Ok(()), Towers::spoil)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let Self { streams, graph, tasks, towers } = self;
        let mut all = towers.take().ok_or_else(|| wrong("an earlier run failed"))?;
        match form {
            0 => all.all([&streams[0]; 3])?,
            1 => all.all(streams.each_ref())?,
            2 => {
                let Towers { source, landed, x: [a, b], y: [c, d], .. } = &mut all;
                let uses = Uses::new().read(&*source).write(landed);
                streams[0].launch_graph(graph, uses.write(a).write(b).write(c).write(d))?;
            }
            _ => all = all.by_tasks(tasks)?,
        }
        *towers = Some(all);
        Ok(())
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.towers.as_ref().map_or(Ok(None), Towers::wrong)
    }
}
