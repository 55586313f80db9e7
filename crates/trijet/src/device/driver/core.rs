//! The part of the contract that every driver has: devices, streams, events, operations, memory and
//! kernels.
#![forbid(unsafe_code)]

use super::action::Action;
use super::handle::{EventHandle, FunctionHandle, ModuleHandle, StreamHandle};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::ledger::StreamClass;
use crate::base::units::{Bytes, Nanos};
use crate::device::launch_config::LaunchConfig;
use crate::device::launch_config::Occupancy;
use crate::device::memory::Memory;
use crate::device::twin::Twin;
use std::fmt::Debug;

/// The relation of a stream to the legacy default stream of its device (laws A13 and A15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StreamKind {
    /// The stream and the legacy stream wait for each other's work.
    Blocking,
    /// The stream and the legacy stream do not wait for each other.
    NonBlocking,
}

impl StreamKind {
    /// The class that the ledger gives to a stream that is created with this kind.
    #[must_use]
    pub(crate) fn class(self) -> StreamClass {
        match self {
            Self::Blocking => StreamClass::Blocking,
            Self::NonBlocking => StreamClass::NonBlocking,
        }
    }
}

/// Whether an event keeps the time at which it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Timing {
    /// The event keeps the time.
    On,
    /// The event keeps no time and costs less.
    Off,
}

/// The answer to a query that never blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// All of the work is complete, and its effects are visible to the caller.
    Ready,
    /// Some of the work is not complete.
    NotReady,
}

/// The properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The product name. The name of a host device contains the name of its executor.
    pub name: String,
    /// Compute capability, major and minor; (0, 0) on the host device.
    pub compute: (u32, u32),
    /// The number of streaming multiprocessors; the number of CPU threads on the host device.
    pub multiprocessors: u32,
    /// The number of copy engines that can work while kernels run.
    pub copy_engines: u32,
    /// The number of hardware queues to which the driver assigns the streams of this process, if
    /// the number is known. An operation that waits for earlier work of its stream may hold back
    /// the other streams of its queue (law A47). So with more streams than queues, some streams may
    /// not run at the same time. The driver has 8 queues, or the number that the environment
    /// variable `CUDA_DEVICE_MAX_CONNECTIONS` (1 to 32) has when the process first uses CUDA. Set
    /// this variable before the program starts. A host device with modelled time reports the number
    /// that `HostConfig::hardware_queues` has set.
    pub hardware_queues: Option<u32>,
    /// The size of the whole memory of the device.
    pub memory: Bytes,
    /// The lowest and the highest stream priority. Smaller numbers are more urgent.
    pub priorities: (i32, i32),
    /// Maximum number of threads of a block.
    pub block_threads_max: u32,
    /// Maximum shared memory of a block in bytes, for a kernel that does not request more.
    pub shared_bytes: u32,
    /// Maximum shared memory of a block in bytes, for a kernel that requests it when it is loaded.
    pub shared_bytes_optin: u32,
    /// Maximum number of threads that a multiprocessor runs at the same time. On the host device,
    /// this limit and the other limits of a multiprocessor are the limits of a modelled GPU: the
    /// host device refuses the launches that exceed them.
    pub multiprocessor_threads_max: u32,
    /// Maximum number of blocks that a multiprocessor runs at the same time.
    pub multiprocessor_blocks_max: u32,
    /// Shared memory of a multiprocessor in bytes, for all of its blocks together.
    pub multiprocessor_shared_bytes: u32,
    /// The number of registers of a multiprocessor, each of 32 bits. `None` on the host device,
    /// whose kernels have no registers.
    pub multiprocessor_registers: Option<u32>,
    /// The number of threads of a warp.
    pub warp_threads: u32,
    /// Maximum number of blocks of a cluster that the library launches; 1 on a GPU without
    /// clusters.
    pub cluster_blocks_max: u32,
    /// The size of the second-level cache; `None` if it is unknown, as on the host device.
    pub l2: Option<Bytes>,
    /// The width of the bus between the device and its memory in bits; `None` if it is unknown.
    pub memory_bus_bits: Option<u32>,
    /// The clock rate of the device memory in kHz; `None` if it is unknown. Device memory transfers
    /// two bits per line of the bus and cycle.
    pub memory_clock_khz: Option<u32>,
    /// The theoretical rate of device memory in bytes per second, which follows from the width of
    /// the bus and the clock rate. Programs reach less. On a host device with modelled time, it is
    /// the rate of the model. `None` if it is unknown.
    pub memory_bytes_per_s: Option<u64>,
    /// The version of CUDA that the driver supports, as `1000 * major + 10 * minor`; 0 on the host
    /// device.
    pub driver_version: i32,
    /// Whether the device shares its memory with the host, so that kernels use page-locked memory
    /// as fast as device memory.
    pub integrated: bool,
    /// The origin of the device's times.
    pub clock: Clock,
}

