//! The time in which nothing ran on a device, split by what the host did then.
#![forbid(unsafe_code)]

use super::calls::ProgramCalls;
use crate::base::units::Nanos;
use crate::trace::Union;
use std::ops::Range;

/// Minimum length in nanoseconds of a gap that counts. Shorter gaps occur between any two launches,
/// because the driver needs more than half of this time for one launch (3.1 us on an H200).
const GAP_MIN_NS: u64 = 5_000;

/// Gaps shorter than this number of nanoseconds count as pauses between launches. The number is ten
/// times [`GAP_MIN_NS`].
const SHORT_NS: u64 = 50_000;

/// The cause of the largest part of the idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleCause {
    /// The host waited for the GPU.
    Waits,
    /// The host allocated or freed memory.
    Allocations,
    /// The host was in calls that copy.
    Copies,
    /// More than half of the idle time is in gaps of less than 50 us, as they occur between
    /// launches.
    Launches,
    /// The host was in other calls.
    Calls,
    /// The host ran code of the program outside of CUDA.
    Program,
}

/// A part of the idle time of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePart {
    /// The name of the part for filters, which does not change between versions.
    pub key: &'static str,
    /// The activity of the host, in words that follow "the host was".
    pub host: &'static str,
    /// The length of this part of the idle time.
    pub time: Nanos,
}

/// The idle time of a device. The parts sum to the total.
#[derive(Debug, Default)]
pub struct Idle {
    /// The whole idle time.
    pub total: Nanos,
    /// The number of gaps of at least 5 us.
    pub gaps: usize,
    /// The length of the longest gap.
    pub longest: Nanos,
    /// The length of all gaps of less than 50 us.
    pub short: Nanos,
    /// The part in which the host waited for the GPU.
    pub waiting: Nanos,
    /// The part in which the host allocated or freed memory, and did not wait for the GPU.
    pub allocating: Nanos,
    /// The part in which the host was in a call that copies, and neither waited nor allocated nor
    /// freed.
    pub copying: Nanos,
    /// The part in which the host was in another call.
    pub calling: Nanos,
    /// The part in which no thread was in a call of CUDA.
    pub elsewhere: Nanos,
}

impl Idle {
    pub(super) fn of(idle: &Union, calls: &ProgramCalls) -> Self {
        let explained = [0, 1, 2, 3].map(|effect| calls.explained(effect, idle));
        let gaps = idle.intervals().iter().map(|gap| gap.end - gap.start);
        let total = idle.length();
        let part = |effect: usize| Nanos(explained[effect] - explained[effect - 1]);
        Self {
            total,
            gaps: gaps.clone().filter(|&length| length >= GAP_MIN_NS).count(),
            longest: Nanos(gaps.clone().max().unwrap_or(0)),
            short: Nanos(gaps.filter(|&length| length < SHORT_NS).sum()),
            waiting: Nanos(explained[0]),
            allocating: part(1),
            copying: part(2),
            calling: part(3),
            elsewhere: Nanos(total.0 - explained[3]),
        }
    }

    /// The cause of the largest part, and the length of that part.
    pub(super) fn cause(&self) -> (IdleCause, Nanos) {
        let parts = [
            (IdleCause::Waits, self.waiting),
            (IdleCause::Allocations, self.allocating),
            (IdleCause::Copies, self.copying),
            (IdleCause::Calls, self.calling),
            (IdleCause::Program, self.elsewhere),
        ];
        let largest = parts.into_iter().max_by_key(|(_, time)| *time);
        let (cause, time) = largest.unwrap_or((IdleCause::Program, Nanos(0)));
        let launches = matches!(cause, IdleCause::Calls | IdleCause::Program);
        if launches && self.short.0 > self.total.0 / 2 {
            return (IdleCause::Launches, self.short);
        }
        (cause, time)
    }

    /// The parts that are not empty.
    #[must_use]
    pub fn parts(&self) -> Vec<IdlePart> {
        let part = |key, host, time| IdlePart { key, host, time };
        let parts = [
            part("idle_waiting_for_the_gpu", "waiting for the GPU", self.waiting),
            part("idle_allocating_or_freeing", "allocating or freeing", self.allocating),
            part("idle_in_a_copy_call", "in a copy call", self.copying),
            part("idle_in_another_call", "in another call", self.calling),
            part("idle_outside_of_cuda", "outside of CUDA", self.elsewhere),
        ];
        parts.into_iter().filter(|part| part.time.0 > 0).collect()
    }
}

/// The idle time that these waits cause. For each wait, the idle time starts with the call, or with
/// the end of the last operation if that end is later. The idle time ends with the next operation.
/// At most the length of the wait counts, because without the wait the host would be ahead by no
/// more than that length. A gap that ends before the call returns is not caused by the wait,
/// because the GPU had work in its queue.
pub(super) fn caused_by(idle: &Union, calls: &[Range<u64>]) -> Union {
    let gaps = idle.intervals();
    Union::of(calls.iter().filter_map(|call| {
        let after = gaps.partition_point(|gap| gap.end < call.end);
        let gap = gaps.get(after).filter(|gap| gap.start <= call.end)?;
        let start = gap.start.max(call.start);
        Some(start..gap.end.min(start.saturating_add(call.end - call.start)))
    }))
}
