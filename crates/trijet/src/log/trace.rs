//! A recording that was taken: the operations, where their times come from, and how good they are.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::base::units::Nanos;
use crate::trace::file::{About, AboutDevice, TimeSource};

/// What a recording takes the times of operations from.
///
/// ```
/// use trijet::trace::file::TimeSource;
/// use trijet::{Device, Executor, HostConfig, Order, TimesFrom};
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::host(HostConfig { executor, ..HostConfig::default() })?.remove(0);
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
/// let lengths = |ops: &[trijet::base::ledger::Op]| -> u64 {
///     ops.iter().filter_map(|op| op.times).map(|times| times.end.0 - times.begin.0).sum()
/// };
/// // The second copy queued for the one engine, which its pair of events counts.
/// assert!(lengths(&pairs.ops) > lengths(&engines.ops));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimesFrom {
    /// Pairs of timed events: from ready to end. Where several streams queue for one engine, the
    /// time in the queue counts.
    #[default]
    Events,
    /// What the engines did, where something tells it: see [`TimesFrom::Activity`]. Elsewhere pairs
    /// of events, and [`Trace::instead`] says why.
    ActivityIfThere,
    /// What the engines did, from begin to end: on a GPU by CUPTI, whose library is opened at run
    /// time; exact in the virtual executor. One recording of a driver at a time has them.
    Activity,
}

/// The records of a run, and what their times are worth.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The operations, in the order of the driver's calls of each stream.
    pub ops: Vec<Op>,
    /// Where their times come from. Host functions of a GPU, of which CUPTI knows nothing, have
    /// pairs of events in any case.
    pub times: TimeSource,
    /// By how much the host's times may be off those of the device.
    pub clock_error: Nanos,
    /// Operations of engines without a time: nothing was told of them.
    pub untimed: usize,
    /// Records that the profiler had no room for.
    pub lost: u64,
    /// Why the times are from pairs of events, where better ones had been asked for.
    pub instead: Option<String>,
    /// The devices that were recorded.
    pub devices: Vec<AboutDevice>,
}

impl Trace {
    /// What a file with these operations says of itself.
    ///
    /// ```
    /// use trijet::trace::file::{TimeSource, Writer};
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let stream = device.stream()?;
    /// device.start_trace(&stream)?;
    /// stream.alloc::<u8>(16)?;
    /// device.synchronize()?;
    /// let recording = device.take_trace()?;
    /// let about = recording.about("an example");
    /// assert_eq!(about.times, TimeSource::HostClock);
    /// let mut file = Writer::new(Vec::new(), &about)?;
    /// recording.ops.iter().try_for_each(|op| file.push(op))?;
    /// assert!(!file.finish()?.is_empty());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn about(&self, program: &str) -> About {
        About {
            tool: concat!("trijet ", env!("CARGO_PKG_VERSION")).to_owned(),
            program: program.to_owned(),
            times: self.times,
            clock_error_ns: self.clock_error.0,
            dropped: 0,
            order: None,
            devices: self.devices.clone(),
        }
    }
}