/// The origin of a device's times.
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
pub(crate) enum Image<'a> {
    /// PTX text, compiled by the driver for its device.
    Ptx(&'a str),
    /// PTX text that the run-time compiler made. It contains the line numbers of the CUDA C++
    /// source.
    Compiled(&'a str),
    /// A cubin or fatbin for the device on which the module is loaded.
    Cubin(&'a [u8]),
}

/// Devices, streams, events, operations, memory and kernels.
pub(crate) trait Core: Debug + Send + Sync {
    /// The number of devices.
    ///
    /// # Errors
    /// An error of the driver.
    fn device_count(&self) -> Result<u32>;

    /// The properties of a device.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo>;

    /// Free and total memory of a device.
    ///
    /// # Errors
    /// An error of the driver.
    fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)>;

    /// Waits for all work of the device (law A10).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn synchronize(&self, device: DeviceId) -> Result<()>;

    /// Creates a stream. A priority out of range is clamped, as CUDA does.
    ///
    /// # Errors
    /// An error of the driver.
    fn stream_create(
        &self,
        device: DeviceId,
        kind: StreamKind,
        priority: i32,
    ) -> Result<StreamHandle>;

    /// The legacy default stream of a device. This stream and the blocking streams of the device
    /// wait for each other's operations (law A13). The legacy stream cannot be destroyed.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn stream_legacy(&self, device: DeviceId) -> Result<StreamHandle>;

    /// The per-thread default stream of a device: one blocking stream per host thread (law A15).
    /// All threads use the same handle, and each thread gets its own stream.
    ///
    /// # Errors
    /// `NoDevice` when there is no such device.
    fn stream_per_thread(&self, device: DeviceId) -> Result<StreamHandle>;

    /// Destroys a stream. Its pending work still runs (law A12).
    ///
    /// # Errors
    /// An error of the driver.
    fn stream_destroy(&self, stream: StreamHandle) -> Result<()>;

    /// Waits for everything enqueued in the stream so far (law A9).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()>;

    /// Whether everything enqueued in the stream so far is complete (law A9). Never blocks.
    ///
    /// # Errors
    /// An error of work that failed.
    fn stream_query(&self, stream: StreamHandle) -> Result<Readiness>;

    /// Makes all future work of `stream` wait for the work that `event` stands for at this call
    /// (law A7).
    ///
    /// # Errors
    /// An error of the driver.
    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    /// Enqueues an operation. An [`Action::Alloc`] receives its memory before the call returns.
    ///
    /// # Errors
    /// An error of the driver. `OutOfMemory` for an allocation, with the requested size and the
    /// memory that was free. `InvalidValue` for a launch shape that the device refuses, and for a
    /// copy between spans that differ in length or overlap. `Unsupported` for a batch before CUDA
    /// 12.8. After an error the operation is not enqueued.
    fn submit(&self, stream: StreamHandle, action: &Action<'_>) -> Result<()>;

    /// Creates an event that was never recorded: an empty set of work (law A5).
    ///
    /// # Errors
    /// An error of the driver.
    fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle>;

    /// Destroys an event. Waits for the event that are already enqueued stay valid (law A12).
    ///
    /// # Errors
    /// An error of the driver.
    fn event_destroy(&self, event: EventHandle) -> Result<()>;

    /// Makes the event stand for everything enqueued in the stream so far (law A4).
    ///
    /// # Errors
    /// `InvalidValue` when the event and the stream belong to different devices (law A6).
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;

    /// Whether the work that the event stands for is complete (law A8). Never blocks.
    ///
    /// # Errors
    /// An error of work that failed.
    fn event_query(&self, event: EventHandle) -> Result<Readiness>;

    /// Waits for the work that the event stands for (law A8).
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn event_synchronize(&self, event: EventHandle) -> Result<()>;

    /// The time from one timed event to a later timed event. The work of both events must be
    /// complete.
    ///
    /// # Errors
    /// `InvalidValue` when one of the events has no timing or was never recorded (law A5).
    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos>;

    /// Allocates device memory that belongs to no stream.
    ///
    /// # Errors
    /// `InvalidValue` for no bytes; `OutOfMemory`.
    fn device_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory>;

    /// Frees device memory during the call. If an [`Action::Alloc`] allocated the memory, all
    /// accesses to the memory must be complete before the call. For other memory, the call may wait
    /// for the device (law A24).
    ///
    /// # Errors
    /// An error of the driver.
    fn device_free(&self, memory: &Memory) -> Result<()>;

    /// Allocates page-locked host memory.
    ///
    /// # Errors
    /// `OutOfMemory` when the system refuses to lock `bytes` bytes.
    fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory>;

    /// Frees page-locked memory. No pending operation may use the memory. The call may wait for the
    /// device.
    ///
    /// # Errors
    /// An error of the driver.
    fn pinned_free(&self, memory: &Memory) -> Result<()>;

    /// Loads a module. Errors name the module by `label`. This is the name of the file with the
    /// code of the module, if there is such a file.
    ///
    /// # Errors
    /// `Compile`, with the log of the driver, when the image does not load.
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

    /// The number of blocks and clusters of a kernel that run at the same time with this
    /// configuration. The grid of the configuration does not change the result.
    ///
    /// # Errors
    /// `Unsupported` for clusters before CUDA 11.8; an error of the driver.
    fn occupancy(&self, function: FunctionHandle, config: &LaunchConfig) -> Result<Occupancy>;

    /// The size in bytes of each parameter of a kernel, if the driver knows them.
    ///
    /// # Errors
    /// An error of the driver.
    fn parameters(&self, function: FunctionHandle) -> Result<Option<Vec<usize>>>;
}
