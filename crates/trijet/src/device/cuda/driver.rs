//! The driver contract on CUDA: one foreign call per verb, wherever one is enough.
//!
//! Every verb that names a stream first makes that stream's context current in the thread. The
//! bodies are inherent methods, a file for each concept of the contract.
#![forbid(unsafe_code)]

use super::context::CudaDriver;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{
    Activities, CopySpans, DeviceInfo, Driver, EventHandle, FunctionHandle, HostFn, Image, Launch,
    Mode, ModuleHandle, PoolAccess, PoolAttribute, PoolHandle, Progress, Readiness, Script,
    SourceOrder, StreamHandle, StreamKind, Timing,
};
use crate::device::memory::{Memory, Span};
use crate::device::twin::Twin;

/// Each verb as the inherent method of the same name, which takes precedence.
macro_rules! inherent {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name(&self, $($arg: $type),*) -> $answer {
            self.$name($($arg),*)
        }
    )*};
}

impl Driver for CudaDriver {
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
        event_poll(event: EventHandle) -> Result<Progress>;
        host_time() -> Option<Nanos>;
        activity_begin() -> Result<()>;
        activity_tag(tag: Option<u64>) -> ();
        activity_time() -> Result<Nanos>;
        activity_take() -> Result<Activities>;
        event_synchronize(event: EventHandle) -> Result<()>;
        event_elapsed(from: EventHandle, to: EventHandle) -> Result<Nanos>;
        host_fn(stream: StreamHandle, run: HostFn, touches: &[(Span, Mode)]) -> Result<()>;
        pool_create(device: DeviceId, max: Bytes) -> Result<PoolHandle>;
        pool_destroy(pool: PoolHandle) -> Result<()>;
        pool_default(device: DeviceId) -> Result<PoolHandle>;
        pool_current(device: DeviceId) -> Result<PoolHandle>;
        pool_set_current(device: DeviceId, pool: PoolHandle) -> Result<()>;
        pool_get(pool: PoolHandle, attribute: PoolAttribute) -> Result<u64>;
        pool_set(pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;
        pool_trim(pool: PoolHandle, keep: Bytes) -> Result<()>;
        pool_set_access(pool: PoolHandle, device: DeviceId, access: PoolAccess) -> Result<()>;
        pool_access(pool: PoolHandle, device: DeviceId) -> Result<PoolAccess>;
        alloc(stream: StreamHandle, pool: Option<PoolHandle>, bytes: Bytes) -> Result<Memory>;
        free(stream: StreamHandle, memory: &Memory) -> Result<()>;
        device_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        device_free(memory: &Memory) -> Result<()>;
        peer_possible(device: DeviceId, peer: DeviceId) -> Result<bool>;
        peer_enable(device: DeviceId, peer: DeviceId) -> Result<()>;
        peer_disable(device: DeviceId, peer: DeviceId) -> Result<()>;
        pinned_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        pinned_free(memory: &Memory) -> Result<()>;
        copy(stream: StreamHandle, dst: &Span, src: &Span) -> Result<()>;
        copy_batch(stream: StreamHandle, copies: &[CopySpans], order: SourceOrder) -> Result<()>;
        copy_now(device: DeviceId, dst: &Span, src: &Span) -> Result<()>;
        fill_now(device: DeviceId, dst: &Span, value: u8) -> Result<()>;
        fill(stream: StreamHandle, dst: &Span, value: u8) -> Result<()>;
        module_load(device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle>;
        function(module: ModuleHandle, entry: &str, shared_bytes: u32, twin: Option<Twin>)
            -> Result<FunctionHandle>;
        launch(stream: StreamHandle, launch: &Launch<'_>) -> Result<()>;
    }

    /// Threads run freely here.
    fn pause(&self) {}

    fn script(&self, threads: Vec<Script<'_>>) {
        std::thread::scope(|scope| {
            for thread in threads {
                scope.spawn(thread);
            }
        });
    }
}
