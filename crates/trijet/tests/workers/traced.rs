//! The times of tasks that a run keeps.

use trijet::trace::{DeviceId, LaneId};
use trijet::workers::queens::{self, QUEENS};
use trijet::workers::{RunOptions, Work};
use trijet::{Nanos, Result};

/// The times of tasks are kept: of all tasks, or of the last ones of each worker.
#[test]
fn the_tasks_of_each_worker_are_kept_with_their_times() -> Result<()> {
    let s = crate::device()?.stream()?;
    for trace in [1, 3, 4096] {
        let mut total = s.alloc_zeroed::<u64>(1)?;
        let options = RunOptions::new().workers(5).trace(trace);
        let root = [queens::root(7)];
        let run = s.run_workers(&QUEENS, Work::Tasks(&root), &options, (&mut total, 4u32))?;
        let report = run.wait()?;
        assert_eq!(s.download(&total)?, [40]);
        let counts = report.workers.iter().map(|worker| worker.ran.min(u64::from(trace)));
        assert_eq!(report.tasks.len() as u64, counts.sum::<u64>());
        // On a host device one task runs at a time, so no two have the same nanosecond.
        let begins: Vec<u64> = report.tasks.iter().map(|task| task.span.start.0).collect();
        assert!(begins.is_sorted() && begins.windows(2).all(|two| two[0] < two[1]));
        let last = report.tasks.iter().map(|task| task.span.end.0).max();
        assert_eq!(last, Some(report.ran), "the last task is among those that are kept");
        for (worker, counts) in (0..).zip(&report.workers) {
            let own = report.tasks.iter().filter(|task| task.worker == worker).count() as u64;
            assert_eq!(own, counts.ran.min(u64::from(trace)), "worker {worker}");
        }
        let ops = report.ops(DeviceId(0), LaneId(7), Nanos(100));
        assert!(ops.iter().all(|op| op.label == "place" && op.position.lane.0 >= 7));
    }
    Ok(())
}
