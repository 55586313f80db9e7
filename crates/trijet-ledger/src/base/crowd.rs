//! Kernels that were ready and waited while exactly as many kernels ran as there are hardware
//! queues (law A47).
//!
//! The driver does not tell which streams share a queue, so the times are the only evidence.
//! Kernels also wait for a GPU that is full. The times cannot tell this cause from shared queues if
//! a full GPU runs exactly as many kernels as there are queues. So the waits of ready kernels count
//! only if
//! - in more streams than there are queues, an operation was enqueued before the previous kernel of
//!   the stream ended (only such a stream keeps its queue),
//! - exactly as many kernels ran as there are queues for at least half of the time for which ready
//!   kernels waited, and
//! - fewer kernels ran for at most a tenth of the time for which ready kernels waited.
#![forbid(unsafe_code)]

use crate::base::span::Union;
use crate::base::units::Nanos;
use std::collections::BTreeSet;
use std::ops::Range;

/// In a gap of at most this many nanoseconds between two kernels, a stream counts as running a
/// kernel. On a GPU, no other kernel starts in such a short gap.
const GAP_MAX: u64 = 5_000;

/// One run of a kernel, and the time at which the kernel was ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelRun {
    /// The number of the stream that the kernel is in.
    pub stream: usize,
    /// The time in nanoseconds at which the kernel was ready: the kernel was enqueued, and
    /// everything that the kernel follows was done.
    pub ready: u64,
    /// The interval in which the kernel ran, in nanoseconds.
    pub ran: Range<u64>,
    /// Whether another operation that needs a hardware queue was enqueued in the stream before the
    /// kernel ended.
    pub is_followed: bool,
}

/// The kernels of one device that waited for a hardware queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// For each kernel that waited, its index in the list that [`crowd`] got.
    pub runs: Vec<usize>,
    /// The numbers of the streams of the kernels that waited.
    pub streams: BTreeSet<usize>,
    /// The number of streams in which an operation was enqueued before the previous kernel of the
    /// stream ended.
    pub in_row: usize,
    /// The sum, over the kernels that waited, of the time for which each kernel waited while
    /// exactly as many kernels ran as there are queues.
    pub sum: Nanos,
    /// The time in which at least one kernel waited while exactly as many kernels ran as there are
    /// queues.
    pub waited: Union,
}

/// The kernels of one device that waited for a hardware queue. `None` if the evidence for such
/// waits is not sufficient.
pub(crate) fn crowd(runs: &[KernelRun], queues: u32) -> Option<Crowd> {
    let rows: BTreeSet<usize> =
        runs.iter().filter(|run| run.is_followed).map(|run| run.stream).collect();
    let queues = usize::try_from(queues).unwrap_or(usize::MAX);
    if rows.len() <= queues {
        return None;
    }
    let (fewer, exactly) = running(runs, queues);
    let (mut all, mut below, mut sum) = (0_u64, 0_u64, 0_u64);
    let mut found = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let wait = run.ready..run.ran.start.max(run.ready);
        let counted = exactly.overlap(&wait);
        all = all.saturating_add(wait.end - wait.start);
        below = below.saturating_add(fewer.overlap(&wait));
        sum = sum.saturating_add(counted);
        if counted > 0 {
            found.push(index);
        }
    }
    if sum == 0 || sum < all / 2 || below > all / 10 {
        return None;
    }
    let waits = Union::of(found.iter().map(|at| runs[*at].ready..runs[*at].ran.start));
    Some(Crowd {
        streams: found.iter().map(|at| runs[*at].stream).collect(),
        runs: found,
        in_row: rows.len(),
        sum: Nanos(sum),
        waited: waits.and(&exactly),
    })
}

/// Returns the time in which fewer kernels ran than there are queues, and the time in which exactly
/// as many kernels ran as there are queues. Both times begin when the first kernel was ready.
fn running(runs: &[KernelRun], queues: usize) -> (Union, Union) {
    let mut sorted: Vec<&KernelRun> = runs.iter().collect();
    sorted.sort_by_key(|run| (run.stream, run.ran.start, run.ran.end));
    let mut moments: Vec<(u64, i64)> = Vec::new();
    for (at, run) in sorted.iter().enumerate() {
        let next = sorted.get(at + 1).filter(|next| next.stream == run.stream);
        let gap = next.and_then(|next| next.ran.start.checked_sub(run.ran.end));
        let bridged = gap.filter(|gap| run.is_followed && *gap <= GAP_MAX).unwrap_or(0);
        moments.extend([(run.ran.start, 1), (run.ran.end + bridged, -1)]);
    }
    // At equal times, an end is counted before a start.
    moments.sort_unstable();
    let first = runs.iter().map(|run| run.ready).min().unwrap_or(0);
    let (mut now, mut from) = (0_i64, first);
    let (mut fewer, mut exactly) = (Vec::new(), Vec::new());
    for (time, change) in moments {
        if time > from {
            match usize::try_from(now).unwrap_or(0).cmp(&queues) {
                std::cmp::Ordering::Less => fewer.push(from..time),
                std::cmp::Ordering::Equal => exactly.push(from..time),
                std::cmp::Ordering::Greater => {}
            }
            from = time;
        }
        now += change;
    }
    (Union::of(fewer), Union::of(exactly))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two queues and three streams of two kernels: the third stream waits for the first one.
    #[test]
    fn a_kernel_waits_only_if_more_streams_than_queues_have_work_in_a_row() {
        let run = |stream, ready, ran, is_followed| KernelRun { stream, ready, ran, is_followed };
        let runs = [
            run(0, 0, 0..100_000, true),
            run(0, 100_000, 100_000..101_000, false),
            run(1, 0, 0..100_000, true),
            run(1, 100_000, 100_000..101_000, false),
            run(2, 0, 100_000..200_000, true),
            run(2, 200_000, 200_000..201_000, false),
        ];
        let found = crowd(&runs, 2).expect("it waited");
        assert_eq!((found.runs, found.sum.0), (vec![4], 100_000));
        assert_eq!(crowd(&runs, 3), None);
    }
}
