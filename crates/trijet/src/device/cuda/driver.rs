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
    DeviceInfo, Driver, EventHandle, FunctionHandle, HostFn, Image, Launch, ModuleHandle,
    PoolHandle, PoolStats, Readiness, StreamHandle, Timing,
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
        stream_create(device: DeviceId, priority: i32) -> Result<StreamHandle>;
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
        host_fn(stream: StreamHandle, run: HostFn) -> Result<()>;
        pool_create(device: DeviceId) -> Result<PoolHandle>;
        pool_destroy(pool: PoolHandle) -> Result<()>;
        pool_set_threshold(pool: PoolHandle, keep: Bytes) -> Result<()>;
        pool_stats(pool: PoolHandle) -> Result<PoolStats>;
        pool_reset_high(pool: PoolHandle) -> Result<()>;
        pool_trim(pool: PoolHandle, keep: Bytes) -> Result<()>;
        alloc(stream: StreamHandle, pool: PoolHandle, bytes: Bytes) -> Result<Memory>;
        free(stream: StreamHandle, memory: &Memory) -> Result<()>;
        pinned_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
        pinned_free(memory: &Memory) -> Result<()>;
        copy(stream: StreamHandle, dst: &Span, src: &Span) -> Result<()>;
        fill(stream: StreamHandle, dst: &Span, value: u8) -> Result<()>;
        module_load(device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle>;
        function(module: ModuleHandle, entry: &str, shared_bytes: u32, twin: Option<Twin>)
            -> Result<FunctionHandle>;
        launch(stream: StreamHandle, launch: &Launch<'_>) -> Result<()>;
    }
}
