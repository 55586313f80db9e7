//! Workers: a range of numbers is halved until its parts are small. For each number, the steps to 1
//! (Collatz) are counted and summed. The lengths of the tasks differ, and tasks create other tasks
//! on the device.

mod collatz;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "the other examples compute floats")]
mod common;

use collatz::{COLLATZ, steps};
use common::{Outcome, run, verify};
use std::process::ExitCode;
use trijet::Device;
use trijet::workers::{Policy, RunOptions, Work, WorkerTask};

const NUMBERS: u64 = 200_003;

fn example(device: &Device) -> Outcome<String> {
    let s = device.stream()?;
    let expected = (1..=NUMBERS).map(steps).sum::<u64>();
    let (mut tasks, mut stolen) = (0, 0);
    for policy in [Policy::Sharing, Policy::Stealing, Policy::Hybrid] {
        let mut sum = s.alloc_zeroed::<u64>(1)?;
        let (options, all) =
            (RunOptions::new().policy(policy), [WorkerTask::new(0, 1 << 28 | NUMBERS)]);
        let report = s.run_workers(&COLLATZ, Work::Tasks(&all), &options, (&mut sum,))?.wait()?;
        verify(policy.name(), &s.download(&sum)?, |_| expected)?;
        (tasks, stolen) = (tasks + report.ran, stolen + report.stolen);
    }
    Ok(format!("{tasks} tasks under 3 policies, {stolen} stolen"))
}

fn main() -> ExitCode {
    run(example)
}
