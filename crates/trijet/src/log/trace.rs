//! A recording that was taken: the operations, where their times come from, and how good they are.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::base::times::TimeSource;
use crate::base::units::Nanos;
use crate::trace::file::{About, AboutDevice};

/// The records of a run, and what their times are worth.
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// use trijet::trace::TimeSource;
    /// use trijet::trace::file::Writer;
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
