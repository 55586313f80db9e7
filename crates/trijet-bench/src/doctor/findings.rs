//! Everything that was measured, as plain data.
#![forbid(unsafe_code)]

use super::verdict::{HostVerdict, StreamVerdict};
use crate::stats::Samples;
use trijet::{Bytes, DeviceInfo};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Page-locked host memory to the device.
    Upload,
    /// The device to page-locked host memory.
    Download,
    /// Both at once; the rate is that of each way.
    Duplex,
    /// Ordinary host memory to the device.
    PageableUpload,
    /// The device to ordinary host memory.
    PageableDownload,
    /// Within the device; bytes read and written are counted.
    OnDevice,
    /// To another device.
    Peer,
}

impl Path {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Upload,
        Self::Download,
        Self::Duplex,
        Self::PageableUpload,
        Self::PageableDownload,
        Self::OnDevice,
        Self::Peer,
    ];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "H2D",
            Self::Download => "D2H",
            Self::Duplex => "both, each way",
            Self::PageableUpload => "pageable H2D",
            Self::PageableDownload => "pageable D2H",
            Self::OnDevice => "on device",
            Self::Peer => "peer",
        }
    }
}

/// The rate of copies of one size.
#[derive(Debug, Clone)]
pub struct Rate {
    /// Which way.
    pub path: Path,
    /// The size of each copy.
    pub bytes: Bytes,
    /// Copies of one sample.
    pub copies: u64,
    /// 10^9 bytes per second.
    pub gb_per_s: Samples,
    /// The share of the time in which the host was inside the calls.
    pub host_busy: Samples,
    /// How they were submitted, where there is a choice.
    pub pattern: Option<&'static str>,
}

/// What a call costs.
#[derive(Debug, Clone)]
pub struct CallCost {
    /// The call.
    pub call: &'static str,
    /// Host time of the driver's own call, in nanoseconds.
    pub bare_ns: Option<Samples>,
    /// Time until the device was done with a burst of bare calls, per call, in nanoseconds.
    pub bare_through_ns: Option<Samples>,
    /// Host time through the library, in nanoseconds.
    pub trijet_ns: Option<Samples>,
}

/// What a call did to work that was running.
#[derive(Debug, Clone)]
pub struct Blocked {
    /// The call.
    pub call: String,
    /// The kinds of the streams a and b.
    pub streams: &'static str,
    /// Host time of the call on an idle device, in microseconds.
    pub alone_us: Samples,
    /// Host time of the call beside a kernel on stream a, in microseconds.
    pub beside_us: Samples,
    /// How long that kernel still ran at the call, in microseconds.
    pub kernel_us: Samples,
    /// The host.
    pub host: HostVerdict,
    /// A kernel on stream b.
    pub stream: StreamVerdict,
    /// Repeats that gave these verdicts, of all.
    pub agreeing: (usize, usize),
}

/// Whether a kernel on one kind of stream waits for one on another.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The kind of the first stream.
    pub first: &'static str,
    /// The kind of the second.
    pub second: &'static str,
    /// What happened to the second kernel.
    pub stream: StreamVerdict,
    /// Repeats that gave this verdict, of all.
    pub agreeing: (usize, usize),
}

/// Limits of the device.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// One-block kernels that ran at once, and how many were launched.
    pub resident_grids: Option<(u64, u64)>,
    /// The same with an event record behind each kernel.
    pub resident_recorded: Option<u64>,
    /// Launches that fit behind a busy stream before the host was held up: `Err` is how many did
    /// without that.
    pub queue_depth: Option<Result<u64, u64>>,
    /// Device memory of one stream.
    pub stream_bytes: Option<u64>,
}

/// One way to allocate and free.
#[derive(Debug, Clone)]
pub struct AllocPair {
    /// The way.
    pub way: &'static str,
    /// The size.
    pub bytes: Bytes,
    /// Time of an allocation and its free, in nanoseconds.
    pub pair_ns: Samples,
}

/// One way to launch a chain of kernels.
#[derive(Debug, Clone)]
pub struct Chain {
    /// The kernels.
    pub kernel: &'static str,
    /// The way.
    pub way: &'static str,
    /// Kernels in the chain.
    pub kernels: u32,
    /// Time on the device per kernel, in nanoseconds.
    pub kernel_ns: Samples,
    /// Host time per launch, of a kernel or of the graph, in nanoseconds.
    pub launch_ns: Samples,
}

/// Something that was not measured, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Another device of the machine.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Whether the measured device reaches its memory.
    pub reached: bool,
    /// Whether it reaches the memory of the measured device.
    pub reaches: bool,
}

/// All findings.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The device.
    pub device: DeviceInfo,
    /// Its ordinal within its driver.
    pub ordinal: u32,
    /// When it was measured.
    pub date: String,
    /// The version of the kernel's driver, where the system tells.
    pub kernel_driver: Option<String>,
    /// The second-level cache, where the driver tells.
    pub l2: Option<Bytes>,
    /// Other CUDA devices.
    pub neighbours: Vec<Neighbour>,
    /// Rates of copies.
    pub rates: Vec<Rate>,
    /// Costs of calls.
    pub calls: Vec<CallCost>,
    /// What blocks what.
    pub blocked: Vec<Blocked>,
    /// The matrix of default streams.
    pub pairs: Vec<Pair>,
    /// Limits.
    pub limits: Limits,
    /// Ways to allocate.
    pub allocations: Vec<AllocPair>,
    /// Ways to launch.
    pub chains: Vec<Chain>,
    /// What does not apply here.
    pub absent: Vec<Absent>,
    /// What failed.
    pub failed: Vec<Absent>,
    /// How long all of it took, in seconds.
    pub elapsed_s: f64,
}

impl Findings {
    /// Nothing is measured yet.
    #[must_use]
    pub fn new(device: DeviceInfo, ordinal: u32) -> Self {
        Self {
            device,
            ordinal,
            date: format!("{:.0}", jiff::Timestamp::now()),
            kernel_driver: None,
            l2: None,
            neighbours: Vec::new(),
            rates: Vec::new(),
            calls: Vec::new(),
            blocked: Vec::new(),
            pairs: Vec::new(),
            limits: Limits::default(),
            allocations: Vec::new(),
            chains: Vec::new(),
            absent: Vec::new(),
            failed: Vec::new(),
            elapsed_s: 0.0,
        }
    }

    /// The median rates of one path, by size, in 10^9 bytes per second.
    #[must_use]
    pub fn curve(&self, path: Path) -> Vec<(Bytes, f64)> {
        let of = |rate: &&Rate| rate.path == path;
        self.rates.iter().filter(of).map(|r| (r.bytes, r.gb_per_s.quantile(0.5))).collect()
    }

    /// Whether a GPU was measured.
    #[must_use]
    pub fn on_gpu(&self) -> bool {
        self.device.compute.0 > 0
    }
}
