//! The driver contract: what a device must do, at the level of the CUDA driver API.
//!
//! Handles are plain numbers that only the driver that made them understands. Every verb may be
//! called from any thread. A verb returns an error and changes nothing, or does what its law
//! says. There are no default bodies: each driver answers for every verb.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::args::ArgBlock;
use crate::device::memory::{Memory, Span};
use crate::device::twin::Twin;
use std::fmt::Debug;

/// A stream of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamHandle(pub u64);
/// An event of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventHandle(pub u64);
/// A pool of stream-ordered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolHandle(pub u64);
/// A loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleHandle(pub u64);
/// A kernel of a loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionHandle(pub u64);

/// A function that a stream runs on a thread of the driver.
pub type HostFn = Box<dyn FnOnce() + Send + 'static>;

/// Whether an event keeps the time at which it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timing {
    /// It does.
    On,
    /// It does not, and costs less.
    Off,
}

/// The answer to a query that never blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All of the work is complete, and its effects are visible to the caller.
    Ready,
    /// Some of it is not.
    NotReady,
}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The product name; the host device says how it keeps time.
    pub name: String,
    /// Compute capability, major and minor; (0, 0) on the host device.
    pub compute: (u32, u32),
    /// Streaming multiprocessors; CPU threads on the host device.
    pub multiprocessors: u32,
    /// Copy engines that run beside kernels.
    pub copy_engines: u32,
    /// All memory of the device.
    pub memory: Bytes,
    /// The lowest and the highest stream priority (smaller numbers are more urgent).
    pub priorities: (i32, i32),
    /// The most threads of a block.
    pub block_threads_max: u32,
    /// Shared memory a block gets without asking.
    pub shared_bytes: u32,
    /// Shared memory a block may ask for.
    pub shared_bytes_optin: u32,
    /// The version the driver reports, as `1000 * major + 10 * minor`; 0 on the host device.
    pub driver_version: i32,
    /// Where times come from.
    pub clock: Clock,
}

/// Where the times of a device come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Event pairs of a real GPU.
    Device,
    /// The clock of this machine's processor.
    Processor,
    /// A model of a GPU; no time was measured.
    Model,
}

/// The compiled form of a kernel's module.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// PTX text, compiled by the driver for its device.
    Ptx(&'a str),
    /// A cubin or fatbin for the device at hand.
    Cubin(&'a [u8]),
}

/// One launch.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub function: FunctionHandle,
    /// Its name, for errors.
    pub name: &'a str,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The arguments with their accesses.
    pub args: &'a ArgBlock,
}

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    /// Memory the pool holds from the device.
    pub reserved: Bytes,
    /// The most it held since the last reset.
    pub reserved_high: Bytes,
    /// Memory not available for reuse.
    pub used: Bytes,
    /// The most since the last reset.
    pub used_high: Bytes,
}

/// A driver: one per process for CUDA, any number of host ones.
pub trait Driver: Debug + Send + Sync {
    /// The number of devices.
    ///
    /// # Errors
    /// What the driver reports.
    fn device_count(&self) -> Result<u32>;

    /// What a device says of itself.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo>;

