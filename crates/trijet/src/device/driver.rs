//! The driver contract: what a device must do, at the level of the CUDA driver API.
//!
//! Handles are plain numbers that only the driver that made them understands. Every verb may be
//! called from any thread. A verb returns an error and changes nothing, or does what its law
//! says. There are no default bodies: each driver answers for every verb.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
pub use crate::base::ledger::{Mode, SourceOrder};
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

/// A host thread of a script: see [`Driver::script`].
pub type Script<'a> = Box<dyn FnOnce() + Send + 'a>;

/// How a stream relates to the legacy default stream of its device (laws A13 and A15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Work of the legacy stream waits for it, and it waits for the legacy stream's.
    Blocking,
    /// It has nothing to do with the legacy stream.
    NonBlocking,
}

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

/// The answer to a poll: [`Driver::event_poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The work is complete, and its effects are visible to the caller.
    Ready,
    /// It is not; time passes by itself, so ask again later.
    Later,
    /// It is not; time passes only while somebody asks, so ask again at once.
    Again,
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

/// An attribute of a pool, by its number in `cuda.h` (`CUmemPool_attribute`). A number that the
/// driver does not know is refused with `InvalidValue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolAttribute(pub i32);

impl PoolAttribute {
    /// Reuse memory freed in another stream that the allocating one is ordered after (law A23).
    pub const REUSE_FOLLOW_EVENTS: Self = Self(1);
    /// Reuse memory whose free happens to be complete already (law A23).
    pub const REUSE_OPPORTUNISTIC: Self = Self(2);
    /// Reuse memory by making the allocating stream wait for the free (law A23).
    pub const REUSE_INTERNAL: Self = Self(3);
    /// How many freed bytes survive a synchronisation (law A25).
    pub const THRESHOLD: Self = Self(4);
    /// Bytes the pool holds from the device.
    pub const RESERVED: Self = Self(5);
    /// The most it held; can be set to 0, and takes the current value.
    pub const RESERVED_HIGH: Self = Self(6);
    /// Bytes not available for reuse.
    pub const USED: Self = Self(7);
    /// The most of them; can be set to 0, and takes the current value.
    pub const USED_HIGH: Self = Self(8);
}

/// What a device may do with the memory of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolAccess {
    /// Nothing.
    None,
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
}

/// One copy of a batch.
#[derive(Debug, Clone)]
pub struct CopySpans {
    /// Where to.
    pub dst: Span,
    /// Where from, equally long.
    pub src: Span,
}

/// When engines worked on what was enqueued under a tag: see [`Driver::activity_tag`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The tag.
    pub tag: u64,
    /// When an engine began, on the clock of [`Driver::activity_time`].
    pub begin: Nanos,
    /// When the last of what the tag stands for was done. There may be gaps in between.
    pub end: Nanos,
}

