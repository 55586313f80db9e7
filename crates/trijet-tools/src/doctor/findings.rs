//! The results of all measurements, as plain data.
#![forbid(unsafe_code)]

use super::verdict::{HostVerdict, StreamVerdict};
use crate::stats::Samples;
use trijet::{Bytes, DeviceInfo};

/// The path of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// From page-locked host memory to the device.
    Upload,
    /// From the device to page-locked host memory.
    Download,
    /// Uploads and downloads at the same time. The rate is the rate of one direction.
    Duplex,
    /// From pageable host memory to the device.
    PageableUpload,
    /// From the device to pageable host memory.
    PageableDownload,
    /// Within the device. The rate counts both the bytes that are read and the bytes that are
    /// written.
    OnDevice,
    /// From the measured device to another device.
    Peer,
}

impl Path {
    /// All paths.
    pub const ALL: [Self; 7] = [
        Self::Upload,
        Self::Download,
        Self::Duplex,
        Self::PageableUpload,
        Self::PageableDownload,
        Self::OnDevice,
        Self::Peer,
    ];

    /// The name of the path in tables.
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
    /// The path of the copies.
    pub path: Path,
    /// The size of each copy.
    pub bytes: Bytes,
    /// The number of copies in a sample.
    pub copies: u64,
    /// The rate in 10^9 bytes per second.
    pub gb_per_s: Samples,
    /// The fraction of the time of the copies that the host spent in the copy calls. There are no
    /// samples for `Duplex`, `OnDevice` and `Peer`.
    pub host_busy: Samples,
    /// The order in which the copies of both directions were submitted. `None` for all paths but
    /// `Duplex`.
    pub pattern: Option<&'static str>,
}

/// The cost of a call.
#[derive(Debug, Clone)]
pub struct CallCost {
    /// The name of the call.
    pub call: &'static str,
    /// Host time of the bare driver call, in nanoseconds. `None` if there is no such call.
    pub bare_ns: Option<Samples>,
    /// Time from the first call until the device had completed the work of all calls, divided by
    /// the number of bare calls, in nanoseconds.
    pub bare_through_ns: Option<Samples>,
    /// Host time of the call through the library, in nanoseconds. `None` if there is no such call.
    pub trijet_ns: Option<Samples>,
}

/// The effect of a call on running work. A long kernel runs on a stream a, the call is made, and a
/// short kernel is launched on a stream b.
#[derive(Debug, Clone)]
pub struct Blocked {
    /// The name of the call.
    pub call: String,
    /// The kind of the streams a and b.
    pub streams: &'static str,
    /// Host time of the call on an idle device, in microseconds.
    pub alone_us: Samples,
    /// Host time of the call while the long kernel runs on stream a, in microseconds.
    pub beside_us: Samples,
    /// Time from the call to the end of the long kernel on stream a, in microseconds.
    pub kernel_us: Samples,
    /// The effect of the call on the host.
    pub host: HostVerdict,
    /// The effect of the call on the short kernel on stream b.
    pub stream: StreamVerdict,
    /// The number of repeats that had these verdicts, and the number of all repeats.
    pub agreeing: (usize, usize),
}

/// Whether a kernel on one kind of stream waits for an earlier kernel on another kind of stream.
#[derive(Debug, Clone)]
pub struct BlockingPair {
    /// The kind of the stream of the first kernel.
    pub first: &'static str,
    /// The kind of the stream of the second kernel.
    pub second: &'static str,
    /// The effect of the first kernel on the second kernel.
    pub stream: StreamVerdict,
    /// The number of repeats that had this verdict, and the number of all repeats.
    pub agreeing: (usize, usize),
}

/// The number of kernels that ran at the same time in a measurement. Each kernel had its own
/// stream, with one operation that was enqueued after the kernel.
#[derive(Debug, Clone)]
pub struct QueueShare {
    /// The operation that was enqueued after each kernel.
    pub behind: &'static str,
    /// The number of streams.
    pub streams: u64,
    /// The number of kernels that ran at the same time.
    pub at_once: u64,
    /// The number of repeats that had this result, and the number of all repeats.
    pub agreeing: (usize, usize),
}

/// Work whose time beside other work is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Copies from page-locked host memory to the device.
    Upload,
    /// Copies from the device to page-locked host memory.
    Download,
    /// A kernel that computes in all multiprocessors, and whose memory fits into the cache.
    Computing,
    /// A kernel that reads and writes arrays that are larger than the cache, and computes little.
    Memory,
}

impl Load {
    /// All kinds of work.
    pub const ALL: [Self; 4] = [Self::Upload, Self::Download, Self::Computing, Self::Memory];

    /// The name of the work in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Computing => "computing",
            Self::Memory => "memory-bound",
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// The time of work alone, and beside other work that starts at the same time.
#[derive(Debug, Clone)]
pub struct Contention {
    /// All work that runs together.
    pub at_once: &'static [Load],
    /// The measured work, which is one of `at_once`.
    pub load: Load,
    /// Device time of the measured work alone, in microseconds.
    pub alone_us: Samples,
    /// Device time of the measured work beside the other work, in microseconds.
    pub beside_us: Samples,
    /// The additional time beside the other work, in percent of the time alone. It is the median of
    /// the repeats, each with both times.
    pub longer_percent: f64,
    /// Whether the other work lasted until the end of the measured work in all repeats. If not, the
    /// additional time beside work that lasts is at least `longer_percent`.
    pub is_whole: bool,
}

/// Limits of the device.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The number of one-block kernels that ran at the same time, and the number of kernels that
    /// were launched.
    pub resident_grids: Option<(u64, u64)>,
    /// The number of one-block kernels that ran at the same time if an event was recorded after
    /// each kernel.
    pub resident_recorded: Option<u64>,
    /// `Ok` with the number of launches that a busy stream accepted before a launch delayed the
    /// host. `Err` with the number of all launches if no launch delayed the host.
    pub queue_depth: Option<Result<u64, u64>>,
    /// The device memory that one new stream takes, in bytes.
    pub stream_bytes: Option<u64>,
}