    /// Free and total memory of a device.
    ///
    /// # Errors
    /// What the driver reports.
    fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)>;

    /// Waits for all work of the device (law A10).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn synchronize(&self, device: DeviceId) -> Result<()>;

    /// Creates a non-blocking stream: it never waits for the legacy stream (law A13).
    ///
    /// # Errors
    /// What the driver reports. A priority out of range is clamped, as CUDA does.
    fn stream_create(&self, device: DeviceId, priority: i32) -> Result<StreamHandle>;

    /// Gives a stream back. Work pending in it still runs (law A12).
    ///
    /// # Errors
    /// What the driver reports.
    fn stream_destroy(&self, stream: StreamHandle) -> Result<()>;

    /// Waits for everything enqueued in the stream so far (law A9).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()>;

    /// Whether everything enqueued so far is complete (law A9). Never blocks.
    ///
    /// # Errors
    /// An error of work that failed.
    fn stream_query(&self, stream: StreamHandle) -> Result<Readiness>;

    /// Makes all future work of `stream` wait for what `event` stands for at this call (law A7).
    ///
    /// # Errors
    /// What the driver reports.
    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    /// Creates an event that was never recorded: an empty set of work (law A5).
    ///
    /// # Errors
    /// What the driver reports.
    fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle>;

    /// Gives an event back. Waits already enqueued still hold (law A12).
    ///
    /// # Errors
    /// What the driver reports.
    fn event_destroy(&self, event: EventHandle) -> Result<()>;

    /// Makes the event stand for everything enqueued in the stream so far (law A4).
    ///
    /// # Errors
    /// `InvalidValue` when the two belong to different devices (law A6).
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;

    /// Whether the work the event stands for is complete (law A8). Never blocks.
    ///
    /// # Errors
    /// An error of work that failed.
    fn event_query(&self, event: EventHandle) -> Result<Readiness>;

    /// Waits for the work the event stands for (law A8).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn event_synchronize(&self, event: EventHandle) -> Result<()>;

    /// The time from one completed timed event to a later one.
    ///
    /// # Errors
    /// `InvalidValue` when one has no timing or was never recorded (law A5).
    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos>;

    /// Runs `run` on a thread of the driver after everything enqueued in the stream so far; later
    /// work of the stream waits for it (law A27). After a context error it is never called
    /// (law A29).
    ///
    /// # Errors
    /// What the driver reports; `run` is dropped then.
    fn host_fn(&self, stream: StreamHandle, run: HostFn) -> Result<()>;

    /// Creates a pool of stream-ordered memory with the default attributes.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_create(&self, device: DeviceId) -> Result<PoolHandle>;

    /// Gives a pool back; its resources go when its last allocation is freed (law A26).
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_destroy(&self, pool: PoolHandle) -> Result<()>;

    /// Sets how much freed memory the pool keeps at a synchronisation (law A25).
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_set_threshold(&self, pool: PoolHandle, keep: Bytes) -> Result<()>;

    /// The statistics of a pool.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_stats(&self, pool: PoolHandle) -> Result<PoolStats>;

    /// Sets the high-water marks to the current values.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_reset_high(&self, pool: PoolHandle) -> Result<()>;

    /// Returns memory to the device until at most `keep` is reserved or nothing more can go.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()>;

    /// Allocates in stream order: usable in `stream` from here on, elsewhere only after an edge
    /// (law A21).
    ///
    /// # Errors
    /// `OutOfMemory`, with what was asked and what was free.
    fn alloc(&self, stream: StreamHandle, pool: PoolHandle, bytes: Bytes) -> Result<Memory>;

    /// Frees in stream order: every access must come before (law A22).
    ///
    /// # Errors
    /// What the driver reports.
    fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()>;

    /// Allocates page-locked host memory.
    ///
    /// # Errors
    /// `OutOfMemory` when the system refuses to lock that much.
    fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory>;

    /// Frees page-locked memory. No operation may still use it. May wait for the device.
    ///
    /// # Errors
    /// What the driver reports.
    fn pinned_free(&self, memory: &Memory) -> Result<()>;

    /// Copies `src` to `dst` asynchronously; both are equally long and page-locked or on a device
    /// (law A16).
    ///
    /// # Errors
    /// What the driver reports.
    fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()>;

    /// Sets every byte of `dst`.
    ///
    /// # Errors
    /// What the driver reports.
    fn fill(&self, stream: StreamHandle, dst: &Span, value: u8) -> Result<()>;

    /// Loads a module. `label` names it in errors.
    ///
    /// # Errors
    /// `Compile` with the driver's log when it does not load.
    fn module_load(&self, device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle>;

    /// Finds a kernel, loads it eagerly (law A42) and lets it use `shared_bytes` of dynamic shared
    /// memory.
    ///
    /// # Errors
    /// `NotFound` when the module has no such kernel; `NoTwin` on the host device without a twin.
    fn function(
        &self,
        module: ModuleHandle,
        entry: &str,
        shared_bytes: u32,
        twin: Option<Twin>,
    ) -> Result<FunctionHandle>;

    /// Launches a kernel.
    ///
    /// # Errors
    /// `InvalidValue` for a shape the device refuses, or what the driver reports.
    fn launch(&self, stream: StreamHandle, launch: &Launch<'_>) -> Result<()>;
}
