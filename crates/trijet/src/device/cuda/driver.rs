//! The driver contract on CUDA: one foreign call per verb, wherever one call is enough.
//!
//! During a verb that names a device or an object of a device, the context of this device is
//! current in the thread. Afterwards the previous context is current again. The bodies of the verbs
//! are inherent methods, in one file for each concept of the contract.
#![forbid(unsafe_code)]

use super::context::CudaDriver;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{
    Action, Activities, CaptureMode, CaptureState, Captures, Core, DeviceInfo, Driver, EventHandle,
    Form, FunctionHandle, GraphHandle, Graphs, Image, Interop, ModuleHandle, NodeAction, Peers,
    PoolAccess, PoolAttribute, PoolHandle, Pools, Profiler, RangeSizes, Ranges, Readiness,
    Simulation, StreamHandle, StreamKind, Timing,
};
use crate::device::launch_config::LaunchConfig;
use crate::device::launch_config::Occupancy;
use crate::device::memory::{Memory, Space};
use crate::device::twin::Twin;
use std::ffi::c_void;
use std::ops::Range;

/// Implements each verb by a call of the inherent method of the same name. In that call, Rust
/// prefers the inherent method to the verb.
macro_rules! inherent {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> $answer {
            self.$name($($arg),*)
        }
    )*};
}

impl Core for CudaDriver {
    inherent! {
        device_count() -> Result<u32>;
        device_info(device: DeviceId) -> Result<DeviceInfo>;
        memory_info(device: DeviceId) -> Result<(Bytes, Bytes)>;
        synchronize(device: DeviceId) -> Result<()>;
        stream_create(device: DeviceId, kind: StreamKind, priority: i32) -> Result<StreamHandle>;
        stream_legacy(device: DeviceId) -> Result<StreamHandle>;
        stream_per_thread(device: DeviceId) -> Result<StreamHandle>;
        stream_destroy(stream: StreamHandle) -> Result<()>;
        stream_synchronize(stream: StreamHandle) -> Result<()>;
        stream_query(stream: StreamHandle) -> Result<Readiness>;
        stream_wait(stream: StreamHandle, event: EventHandle) -> Result<()>;
        event_create(device: DeviceId, timing: Timing) -> Result<EventHandle>;
        event_destroy(event: EventHandle) -> Result<()>;
        event_record(event: EventHandle, stream: StreamHandle) -> Result<()>;
        event_query(event: EventHandle) -> Result<Readiness>;
        event_synchronize(event: EventHandle) -> Result<()>;
        event_elapsed(from: EventHandle, to: EventHandle) -> Result<Nanos>;
        device_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        device_free(memory: &Memory) -> Result<()>;
        pinned_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        pinned_free(memory: &Memory) -> Result<()>;
        module_load(device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle>;
        function(module: ModuleHandle, entry: &str, shared_bytes: u32, twin: Option<Twin>)
            -> Result<FunctionHandle>;
        occupancy(function: FunctionHandle, config: &LaunchConfig) -> Result<Occupancy>;
        parameters(function: FunctionHandle) -> Result<Option<Vec<usize>>>;
    }

    #[inline]
    fn submit(&self, stream: StreamHandle, action: &Action<'_>) -> Result<()> {
        match action {
            Action::Launch(launch) => self.launch(stream, launch),
            Action::Copy { dst, src, form: Form::Async } => self.copy(stream, dst, src),
            Action::Copy { dst, src, form: Form::Sync } => self.copy_sync(stream, dst, src),
            Action::Batch { copies, order } => self.copy_batch(stream, copies, *order),
            Action::Fill { dst, value, form: Form::Async } => self.fill(stream, dst, *value),
            Action::Fill { dst, value, form: Form::Sync } => self.fill_sync(stream, dst, *value),
            Action::HostFn { run, .. } => self.host_fn(stream, run),
            Action::Foreign { run, .. } => self.foreign(stream, run),
            Action::Graph { graph, .. } => self.graph_launch(stream, *graph),
            Action::Alloc { pool, bytes, memory } => {
                memory.set(Some(self.alloc(stream, *pool, *bytes)?));
                Ok(())
            }
            Action::Free(memory) => self.free(stream, memory),
        }
    }
}

impl Pools for CudaDriver {
    inherent! {
        pool_create(device: DeviceId, max: Bytes) -> Result<PoolHandle>;
        pool_destroy(pool: PoolHandle) -> Result<()>;
        pool_default(device: DeviceId) -> Result<PoolHandle>;
        pool_current(device: DeviceId) -> Result<PoolHandle>;
        pool_set_current(device: DeviceId, pool: PoolHandle) -> Result<()>;
        pool_get(pool: PoolHandle, attribute: PoolAttribute) -> Result<u64>;
        pool_set(pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;
        pool_trim(pool: PoolHandle, keep: Bytes) -> Result<()>;
    }
}

impl Ranges for CudaDriver {
    inherent! {
        range_sizes(device: DeviceId) -> Result<RangeSizes>;
        range_reserve(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        range_map(range: &Memory, at: Range<u64>) -> Result<()>;
        range_unmap(range: &Memory, at: Range<u64>) -> Result<()>;
        range_free(range: &Memory) -> Result<()>;
    }
}

impl Peers for CudaDriver {
    inherent! {
        pool_set_access(pool: PoolHandle, device: DeviceId, access: PoolAccess) -> Result<()>;
        pool_access(pool: PoolHandle, device: DeviceId) -> Result<PoolAccess>;
        peer_possible(device: DeviceId, peer: DeviceId) -> Result<bool>;
        peer_enable(device: DeviceId, peer: DeviceId) -> Result<()>;
        peer_disable(device: DeviceId, peer: DeviceId) -> Result<()>;
    }
}

impl Graphs for CudaDriver {
    inherent! {
        graph_create(device: DeviceId) -> Result<GraphHandle>;
        graph_add(graph: GraphHandle, device: DeviceId, node: NodeAction<'_>, after: &[usize]) -> Result<()>;
        graph_ready(graph: GraphHandle) -> Result<()>;
        graph_update(graph: GraphHandle, number: usize, node: NodeAction<'_>) -> Result<()>;
        graph_destroy(graph: GraphHandle) -> Result<()>;
    }
}

impl Captures for CudaDriver {
    inherent! {
        capture_begin(stream: StreamHandle, mode: CaptureMode) -> Result<()>;
        capture_end(stream: StreamHandle) -> Result<GraphHandle>;
        capture_state(stream: StreamHandle) -> Result<CaptureState>;
    }
}

impl Interop for CudaDriver {
    inherent! {
        stream_to_raw(stream: StreamHandle) -> *mut c_void;
        stream_from_raw(device: DeviceId, raw: *mut c_void) -> Result<(StreamHandle, StreamKind)>;
        event_to_raw(event: EventHandle) -> *mut c_void;
        event_from_raw(device: DeviceId, raw: *mut c_void) -> EventHandle;
        follow_device(stream: StreamHandle) -> Result<()>;
        memory_from_raw(space: Space, address: u64, bytes: Bytes) -> Result<Memory>;
    }
}

impl Profiler for CudaDriver {
    inherent! {
        activity_begin() -> Result<()>;
        activity_tag(tag: Option<u64>) -> ();
        activity_time() -> Result<Nanos>;
        activity_take() -> Result<Activities>;
    }
}

impl Driver for CudaDriver {
    fn profiler(&self) -> Option<&dyn Profiler> {
        Some(self)
    }

    /// CUDA has no simulation: time passes by itself, and host threads run freely.
    fn simulation(&self) -> Option<&dyn Simulation> {
        None
    }
}
