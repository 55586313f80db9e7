//! Workers that are fed while they run, and policies that are chosen by measurement.

use crate::{demand_clean, device};
use trijet::workers::queens::{QUEENS, root};
use trijet::workers::{Chooser, Policy, RunOptions, Work, WorkerTask};
use trijet::{ErrorKind, Result};
use trijet_programs::echo::{ECHO, echoed};

#[test]
fn every_task_that_is_fed_is_answered_once() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    for policy in [Policy::Sharing, Policy::Stealing, Policy::Hybrid] {
        let mut sum = s.alloc_zeroed::<u64>(1)?;
        let options = RunOptions::new().policy(policy).workers(16);
        let mut feed = s.feed_workers(&ECHO, &options, (&mut sum,))?;
        let mut answers = Vec::new();
        for batch in 0..20 {
            let tasks: Vec<WorkerTask> =
                (0..batch).map(|at| WorkerTask::new(0, 100 * batch + at)).collect();
            feed.push(&tasks)?;
            answers.extend(feed.answers());
        }
        let (report, rest) = feed.finish()?;
        answers.extend(rest);
        answers.sort_unstable();
        let payloads = (0..20_u64).flat_map(|batch| (0..batch).map(move |at| 100 * batch + at));
        let payloads: Vec<u64> = payloads.collect();
        assert!(answers.into_iter().eq(payloads.iter().copied().map(echoed)), "{policy:?}");
        assert_eq!(report.ran, payloads.len() as u64);
        assert_eq!(s.download(&sum)?, [payloads.iter().sum::<u64>()]);
    }
    demand_clean(&device);
    Ok(())
}

#[test]
fn a_feed_without_tasks_ends_and_one_that_is_dropped_lets_its_workers_leave() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let mut sum = s.alloc_zeroed::<u64>(1)?;
    let feed = s.feed_workers(&ECHO, &RunOptions::default(), (&mut sum,))?;
    assert_eq!(feed.finish()?, (trijet::workers::RunReport::default(), Vec::new()));
    let mut feed = s.feed_workers(&ECHO, &RunOptions::default(), (&mut sum,))?;
    feed.push(&[WorkerTask::new(0, 3)])?;
    drop(feed);
    s.synchronize()
}

#[test]
fn a_feed_that_cannot_take_tasks_is_refused() -> Result<()> {
    let s = device()?.stream()?;
    let mut sum = s.alloc_zeroed::<u64>(1)?;
    for policy in [Policy::Static, Policy::Levels] {
        let options = RunOptions::new().policy(policy);
        let refused = s.feed_workers(&ECHO, &options, (&mut sum,)).unwrap_err();
        assert!(refused.to_string().contains("accept no tasks after the start"), "{refused}");
    }
    let alone = RunOptions::new().workers(1);
    let refused = s.feed_workers(&ECHO, &alone, (&mut sum,)).unwrap_err();
    assert!(refused.to_string().contains("a feed needs at least two workers"), "{refused}");
    let mut feed = s.feed_workers(&ECHO, &RunOptions::default(), (&mut sum,))?;
    let refused = feed.push(&[WorkerTask::new(9, 0)]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    assert!(refused.to_string().contains("there is no kind 9"), "{refused}");
    Ok(())
}

/// Each policy runs four times, and then one of them runs. The results include all runs.
#[test]
fn a_chooser_tries_each_policy_and_keeps_one() -> Result<()> {
    let device = device()?;
    let s = device.stream()?;
    let (chooser, first) = (Chooser::new(), [root(6)]);
    let mut policies = Vec::new();
    for _ in 0..20 {
        let mut total = s.alloc_zeroed::<u64>(1)?;
        let options = RunOptions::new().workers(8);
        let run = chooser.run(&s, &QUEENS, Work::Tasks(&first), &options, (&mut total, 3u32))?;
        policies.push(run.policy());
        run.wait()?;
        assert_eq!(s.download(&total)?, [4]);
    }
    let tried = &policies[..4];
    assert!(policies[..16].chunks(4).all(|turn| turn == tried), "in turn: {policies:?}");
    for policy in [Policy::Static, Policy::Sharing, Policy::Stealing, Policy::Hybrid] {
        assert!(tried.contains(&policy), "{policies:?}");
    }
    Ok(())
}
