//! Shares of a run in which workers were busy.
#![forbid(unsafe_code)]

use std::ops::Range;
use trijet::Nanos;
use trijet::workers::WorkerReport;

/// The time of a worker: its span, and the time that it spent in bodies of tasks.
struct WorkerTime {
    span: Range<Nanos>,
    busy: Nanos,
}

/// The busy share of each worker in percent, as the least and the greatest share. A share is the
/// time in bodies of tasks, divided by the time from the first start of a worker to the last end.
fn spread(workers: &[WorkerTime]) -> Option<[u64; 2]> {
    let start = workers.iter().map(|worker| worker.span.start.0).min()?;
    let end = workers.iter().map(|worker| worker.span.end.0).max()?;
    let share = |worker: &WorkerTime| (100 * worker.busy.0).checked_div(end.saturating_sub(start));
    let shares = || workers.iter().filter_map(share);
    Some([shares().min()?, shares().max()?])
}

/// The least and the greatest busy share of the workers of a run, as a clause.
pub(crate) fn busy_shares(load: &str, workers: &[WorkerReport]) -> String {
    let time = |worker: &WorkerReport| WorkerTime { span: worker.span.clone(), busy: worker.busy };
    match spread(&workers.iter().map(time).collect::<Vec<_>>()) {
        Some([least, most]) => format!("{load}: {least} to {most} % busy"),
        None => format!("{load}: no times"),
    }
}

#[cfg(test)]
mod tests {
    use super::{WorkerTime, busy_shares, spread};
    use trijet::Nanos;

    #[test]
    fn a_share_is_of_the_time_from_the_first_start_to_the_last_end() {
        let worker =
            |start, end, busy| WorkerTime { span: Nanos(start)..Nanos(end), busy: Nanos(busy) };
        assert_eq!(spread(&[worker(100, 200, 95), worker(110, 300, 150)]), Some([47, 75]));
        assert_eq!(spread(&[worker(100, 300, 200), worker(100, 300, 0)]), Some([0, 100]));
    }

    #[test]
    fn without_times_there_is_no_share() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[WorkerTime { span: Nanos(0)..Nanos(0), busy: Nanos(0) }]), None);
        assert_eq!(busy_shares("equal tasks", &[]), "equal tasks: no times");
    }
}
