//! Persistent workers: every program has its known answer under every policy, with queues of any
//! size and in every drawn order. A program that cannot run is refused before the launch, and a
//! program that would hang ends with an error that names the task.

mod answers;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod feeds;
mod payloads;
mod refused;
mod traced;

use common::{checked, demand_clean};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::workers::{Policy, RunOptions};
use trijet::{Device, Result};

/// A checked device with one order of the choices that its streams leave open.
fn device() -> Result<Device> {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor);
    Ok(checked(config)?.remove(0))
}

#[test]
fn every_program_has_its_answer_under_every_policy() -> Result<()> {
    let device = device()?;
    for policy in Policy::ALL {
        let options = RunOptions::new().workers(16);
        answers::every(&device, (policy, None), &options, 1)?;
        answers::every(&device, (policy, None), &options.statistics(), 1)?;
    }
    demand_clean(&device);
    Ok(())
}

/// The drawn order of the workers, their number, and the sizes of their queues change nothing.
#[test]
fn every_program_has_its_answer_in_every_drawn_order() -> Result<()> {
    let device = device()?;
    for seed in 0..60 {
        let policy = Policy::ALL[seed as usize % 5];
        let workers = 8 << (seed % 3);
        let queue = 1 << (seed / 5 % 4 * 3);
        // A ring for all children that have no room in the queues: without one, children are
        // refused.
        let options =
            RunOptions::new().ring(1 << 16).chunk(1 + seed % 7).workers(workers).seed(seed);
        answers::every(&device, (policy, Some(queue)), &options, seed + 1)
            .map_err(|e| e.context(format!("seed {seed}")))?;
    }
    Ok(())
}

/// All children are refused, or most of them, and their makers do their work.
#[test]
fn a_full_queue_leaves_the_work_to_the_maker_of_the_child() -> Result<()> {
    let device = device()?;
    for policy in [Policy::Static, Policy::Sharing, Policy::Stealing, Policy::Hybrid] {
        let options = RunOptions::new().policy(policy).queue(1).ring(1).workers(8);
        let report = answers::queens(&device, &options, 8, 4)?;
        assert!(report.refused > 0, "{policy:?}: {report:?}");
    }
    Ok(())
}

#[test]
fn every_program_has_its_answer_on_threads() -> Result<()> {
    let executor = Executor::Threads;
    let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
    for policy in Policy::ALL {
        answers::every(&device, (policy, None), &RunOptions::new(), 3)?;
    }
    Ok(())
}

/// The object that a payload names does not have to exist. The task then does nothing, as on a GPU.
#[test]
fn every_program_takes_any_payload() -> Result<()> {
    let device = device()?;
    for seed in 0..3 {
        let options = RunOptions::new().workers(8);
        payloads::every(&device, &options, seed)
            .map_err(|error| error.context(format!("seed {seed}")))?;
    }
    demand_clean(&device);
    Ok(())
}
