//! The time in which nothing ran on a device, split by what the host did meanwhile.
#![forbid(unsafe_code)]

use super::calls::{Call, Calls, Class};
use trijet::Nanos;
use trijet::trace::Union;

/// The shortest gap that is counted, in nanoseconds. Shorter gaps lie between any two launches: the
/// driver takes about half of this time for one (2.4 us on an H200).
const GAP_MIN_NS: u64 = 5_000;

/// The idle time of a device. The parts sum to the total.
#[derive(Debug, Default)]
pub struct Idle {
    /// The whole idle time.
    pub total: Nanos,
    /// The number of gaps of at least 5 us.
    pub gaps: usize,
    /// The longest gap.
    pub longest: Nanos,
    /// The part in which the host waited for the GPU.
    pub waiting: Nanos,
    /// The part in which the host allocated or freed memory, and did not wait.
    pub allocating: Nanos,
    /// The part in which the host was in a call that copies, and in none of the above.
    pub copying: Nanos,
    /// The part in which the host was in another call.
    pub calling: Nanos,
    /// The part in which no thread was in a call of CUDA.
    pub elsewhere: Nanos,
}

impl Idle {
    pub(super) fn of(idle: &Union, calls: &Calls) -> Self {
        // Each part takes its time away from the later ones.
        let mut rest = idle.clone();
        let mut part = |classes: &[Class]| {
            let within = calls.time_in(classes);
            let part = rest.and(&within).length();
            rest = rest.minus(&within);
            part
        };
        let waiting = part(&[Class::DeviceSync, Class::StreamSync]);
        let allocating = part(&[Class::Alloc]);
        let copying = part(&[Class::CopySync, Class::CopyAsync]);
        let calling = part(&[Class::Other]);
        let gaps = idle.intervals().iter().map(|gap| gap.end - gap.start);
        Self {
            total: idle.length(),
            gaps: gaps.clone().filter(|&length| length >= GAP_MIN_NS).count(),
            longest: Nanos(gaps.max().unwrap_or(0)),
            waiting,
            allocating,
            copying,
            calling,
            elsewhere: rest.length(),
        }
    }
}

/// The idle time that these waits cause. For each wait, it begins with the call, or with the end of
/// the last operation if that comes later, and ends with the next operation, but it is never longer
/// than the wait itself: without the wait, the host would be ahead by that time and no more. A gap
/// that ends before the call returns is not caused by the wait, because the GPU had work in its
/// queue.
pub(super) fn caused_by<'a>(idle: &Union, calls: impl Iterator<Item = &'a Call>) -> Union {
    let gaps = idle.intervals();
    Union::of(calls.filter_map(|call| {
        let after = gaps.partition_point(|gap| gap.end < call.time.end);
        let gap = gaps.get(after).filter(|gap| gap.start <= call.time.end)?;
        let start = gap.start.max(call.time.start);
        Some(start..gap.end.min(start + (call.time.end - call.time.start)))
    }))
}
