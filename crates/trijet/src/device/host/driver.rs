//! The driver contract, verb by verb, on the engine.
#![forbid(unsafe_code)]

use super::engine::{Kernel, Work};
use super::mem::HostBytes;
use super::{Executor, Function, HostDriver};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::driver::{
    Clock, DeviceInfo, Driver, EventHandle, FunctionHandle, HostFn, Image, Launch, ModuleHandle,
    PoolHandle, PoolStats, Readiness, StreamHandle, Timing,
};
use crate::device::memory::{Memory, Space, Span};
use crate::device::twin::{Twin, check_disjoint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Host devices accept what a GPU accepts, so that a shape that works here works there.
const BLOCK_THREADS_MAX: u32 = 1024;

impl HostDriver {
    fn push(&self, op: &'static str, stream: StreamHandle, work: Work) -> Result<()> {
        let mut state = self.shared.lock();
        let now = self.enqueue_time(&mut state, |cost| cost.enqueue);
        state.engine.push(op, stream, now, work)?;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn no_bytes(op: &'static str, bytes: Bytes) -> Error {
        Error::new(ErrorKind::OutOfMemory, op, format!("the system has no {bytes} left"))
    }
}

impl Driver for HostDriver {
    fn device_count(&self) -> Result<u32> {
        Ok(self.config.devices)
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        self.check_device("device info", device)?;
        let (name, clock) = match self.config.executor {
            Executor::Threads => ("host device (CPU threads)", Clock::Processor),
            Executor::Virtual(_) => ("host device (modelled H200)", Clock::Model),
        };
        Ok(DeviceInfo {
            name: name.to_owned(),
            compute: (0, 0),
            multiprocessors: u32::try_from(self.shared.threads).unwrap_or(u32::MAX),
            copy_engines: 2,
            memory: self.config.memory,
            priorities: (0, -5),
            block_threads_max: BLOCK_THREADS_MAX,
            shared_bytes: 48 << 10,
            shared_bytes_optin: 227 << 10,
            driver_version: 0,
            clock,
        })
    }

    fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)> {
        self.check_device("memory info", device)?;
        Ok(self.shared.lock().pools.free_bytes(device))
    }

    fn synchronize(&self, device: DeviceId) -> Result<()> {
        self.check_device("synchronize", device)?;
        let state = self.shared.lock();
        state.engine.check_lost(device)?;
        let of_device = state.engine.streams.iter().filter(|(_, s)| s.device == device);
        let targets: Vec<_> =
            of_device.map(|(handle, s)| (StreamHandle(*handle), s.submitted)).collect();
        drop(state);
        for (stream, seq) in targets {
            self.wait_for("synchronize", stream, seq)?;
        }
        self.shared.lock().engine.check_lost(device)
    }

    fn stream_create(&self, device: DeviceId, priority: i32) -> Result<StreamHandle> {
        self.check_device("stream create", device)?;
        let mut state = self.shared.lock();
        state.engine.check_lost(device)?;
        Ok(state.engine.stream_create(device, priority.clamp(-5, 0)))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.shared.lock().engine.stream_destroy(stream)
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let op = "stream synchronize";
        let mut state = self.shared.lock();
        let found = state.engine.live_stream(op, stream)?;
        let (device, seq) = (found.device, found.submitted);
        state.engine.check_lost(device)?;
        drop(state);
        self.wait_for(op, stream, seq)?;
        self.shared.lock().engine.check_lost(device)
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<Readiness> {
        let mut state = self.catch_up(self.shared.lock())?;
        let found = state.engine.live_stream("stream query", stream)?;
        let (device, seq) = (found.device, found.submitted);
        state.engine.check_lost(device)?;
        Ok(state.engine.query(Some((stream, seq))))
    }

    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let mut state = self.shared.lock();
        let now = self.enqueue_time(&mut state, |cost| cost.event_call);
        state.engine.stream_wait(stream, event, now)?;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle> {
        self.check_device("event create", device)?;
        Ok(self.shared.lock().engine.event_create(device, timing))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.shared.lock().engine.event_destroy(event)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let mut state = self.shared.lock();
        let now = self.enqueue_time(&mut state, |cost| cost.event_call);
        state.engine.event_record(event, stream, now)?;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn event_query(&self, event: EventHandle) -> Result<Readiness> {
        let state = self.catch_up(self.shared.lock())?;
        let target = state.engine.snapshot(event)?;
        Ok(state.engine.query(target))
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let state = self.shared.lock();
        let Some((stream, seq)) = state.engine.snapshot(event)? else { return Ok(()) };
        // A stream that is gone has completed everything.
        let Ok(device) = state.engine.device_of(stream) else { return Ok(()) };
        drop(state);
        self.wait_for("event synchronize", stream, seq)?;
        self.shared.lock().engine.check_lost(device)
    }

    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos> {
        let state = self.shared.lock();
        let (from, to) = (state.engine.event_time(from)?, state.engine.event_time(to)?);
        Ok(Nanos(to.0.saturating_sub(from.0)))
    }

    fn host_fn(&self, stream: StreamHandle, run: HostFn) -> Result<()> {
        self.push("host function", stream, Work::HostFn(Some(run)))
    }

    fn pool_create(&self, device: DeviceId) -> Result<PoolHandle> {
        self.check_device("pool create", device)?;
        let mut state = self.shared.lock();
        let handle = state.engine.fresh_handle();
        Ok(state.pools.create(handle, device))
    }

    fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        self.shared.lock().pools.destroy(pool)
    }

    fn pool_set_threshold(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        self.shared.lock().pools.set_threshold(pool, keep)
    }

    fn pool_stats(&self, pool: PoolHandle) -> Result<PoolStats> {
        self.catch_up(self.shared.lock())?.pools.stats(pool)
    }

    fn pool_reset_high(&self, pool: PoolHandle) -> Result<()> {
        self.shared.lock().pools.reset_high(pool)
    }

    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        self.catch_up(self.shared.lock())?.pools.trim(pool, keep)
    }

    fn alloc(&self, stream: StreamHandle, pool: PoolHandle, bytes: Bytes) -> Result<Memory> {
        let mut state = self.shared.lock();
        let device = state.engine.live_stream("alloc", stream)?.device;
        state.engine.check_lost(device)?;
        let size = state.pools.take(pool, bytes)?;
        let Some(host) = HostBytes::zeroed(bytes.0) else {
            state.pools.give_up(pool, size);
            return Err(Self::no_bytes("alloc", bytes).on(device));
        };
        let address = host.address();
        state.pools.place(pool, address, size);
        Ok(Memory::new(Space::Device(device), address, bytes.0, Some(host)))
    }

    fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()> {
        if !self.shared.lock().pools.holds(memory) {
            let cause = "the address is no live allocation of a pool";
            return Err(Error::new(ErrorKind::InvalidValue, "free", cause));
        }
        self.push("free", stream, Work::Free(memory.clone()))
    }

    fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        self.check_device("pinned alloc", device)?;
        let host = HostBytes::zeroed(bytes.0).ok_or_else(|| Self::no_bytes("pinned", bytes))?;
        Ok(Memory::new(Space::Pinned, host.address(), bytes.0, Some(host)))
    }

    fn pinned_free(&self, _memory: &Memory) -> Result<()> {
        // The bytes go with the last token.
        Ok(())
    }

    fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        if dst.bytes() != src.bytes() || dst.overlaps(src) {
            let cause = format!("{} bytes into {}, or overlapping", src.bytes(), dst.bytes());
            return Err(Error::new(ErrorKind::InvalidValue, "copy", cause));
        }
        self.push("copy", stream, Work::Copy { dst: dst.clone(), src: src.clone() })
    }

    fn fill(&self, stream: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        self.push("fill", stream, Work::Fill { dst: dst.clone(), value })
    }

    fn module_load(&self, device: DeviceId, label: &str, _: Image<'_>) -> Result<ModuleHandle> {
        self.check_device("module load", device)?;
        let mut state = self.shared.lock();
        let handle = state.engine.fresh_handle();
        state.modules.insert(handle, label.to_owned());
        Ok(ModuleHandle(handle))
    }

    fn function(
        &self,
        module: ModuleHandle,
        entry: &str,
        _shared_bytes: u32,
        twin: Option<Twin>,
    ) -> Result<FunctionHandle> {
        let mut state = self.shared.lock();
        let label = Self::module_label(&state, module)?;
        let Some(twin) = twin else {
            let cause = format!("kernel `{entry}` of {label} has no host twin; it needs a GPU");
            return Err(Error::new(ErrorKind::NoTwin, "function", cause));
        };
        let handle = state.engine.fresh_handle();
        state.functions.insert(handle, Function { name: entry.into(), twin });
        Ok(FunctionHandle(handle))
    }

    fn launch(&self, stream: StreamHandle, launch: &Launch<'_>) -> Result<()> {
        let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
        let blocks: u64 = launch.grid.iter().map(|n| u64::from(*n)).product();
        if threads == 0 || threads > u64::from(BLOCK_THREADS_MAX) || blocks == 0 {
            let cause = format!(
                "`{}` with {blocks} blocks of {threads} threads; 1 to {BLOCK_THREADS_MAX} threads \
                 and at least one block are possible",
                launch.name
            );
            return Err(Error::new(ErrorKind::InvalidValue, "launch", cause));
        }
        check_disjoint(launch.name, launch.args)?;
        let state = self.shared.lock();
        let function = Self::function_of(&state, launch.function)?;
        let (name, twin) = (Arc::clone(&function.name), function.twin);
        drop(state);
        // A user's functions: asked here, where no lock of the driver is held.
        let ask = || ((twin.tile_elements)(launch.args), (twin.cost)(launch.args));
        let (tile_elements, cost) = catch_unwind(AssertUnwindSafe(ask)).map_err(|_| {
            let cause = format!("the twin of `{name}` panicked when asked for tiles and cost");
            Error::new(ErrorKind::Launch, "launch", cause)
        })?;
        let kernel = Kernel { name, twin, args: launch.args.clone(), tile_elements, cost };
        self.push("launch", stream, Work::Kernel(Arc::new(kernel)))
    }
}
