//! Time in which nothing ran on a device, by what the host did meanwhile.
#![forbid(unsafe_code)]

use super::calls::{Call, Calls, Class};
use trijet::Nanos;
use trijet::base::span::Union;

/// Gaps shorter than this are what lies between two launches, and no reproach: about two times
/// what the driver takes for one (2.4 us on an H200).
const GAP_MIN: u64 = 5_000;

/// The idle time of a device within its window, in parts that sum to it.
#[derive(Debug, Default)]
pub struct Idle {
    /// All of it.
    pub total: Nanos,
    /// Gaps of 5 us and more.
    pub gaps: usize,
    /// The longest one.
    pub longest: Nanos,
    /// While the host waited for the GPU.
    pub waiting: Nanos,
    /// While it allocated or freed, and did not wait.
    pub allocating: Nanos,
    /// While it was in a call that copies, and in none of the above.
    pub copying: Nanos,
    /// While it was in another call.
    pub calling: Nanos,
    /// While no thread was in any call: the program was busy with itself.
    pub elsewhere: Nanos,
}

impl Idle {
    pub(super) fn of(idle: &Union, calls: &Calls) -> Self {
        let mut rest = idle.clone();
        let mut part = |classes: &[Class]| {
            let within = calls.within(classes);
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
            gaps: gaps.clone().filter(|&length| length >= GAP_MIN).count(),
            longest: Nanos(gaps.max().unwrap_or(0)),
            waiting,
            allocating,
            copying,
            calling,
            elsewhere: rest.length(),
        }
    }
}

/// The idle time that waits leave behind: from the call's begin, or the moment at which the GPU ran
/// dry inside of it, to the next operation, but no longer than the wait itself. A host that does
/// not wait is ahead by that much and no more; what it does for itself afterwards, it would do too.
/// A gap that ends before the call does is none of these: the GPU had work in its queue.
pub(super) fn left_by<'a>(idle: &Union, calls: impl Iterator<Item = &'a Call>) -> Union {
    let gaps = idle.intervals();
    Union::of(calls.filter_map(|call| {
        let after = gaps.partition_point(|gap| gap.end < call.time.end);
        let gap = gaps.get(after).filter(|gap| gap.start <= call.time.end)?;
        let start = gap.start.max(call.time.start);
        Some(start..gap.end.min(start + (call.time.end - call.time.start)))
    }))
}
