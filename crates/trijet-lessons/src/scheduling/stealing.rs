//! Tasks of very unequal length, distributed to workers statically or while they run.
#![forbid(unsafe_code)]

use crate::common::boards::boards;
use crate::common::ground::{Ground, source};
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::workers::queens::QUEENS;
use trijet::workers::{Policy, RunOptions, Work, WorkerTask};
use trijet::{Buffer, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "stealing",
    topic: Topic::Scheduling,
    texts: &["research:241", "research:250", "research:293"],
    claim: "If tasks differ in length, workers that take tasks while they run beat a static assignment.",
    forms: &["static", "sharing", "stealing"],
    expect: Expect::Faster,
    flag: Flag::None("the workers are one kernel, which hides its tasks from the trace"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model does not time the tasks of workers"),
    make: stealing,
};

/// The policy of each form.
const POLICIES: [Policy; 3] = [Policy::Static, Policy::Sharing, Policy::Stealing];
/// The number of workers, and the number of tasks per worker. On average, one of `TASKS` tasks is
/// long. By chance, some workers then get several long tasks, and other workers get none.
const WORKERS: u32 = 64;
const TASKS: u32 = 31;
/// The number of columns of the board: of a short task, of a long task on a GPU, and of a long task
/// on a host device.
const SHORT: u8 = 6;
const LONG: [u8; 2] = [11, 8];

/// A program whose tasks each count the ways to place queens on a board. A task makes no other
/// tasks.
struct Stealing {
    stream: Stream,
    tasks: Vec<WorkerTask>,
    ways: u64,
    total: Buffer<u64>,
    back: PinnedBuffer<u64>,
}

fn stealing(ground: &Ground) -> Result<Box<dyn Program>> {
    let long = LONG[usize::from(ground.is_modelled())];
    let is_long = |task: u32| source(task as usize).is_multiple_of(TASKS);
    let sizes = (0..WORKERS * TASKS).map(|task| if is_long(task) { long } else { SHORT });
    let (tasks, ways) = boards(sizes);
    let stream = ground.device.stream()?;
    let (total, back) = (stream.alloc(1)?, ground.device.pinned(1)?);
    Ok(Box::new(Stealing { stream, tasks, ways, total, back }))
}

impl Program for Stealing {
    fn prepare(&mut self) -> Result<()> {
        self.stream.fill_bytes(&mut self.total, 0)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let options = RunOptions::new().policy(POLICIES[form]).workers(WORKERS);
        let (work, args) = (Work::Tasks(&self.tasks), (&mut self.total, 0u32));
        self.stream.run_workers(&QUEENS, work, &options, args)?.wait().map(drop)
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.total, &mut self.back)?;
        let (found, right) = (self.back.read()?[0], self.ways);
        Ok((found != right).then(|| format!("{found} ways are found, not {right}")))
    }
}
