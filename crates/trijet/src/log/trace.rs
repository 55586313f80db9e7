//! A finished trace: its entries, the source of their times, and the quality of these times.
#![forbid(unsafe_code)]

use crate::base::ledger::Op;
use crate::base::times::TimeSource;
use crate::base::units::Nanos;
use crate::trace::file::{About, AboutDevice};

/// The entries of a run, and the quality of their times.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trace {
    /// The entries. Entries of one stream are in the order of the driver's calls.
    pub ops: Vec<Op>,
    /// The source of the times. The times of host functions on a GPU always come from pairs of
    /// events, because CUPTI has no activities of host functions.
    pub times: TimeSource,
    /// Maximum error between a time of the host and a time of a device.
    pub clock_error: Nanos,
    /// The number of operations of engines for which no time was reported.
    pub untimed: usize,
    /// The number of activities that are missing from the times. The profiler lost some of them
    /// because it had no room. The others cannot be true, because they end after a later operation
    /// of their stream.
    pub lost: u64,
    /// The reason why the times come from pairs of events although activities were requested.
    /// `None` if the times come from the requested source.
    pub instead: Option<String>,
    /// The number of hardware queues to which the driver assigned the streams
    /// (`DeviceInfo::hardware_queues`). `None` if the number is not known.
    pub hardware_queues: Option<u32>,
    /// The devices in the trace.
    pub devices: Vec<AboutDevice>,
}

impl Trace {
    /// The description of this trace for a file. `program` is the name of the traced program.
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
    /// let trace = device.take_trace()?;
    /// let about = trace.about("an example");
    /// assert_eq!(about.times, TimeSource::HostClock);
    /// let mut file = Writer::new(Vec::new(), &about)?;
    /// trace.ops.iter().try_for_each(|op| file.push(op))?;
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
            hardware_queues: self.hardware_queues,
        }
    }
}