/// What [`Driver::activity_take`] gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activities {
    /// At most one for each tag, by tag.
    pub work: Vec<Activity>,
    /// Records that there was no room for: the tags that have none may have had some.
    pub lost: u64,
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

    /// Creates a stream. A priority out of range is clamped, as CUDA does.
    ///
    /// # Errors
    /// What the driver reports.
    fn stream_create(
        &self,
        device: DeviceId,
        kind: StreamKind,
        priority: i32,
    ) -> Result<StreamHandle>;

    /// The legacy default stream of a device: whatever is enqueued in it waits for all blocking
    /// streams of the device, which wait for it in turn (law A13). It cannot be destroyed.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn stream_legacy(&self, device: DeviceId) -> Result<StreamHandle>;

    /// The per-thread default stream of a device: one blocking stream per host thread (law A15).
    /// The handle means the stream of whichever thread uses it.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn stream_per_thread(&self, device: DeviceId) -> Result<StreamHandle>;

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

    /// Like [`Driver::event_query`], for who asks again until it is ready: where time is
    /// simulated, some of it passes.
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn event_poll(&self, event: EventHandle) -> Result<Progress>;

    /// Waits for the work the event stands for (law A8).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn event_synchronize(&self, event: EventHandle) -> Result<()>;

    /// What the host's clock says, where the driver has one: on the host device it is the clock
    /// that its events are timed with. Elsewhere the system's clock is all there is.
    fn host_time(&self) -> Option<Nanos>;

    /// The time from one completed timed event to a later one.
    ///
    /// # Errors
    /// `InvalidValue` when one has no timing or was never recorded (law A5).
    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos>;

    /// Notes from now on when engines begin and end the copies, fills and kernels that are enqueued
    /// under a tag: their own times, not those of the moments around them in a stream.
    ///
    /// # Errors
    /// `Unsupported` where nothing tells these times, or while another recording has them.
    fn activity_begin(&self) -> Result<()>;

    /// What the calling thread enqueues from now on is under `tag`, or under none. While nothing is
    /// noted it does nothing.
    fn activity_tag(&self, tag: Option<u64>);

    /// The clock of the activities, now.
    ///
    /// # Errors
    /// `Unsupported` where nothing tells their times.
    fn activity_time(&self) -> Result<Nanos>;

    /// Ends the noting and gives the activities of everything that is complete.
    ///
    /// # Errors
    /// `Unsupported` when nothing is noted; what the profiler reports.
    fn activity_take(&self) -> Result<Activities>;

    /// Runs `run` on a thread of the driver after everything enqueued in the stream so far; later
    /// work of the stream waits for it (law A27). After a context error it is never called
    /// (law A29). `touches` are the bytes that it reads and writes: the host device keeps other
    /// operations from them meanwhile and explores the orders of both; CUDA has no use for them.
    ///
    /// # Errors
    /// What the driver reports; `run` is dropped then.
    fn host_fn(&self, stream: StreamHandle, run: HostFn, touches: &[(Span, Mode)]) -> Result<()>;

    /// Creates a pool of stream-ordered memory with the default attributes, of at most `max`
    /// bytes; 0 is the system's own limit.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_create(&self, device: DeviceId, max: Bytes) -> Result<PoolHandle>;

    /// Gives a pool back; its resources go when its last allocation is freed (law A26). When it
    /// is the current pool of its device, the default pool takes its place.
    ///
    /// # Errors
    /// `InvalidValue` for a default pool.
    fn pool_destroy(&self, pool: PoolHandle) -> Result<()>;

    /// The default pool of a device.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn pool_default(&self, device: DeviceId) -> Result<PoolHandle>;

    /// The pool that allocations of the device take from when they name none.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn pool_current(&self, device: DeviceId) -> Result<PoolHandle>;

    /// Makes `pool` the current pool of `device`.
    ///
    /// # Errors
    /// `InvalidValue` for a pool of another device.
    fn pool_set_current(&self, device: DeviceId, pool: PoolHandle) -> Result<()>;

    /// The value of an attribute.
    ///
    /// # Errors
    /// `InvalidValue` for an attribute that the driver does not know.
    fn pool_get(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64>;

    /// Sets an attribute.
    ///
    /// # Errors
    /// `InvalidValue` for an attribute that cannot be set, or not to this value.
    fn pool_set(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;

    /// Returns memory to the device until at most `keep` is reserved or nothing more can go.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()>;

    /// Lets another device use all memory of the pool, past and future (law A39).
    ///
    /// # Errors
    /// `InvalidValue` when the pool's own device is to lose access; what the driver reports for
    /// a device that cannot reach it.
    fn pool_set_access(&self, pool: PoolHandle, device: DeviceId, access: PoolAccess)
    -> Result<()>;

    /// What a device may do with the memory of the pool.
    ///
    /// # Errors
    /// What the driver reports.
    fn pool_access(&self, pool: PoolHandle, device: DeviceId) -> Result<PoolAccess>;

    /// Allocates in stream order from `pool`, or from the current pool of the stream's device:
    /// usable in `stream` from here on, elsewhere only after an edge (law A21). No bytes are an
    /// allocation as well.
    ///
    /// # Errors
    /// `OutOfMemory`, with what was asked and what was free.
    fn alloc(&self, stream: StreamHandle, pool: Option<PoolHandle>, bytes: Bytes)
    -> Result<Memory>;

    /// Frees in stream order: every access must come before (law A22). Takes memory of
    /// [`Driver::device_alloc`] as well.
    ///
    /// # Errors
    /// What the driver reports.
    fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()>;

    /// Allocates device memory that belongs to no stream.
    ///
    /// # Errors
    /// `InvalidValue` for no bytes; `OutOfMemory`.
    fn device_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory>;

    /// Frees device memory at once. For memory of [`Driver::alloc`] all accesses are taken to be
    /// complete; for other memory it may wait for the device (law A24).
    ///
    /// # Errors
    /// What the driver reports.
    fn device_free(&self, memory: &Memory) -> Result<()>;

    /// Whether `device` can reach the memory of `peer`.
    ///
    /// # Errors
    /// `NoDevice` when one does not exist.
    fn peer_possible(&self, device: DeviceId, peer: DeviceId) -> Result<bool>;

    /// Lets `device` use the memory of `peer` that [`Driver::device_alloc`] gave, in this
    /// direction only (law A39).
    ///
    /// # Errors
    /// `Driver` when it is enabled already or not possible.
    fn peer_enable(&self, device: DeviceId, peer: DeviceId) -> Result<()>;

    /// Takes the access back.
    ///
    /// # Errors
    /// `Driver` when it is not enabled.
    fn peer_disable(&self, device: DeviceId, peer: DeviceId) -> Result<()>;

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

    /// Copies `src` to `dst`, equally long. With page-locked and device memory the call returns at
    /// once (law A16); with pageable memory it may wait for the copy or for part of it, and
    /// between two places of the host it does (law A17).
    ///
    /// # Errors
    /// What the driver reports.
    fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()>;

    /// Copies all of `copies` as one operation of the stream, without any order among them
    /// (law A19).
    ///
    /// # Errors
    /// `InvalidValue` for an empty batch, a copy of nothing in it, and in the legacy stream;
    /// `Unsupported` by drivers older than CUDA 12.8.
    fn copy_batch(
        &self,
        stream: StreamHandle,
        copies: &[CopySpans],
        order: SourceOrder,
    ) -> Result<()>;

    /// Copies `src` to `dst` in the legacy stream and waits as law A18 says: until the copy is
    /// done; for pageable sources until it is staged; for copies within a device not at all.
    ///
    /// # Errors
    /// What the driver reports.
    fn copy_now(&self, device: DeviceId, dst: &Span, src: &Span) -> Result<()>;

    /// Sets every byte of `dst` in the legacy stream; waits only for page-locked memory (law A18).
    ///
    /// # Errors
    /// What the driver reports.
    fn fill_now(&self, device: DeviceId, dst: &Span, value: u8) -> Result<()>;

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

    /// Runs host threads to their ends. Where time is simulated only one of them runs at any
    /// moment, and the order policy says at each [`Driver::pause`] and each wait whose turn it is,
    /// so that a run can be repeated; the threads must then wait for each other by events only.
    /// Else they run freely.
    fn script(&self, threads: Vec<Script<'_>>);

    /// A call of the floors above begins, and no lock is held: where threads are scripted, another
    /// one may go first.
    fn pause(&self);
}