/// The cost of one way to allocate and free.
#[derive(Debug, Clone)]
pub struct AllocPair {
    /// The name of the way.
    pub way: &'static str,
    /// The size of the allocation.
    pub bytes: Bytes,
    /// Time of one allocation and its free, in nanoseconds.
    pub pair_ns: Samples,
}

/// The cost of one way to launch a chain of kernels.
#[derive(Debug, Clone)]
pub struct ChainLaunch {
    /// The name of the kernel of the chain.
    pub kernel: &'static str,
    /// The name of the way to launch the chain.
    pub way: &'static str,
    /// The number of kernels in the chain.
    pub kernels: u32,
    /// Device time per kernel, in nanoseconds.
    pub kernel_ns: Samples,
    /// Host time per launch call, in nanoseconds. A launch call starts one kernel or the whole
    /// graph.
    pub launch_ns: Samples,
}

/// A measurement without a result, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The name of the measurement.
    pub what: String,
    /// The reason why there is no result.
    pub why: String,
}

/// Another device of the machine.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The ordinal of this device.
    pub ordinal: u32,
    /// The name of this device.
    pub name: String,
    /// Whether the measured device can access the memory of this device.
    pub reached: bool,
    /// Whether this device can access the memory of the measured device.
    pub reaches: bool,
}

/// The rates of copies from one GPU to another one, in 10^9 bytes per second.
#[derive(Debug, Clone)]
pub struct Link {
    /// The ordinal of the source.
    pub from: u32,
    /// The ordinal of the destination.
    pub to: u32,
    /// The rate of copies from the source to the destination, while nothing else is copied.
    pub alone: Samples,
    /// The rate of copies from the source to the destination, while copies in the other direction
    /// run.
    pub both: Samples,
    /// The rate of copies from the source to the destination, while copies between all pairs of
    /// GPUs run.
    pub all: Samples,
    /// The rate of copies from the source to the destination, while copies between all pairs of
    /// GPUs run and every GPU copies from and to the host.
    pub beside: Samples,
}

/// The findings of all measurements.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The measured device.
    pub device: DeviceInfo,
    /// The ordinal of the device within its driver.
    pub ordinal: u32,
    /// The date of the measurement.
    pub date: String,
    /// The version of the driver's kernel module. `None` if the system does not report it.
    pub kernel_driver: Option<String>,
    /// The other CUDA devices of the machine.
    pub neighbours: Vec<Neighbour>,
    /// The rates of copies between all pairs of CUDA devices.
    pub links: Vec<Link>,
    /// The rates of copies, for each path and size.
    pub rates: Vec<Rate>,
    /// The costs of calls.
    pub calls: Vec<CallCost>,
    /// The effects of calls on running work.
    pub blocked: Vec<Blocked>,
    /// For each pair of kinds of streams, whether the second kernel waits for the first kernel.
    pub pairs: Vec<BlockingPair>,
    /// The limits of the device.
    pub limits: Limits,
    /// For each kind of operation after the kernels, the number of kernels that ran at the same
    /// time.
    pub queue_shares: Vec<QueueShare>,
    /// The time of work beside other work.
    pub contention: Vec<Contention>,
    /// The costs of the ways to allocate and free.
    pub allocations: Vec<AllocPair>,
    /// The costs of the ways to launch a chain of kernels.
    pub chains: Vec<ChainLaunch>,
    /// The measurements that do not apply to this device.
    pub absent: Vec<Absent>,
    /// The measurements that failed.
    pub failed: Vec<Absent>,
    /// The time that all measurements took, in seconds.
    pub elapsed_s: f64,
}

impl Findings {
    /// Makes findings without any measurement.
    #[must_use]
    pub fn new(device: DeviceInfo, ordinal: u32) -> Self {
        Self {
            device,
            ordinal,
            date: format!("{:.0}", jiff::Timestamp::now()),
            kernel_driver: None,
            neighbours: Vec::new(),
            links: Vec::new(),
            rates: Vec::new(),
            calls: Vec::new(),
            blocked: Vec::new(),
            pairs: Vec::new(),
            limits: Limits::default(),
            queue_shares: Vec::new(),
            contention: Vec::new(),
            allocations: Vec::new(),
            chains: Vec::new(),
            absent: Vec::new(),
            failed: Vec::new(),
            elapsed_s: 0.0,
        }
    }

    /// The median rate of one path for each size, in 10^9 bytes per second.
    #[must_use]
    pub fn curve(&self, path: Path) -> Vec<(Bytes, f64)> {
        let of = |rate: &&Rate| rate.path == path;
        self.rates.iter().filter(of).map(|r| (r.bytes, r.gb_per_s.quantile(0.5))).collect()
    }

    /// Whether the device is a GPU.
    #[must_use]
    pub fn on_gpu(&self) -> bool {
        self.device.compute.0 > 0
    }
}
