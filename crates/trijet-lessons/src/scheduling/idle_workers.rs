//! The busy shares of workers under each policy, for three loads: tasks of equal length, tasks of
//! lengths as different as the lengths of sequences, and a few experts that make tasks.
#![forbid(unsafe_code)]

use crate::common::ground::Ground;
use crate::common::loads::{TaskLoad, loads};
use crate::common::shares::busy_shares;
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::workers::queens::QUEENS;
use trijet::workers::{Policy, RunOptions, Work};
use trijet::{Buffer, PinnedBuffer, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "idle-workers",
    topic: Topic::Scheduling,
    texts: &["research:241", "research:375", "research:388"],
    claim: "A static assignment leaves workers idle where tasks differ, and stealing keeps them busy.",
    forms: &["static", "sharing", "hybrid", "stealing"],
    expect: Expect::Faster,
    flag: Flag::None("the workers are one kernel, which hides its tasks from the trace"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model does not time the tasks of workers"),
    make: idle_workers,
};

const POLICIES: [Policy; 4] = [Policy::Static, Policy::Sharing, Policy::Hybrid, Policy::Stealing];
const WORKERS: u32 = 64;
/// The number of columns of the smallest board, on a GPU and on a host device.
const COLUMNS: [u8; 2] = [8, 5];

struct Idle {
    stream: Stream,
    loads: [TaskLoad; 3],
    total: Buffer<u64>,
    back: PinnedBuffer<u64>,
}

fn idle_workers(ground: &Ground) -> Result<Box<dyn Program>> {
    let loads = loads(COLUMNS[usize::from(ground.is_modelled())]);
    let stream = ground.device.stream()?;
    let (total, back) = (stream.alloc(1)?, ground.device.pinned(1)?);
    Ok(Box::new(Idle { stream, loads, total, back }))
}

impl Program for Idle {
    fn prepare(&mut self) -> Result<()> {
        self.stream.fill_bytes(&mut self.total, 0)
    }

    fn run(&mut self, form: Form) -> Result<()> {
        let options = RunOptions::new().policy(POLICIES[form]).workers(WORKERS).statistics();
        for load in &mut self.loads {
            let (work, args) = (Work::Tasks(&load.tasks), (&mut self.total, load.cut));
            let run = self.stream.run_workers(&QUEENS, work, &options, args)?;
            load.workers = run.wait()?.workers;
        }
        Ok(())
    }

    fn seen(&mut self, _: Form) -> Result<Option<String>> {
        let shares = self.loads.iter().map(|load| busy_shares(load.name, &load.workers));
        Ok(Some(shares.collect::<Vec<_>>().join(", ")))
    }

    fn wrong(&mut self, _: Form) -> Result<Option<String>> {
        self.stream.copy(&self.total, &mut self.back)?;
        let (found, right) =
            (self.back.read()?[0], self.loads.iter().map(|load| load.ways).sum::<u64>());
        Ok((found != right).then(|| format!("{found} ways are found, not {right}")))
    }
}
