//! The times of a trace: their source, and the intervals that they measure.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The source of the times of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TimeSource {
    /// Pairs of events on a device with a simulated clock: exact, but the times of no real machine.
    Model,
    /// Pairs of events on the processor's clock, around work on CPU threads.
    HostClock,
    /// Pairs of events on a GPU: from the moment at which the operation was ready to its end. If
    /// operations of several streams queue for one engine, the time in the queue counts.
    EventPairs,
    /// The work of the engines, from start to end. On a GPU, CUPTI measures these times. On a
    /// device with a simulated clock, they are exact.
    Activity,
    /// The trace has no times.
    #[default]
    Missing,
}

impl TimeSource {
    /// Whether the times were measured by pairs of events in the streams.
    #[must_use]
    pub fn is_of_events(self) -> bool {
        match self {
            Self::Model | Self::HostClock | Self::EventPairs => true,
            Self::Activity | Self::Missing => false,
        }
    }

    /// Whether the time of an operation begins when its engine starts the work. Otherwise the time
    /// begins when the operation is ready, so that the time in the queue of an engine counts.
    #[must_use]
    pub fn begins_with_the_work(self) -> bool {
        match self {
            Self::Activity => true,
            Self::Model | Self::HostClock | Self::EventPairs | Self::Missing => false,
        }
    }
}

/// The source that a trace takes the times of operations from.
///
/// ```
/// use trijet::trace::TimeSource;
/// use trijet::Device;
/// use trijet::sim::{Executor, HostConfig, Order};
/// use trijet::trace::TimesFrom;
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
/// let (a, b) = (device.stream()?, device.stream()?);
/// let h = device.pinned::<u8>(1 << 20)?;
/// let (mut x, mut y) = (a.alloc::<u8>(1 << 20)?, b.alloc::<u8>(1 << 20)?);
/// let mut run = |from| {
///     device.start_trace_from(&a, from)?;
///     a.copy(&h, &mut x)?;
///     b.copy(&h, &mut y)?;
///     device.synchronize()?;
///     device.take_trace()
/// };
/// let (pairs, engines) = (run(TimesFrom::Events)?, run(TimesFrom::Activity)?);
/// assert_eq!((pairs.times, engines.times), (TimeSource::Model, TimeSource::Activity));
/// let lengths = |ops: &[trijet::trace::Op]| -> u64 {
///     ops.iter().filter_map(|op| op.times).map(|times| times.end.0 - times.begin.0).sum()
/// };
/// // The second copy queued for the engine. Its pair of events includes that time.
/// assert!(lengths(&pairs.ops) > lengths(&engines.ops));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TimesFrom {
    /// Pairs of timed events. The time of an operation is from the moment at which it is ready to
    /// its end. If several streams queue for one engine, the time of an operation includes the time
    /// in the queue. With more streams than hardware queues, the events may hold streams back
    /// ([`queued::held_by_events`](crate::trace::queued::held_by_events)).
    #[default]
    Events,
    /// Activities of the engines, as for [`TimesFrom::Activity`], if activities are available. Then
    /// no event is recorded, except around host functions on a GPU. If activities are not
    /// available, pairs of events measure the times, and `Trace::instead` has the reason.
    ActivityIfThere,
    /// Activities of the engines: the time of an operation is from its start to its end. On a GPU
    /// the activities come from CUPTI, whose library is opened at run time. In the virtual executor
    /// they are exact. Only one trace of a driver at a time can have activities.
    Activity,
}
