//! The driver contract on CUDA: one foreign call per verb, wherever one is enough.
//!
//! Every verb that names a stream first makes that stream's context current in the thread.

use super::api::{LaunchConfig, MemLocation, MemPoolProps, need};
use super::context::{CudaDriver, cu, pack, raw};
use super::error::check;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::{Bytes, Nanos};
use crate::device::args::ARGS_MAX;
use crate::device::driver::{
    Clock, DeviceInfo, Driver, EventHandle, FunctionHandle, HostFn, Image, Launch, ModuleHandle,
    PoolHandle, PoolStats, Readiness, StreamHandle, Timing,
};
use crate::device::memory::{HostBytes, Memory, Space, Span};
use crate::device::twin::Twin;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

// Values of cuda.h.
const STREAM_NON_BLOCKING: c_uint = 1;
const EVENT_DISABLE_TIMING: c_uint = 2;
const HOST_ALLOC_PORTABLE: c_uint = 1;
const MAX_DYNAMIC_SHARED: c_int = 8;
const POOL_THRESHOLD: c_int = 4;
const POOL_RESERVED: c_int = 5;
const POOL_RESERVED_HIGH: c_int = 6;
const POOL_USED: c_int = 7;
const POOL_USED_HIGH: c_int = 8;
const JIT_ERROR_BUFFER: c_int = 5;
const JIT_ERROR_BUFFER_BYTES: c_int = 6;

/// Runs the closure behind `data`, which `host_fn` boxed.
///
/// # Safety
/// `data` comes from `Box::into_raw` of a `Box<HostFn>` and is passed here once.
unsafe extern "C" fn trampoline(data: *mut c_void) {
    // SAFETY: by this function's contract; the driver calls once per enqueue, and a capture, in
    // which it would call once per replay, is refused before it gets here.
    let run = unsafe { Box::from_raw(data.cast::<HostFn>()) };
    // The floors above hand in closures that catch their own panics; this is the last guard
    // before a foreign stack frame.
    drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(*run)));
}

impl Driver for CudaDriver {
    fn device_count(&self) -> Result<u32> {
        Ok(u32::try_from(self.contexts.len()).unwrap_or(u32::MAX))
    }

    fn device_info(&self, device: DeviceId) -> Result<DeviceInfo> {
        self.enter("device info", device)?;
        let ordinal = self.context("device info", device)?.ordinal;
        let mut name = [0u8; 256];
        cu!(
            self,
            "cuDeviceGetName",
            device_name(name.as_mut_ptr().cast(), 256, ordinal),
            "a buffer of the length that is passed with it"
        )?;
        let mut memory = 0usize;
        cu!(self, "cuDeviceTotalMem", device_memory(&raw mut memory, ordinal), "one number")?;
        let (mut low, mut high) = (0, 0);
        cu!(
            self,
            "cuCtxGetStreamPriorityRange",
            ctx_priorities(&raw mut low, &raw mut high),
            "two numbers to write; the context is current"
        )?;
        let length = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Ok(DeviceInfo {
            name: String::from_utf8_lossy(&name[..length]).into_owned(),
            compute: (self.attribute(ordinal, 75)?, self.attribute(ordinal, 76)?),
            multiprocessors: self.attribute(ordinal, 16)?,
            copy_engines: self.attribute(ordinal, 40)?,
            memory: Bytes(memory as u64),
            priorities: (low, high),
            block_threads_max: self.attribute(ordinal, 1)?,
            shared_bytes: self.attribute(ordinal, 8)?,
            shared_bytes_optin: self.attribute(ordinal, 97)?,
            driver_version: self.version,
            clock: Clock::Device,
        })
    }

    fn memory_info(&self, device: DeviceId) -> Result<(Bytes, Bytes)> {
        self.enter("memory info", device)?;
        let (mut free, mut total) = (0usize, 0usize);
        cu!(self, "cuMemGetInfo", mem_info(&raw mut free, &raw mut total), "two numbers")?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    fn synchronize(&self, device: DeviceId) -> Result<()> {
        self.enter("synchronize", device)?;
        cu!(self, "cuCtxSynchronize", ctx_synchronize(), "nothing; the context is current")
    }

    fn stream_create(&self, device: DeviceId, priority: i32) -> Result<StreamHandle> {
        self.enter("stream create", device)?;
        let mut stream = null_mut();
        cu!(
            self,
            "cuStreamCreateWithPriority",
            stream_create(&raw mut stream, STREAM_NON_BLOCKING, priority),
            "one pointer to write; a priority out of range is clamped by the driver"
        )?;
        Ok(StreamHandle(pack(device, stream)))
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.enter_of("stream destroy", stream.0)?;
        cu!(self, "cuStreamDestroy", stream_destroy(raw(stream.0)), "a stream its owner gives up")
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.enter_of("stream synchronize", stream.0)?;
        cu!(self, "cuStreamSynchronize", stream_synchronize(raw(stream.0)), "a live stream")
    }

    fn stream_query(&self, stream: StreamHandle) -> Result<Readiness> {
        self.enter_of("stream query", stream.0)?;
        let function = need(self.api.stream_query, "cuStreamQuery")?;
        // SAFETY: a live stream of this driver: its owner destroys it when nobody can ask.
        let code = unsafe { function(raw(stream.0)) };
        self.readiness("cuStreamQuery", code)
    }

    fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.enter_of("stream wait", stream.0)?;
        cu!(
            self,
            "cuStreamWaitEvent",
            stream_wait(raw(stream.0), raw(event.0), 0),
            "a live stream and event; they may be of different devices (law A6)"
        )
    }

    fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle> {
        self.enter("event create", device)?;
        let flags = if timing == Timing::On { 0 } else { EVENT_DISABLE_TIMING };
        let mut event = null_mut();
        cu!(self, "cuEventCreate", event_create(&raw mut event, flags), "one pointer to write")?;
        Ok(EventHandle(pack(device, event)))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.enter_of("event destroy", event.0)?;
        cu!(self, "cuEventDestroy", event_destroy(raw(event.0)), "an event its owner gives up")
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.enter_of("event record", stream.0)?;
        cu!(
            self,
            "cuEventRecord",
            event_record(raw(event.0), raw(stream.0)),
            "a live event and stream; different devices are refused by the driver"
        )
    }

    fn event_query(&self, event: EventHandle) -> Result<Readiness> {
        self.enter_of("event query", event.0)?;
        let function = need(self.api.event_query, "cuEventQuery")?;
        // SAFETY: a live event of this driver: its owner destroys it when nobody can ask.
        let code = unsafe { function(raw(event.0)) };
        self.readiness("cuEventQuery", code)
    }

    fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        self.enter_of("event synchronize", event.0)?;
        cu!(self, "cuEventSynchronize", event_synchronize(raw(event.0)), "a live event")
    }

    fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos> {
        self.enter_of("event elapsed", from.0)?;
        let mut milliseconds = 0f32;
        cu!(
            self,
            "cuEventElapsedTime",
            event_elapsed(&raw mut milliseconds, raw(from.0), raw(to.0)),
            "two live events and one number to write; untimed ones are refused by the driver"
        )?;
        Ok(Nanos::from_seconds(f64::from(milliseconds) * 1e-3))
    }

    fn host_fn(&self, stream: StreamHandle, run: HostFn) -> Result<()> {
        self.enter_of("host function", stream.0)?;
        let launch = need(self.api.host_fn, "cuLaunchHostFunc")?;
        let data = Box::into_raw(Box::new(run)).cast::<c_void>();
        // SAFETY: `data` is uniquely owned, its only reader is `trampoline`, and the driver calls
        // that once, or never after a context error: then the box leaks, which is the price of
        // not freeing what the driver may still hold.
        let code = unsafe { launch(raw(stream.0), trampoline, data) };
        if code != 0 {
            // SAFETY: a refused enqueue keeps no pointer, so `data` is still ours alone.
            drop(unsafe { Box::from_raw(data.cast::<HostFn>()) });
        }
        check(&self.api, "cuLaunchHostFunc", code)
    }

    fn pool_create(&self, device: DeviceId) -> Result<PoolHandle> {
        self.enter("pool create", device)?;
        let ordinal = self.context("pool create", device)?.ordinal;
        // Pinned allocations (1) without exported handles, on a device (1).
        let props = MemPoolProps {
            alloc_type: 1,
            handle_types: 0,
            location: MemLocation { kind: 1, id: ordinal },
            security: null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = null_mut();
        cu!(
            self,
            "cuMemPoolCreate",
            pool_create(&raw mut pool, &raw const props),
            "properties of the documented layout, the rest zero"
        )?;
        Ok(PoolHandle(pack(device, pool)))
    }

    fn pool_destroy(&self, pool: PoolHandle) -> Result<()> {
        self.enter_of("pool destroy", pool.0)?;
        cu!(self, "cuMemPoolDestroy", pool_destroy(raw(pool.0)), "a pool its owner gives up")
    }

    fn pool_set_threshold(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        self.pool_set_value(pool, POOL_THRESHOLD, keep.0)
    }

    fn pool_stats(&self, pool: PoolHandle) -> Result<PoolStats> {
        Ok(PoolStats {
            reserved: self.pool_value(pool, POOL_RESERVED)?,
            reserved_high: self.pool_value(pool, POOL_RESERVED_HIGH)?,
            used: self.pool_value(pool, POOL_USED)?,
            used_high: self.pool_value(pool, POOL_USED_HIGH)?,
        })
    }

    fn pool_reset_high(&self, pool: PoolHandle) -> Result<()> {
        self.pool_set_value(pool, POOL_RESERVED_HIGH, 0)?;
        self.pool_set_value(pool, POOL_USED_HIGH, 0)
    }

    fn pool_trim(&self, pool: PoolHandle, keep: Bytes) -> Result<()> {
        // Measured on driver 580: a size near the largest one trims to nothing instead of keeping
        // everything, so what keeps everything is not passed on.
        if self.pool_value(pool, POOL_RESERVED)? <= keep {
            return Ok(());
        }
        let keep = usize::try_from(keep.0).unwrap_or(usize::MAX);
        cu!(self, "cuMemPoolTrimTo", pool_trim(raw(pool.0), keep), "a live pool")
    }

    fn alloc(&self, stream: StreamHandle, pool: PoolHandle, bytes: Bytes) -> Result<Memory> {
        let device = self.enter_of("alloc", stream.0)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let mut address = 0;
        let outcome = cu!(
            self,
            "cuMemAllocFromPoolAsync",
            alloc(&raw mut address, size.max(1), raw(pool.0), raw(stream.0)),
            "a live pool and stream of one device, one number to write"
        );
        if let Err(error) = outcome {
            let doing = match self.memory_info(device) {
                Ok((free, total)) => format!("{bytes} wanted, {free} of {total} free"),
                Err(_) => format!("{bytes} wanted"),
            };
            return Err(error.context(doing).on(device));
        }
        Ok(Memory::new(Space::Device(device), address, bytes.0, None))
    }

    fn free(&self, stream: StreamHandle, memory: &Memory) -> Result<()> {
        self.enter_of("free", stream.0)?;
        cu!(
            self,
            "cuMemFreeAsync",
            free(memory.address(), raw(stream.0)),
            "an allocation that its block frees once, after waits for all its users"
        )
    }

    fn pinned_alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        self.enter("pinned alloc", device)?;
        let size = usize::try_from(bytes.0).unwrap_or(usize::MAX).max(1);
        let mut base: *mut c_void = null_mut();
        cu!(
            self,
            "cuMemHostAlloc",
            host_alloc(&raw mut base, size, HOST_ALLOC_PORTABLE),
            "one pointer to write; portable, so that every device's copies reach it"
        )
        .map_err(|e| e.context(format!("{bytes} of page-locked memory")).on(device))?;
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            let cause = "the driver gave no address";
            return Err(Error::new(ErrorKind::OutOfMemory, "cuMemHostAlloc", cause));
        };
        // SAFETY: the driver's zeroed pages of `size` bytes are ours until `pinned_free`, which
        // the pinned pool calls only when the last token is its own.
        let host = unsafe { HostBytes::lent(base, size) };
        Ok(Memory::new(Space::Pinned, base.as_ptr() as u64, bytes.0, Some(host)))
    }

    fn pinned_free(&self, memory: &Memory) -> Result<()> {
        cu!(
            self,
            "cuMemFreeHost",
            host_free(memory.address() as *mut c_void),
            "memory of `pinned_alloc` that no operation uses any more"
        )
    }

    fn copy(&self, stream: StreamHandle, dst: &Span, src: &Span) -> Result<()> {
        self.enter_of("copy", stream.0)?;
        let bytes = usize::try_from(dst.bytes().min(src.bytes())).unwrap_or(usize::MAX);
        let (to, from, stream) = (dst.address(), src.address(), raw(stream.0));
        match (src.memory().space(), dst.memory().space()) {
            (Space::Pinned, Space::Device(_)) => cu!(
                self,
                "cuMemcpyHtoDAsync",
                copy_up(to, from as *const c_void, bytes, stream),
                "two live spans of at least `bytes`; the source is page-locked and outlives it"
            ),
            (Space::Device(_), Space::Pinned) => cu!(
                self,
                "cuMemcpyDtoHAsync",
                copy_down(to as *mut c_void, from, bytes, stream),
                "two live spans of at least `bytes`; the target is page-locked and outlives it"
            ),
            _ => cu!(
                self,
                "cuMemcpyAsync",
                copy(to, from, bytes, stream),
                "two live spans of at least `bytes` in unified addressing"
            ),
        }
    }

    fn fill(&self, stream: StreamHandle, dst: &Span, value: u8) -> Result<()> {
        self.enter_of("fill", stream.0)?;
        let bytes = usize::try_from(dst.bytes()).unwrap_or(usize::MAX);
        cu!(
            self,
            "cuMemsetD8Async",
            fill(dst.address(), value, bytes, raw(stream.0)),
            "a live span of `bytes`"
        )
    }

    fn module_load(&self, device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle> {
        self.enter("module load", device)?;
        let text;
        let data: *const c_void = match image {
            Image::Ptx(ptx) => {
                text = CString::new(ptx).map_err(|_| {
                    let cause = format!("{label} holds a NUL byte");
                    Error::new(ErrorKind::Compile, "module load", cause)
                })?;
                text.as_ptr().cast()
            }
            Image::Cubin(bytes) => bytes.as_ptr().cast(),
        };
        let mut log = vec![0u8; 8192];
        let mut options = [JIT_ERROR_BUFFER, JIT_ERROR_BUFFER_BYTES];
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        let mut module = null_mut();
        let outcome = cu!(
            self,
            "cuModuleLoadDataEx",
            module_load(&raw mut module, data, 2, options.as_mut_ptr(), values.as_mut_ptr()),
            "a terminated text or an ELF image, which carries its size; a log buffer and its size"
        );
        outcome.map_err(|error| {
            let length = log.iter().position(|b| *b == 0).unwrap_or(0);
            let words = String::from_utf8_lossy(&log[..length]).trim().to_owned();
            Error::new(ErrorKind::Compile, "module load", format!("{label}: {words}"))
                .caused_by(error)
                .on(device)
        })?;
        Ok(ModuleHandle(pack(device, module)))
    }

    fn function(
        &self,
        module: ModuleHandle,
        entry: &str,
        shared_bytes: u32,
        _twin: Option<Twin>,
    ) -> Result<FunctionHandle> {
        let device = self.enter_of("function", module.0)?;
        let missing = || {
            let cause = format!("the module has no kernel `{entry}`");
            Error::new(ErrorKind::NotFound, "function", cause).on(device)
        };
        let name = CString::new(entry).map_err(|_| missing())?;
        let mut function = null_mut();
        cu!(
            self,
            "cuModuleGetFunction",
            module_function(&raw mut function, raw(module.0), name.as_ptr()),
            "a module that is never unloaded and a terminated name"
        )
        .map_err(|e| if e.kind() == ErrorKind::NotFound { missing() } else { e })?;
        if self.api.func_load.is_some() {
            cu!(self, "cuFuncLoad", func_load(function), "a function of a loaded module")?;
        }
        if shared_bytes > 0 {
            let bytes = c_int::try_from(shared_bytes).unwrap_or(c_int::MAX);
            cu!(
                self,
                "cuFuncSetAttribute",
                func_set(function, MAX_DYNAMIC_SHARED, bytes),
                "a function of a loaded module; too much is refused by the driver"
            )?;
        }
        Ok(FunctionHandle(pack(device, function)))
    }

    fn launch(&self, stream: StreamHandle, launch: &Launch<'_>) -> Result<()> {
        self.enter_of("launch", stream.0)?;
        let config = LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            stream: raw(stream.0),
            attrs: null_mut(),
            attr_count: 0,
        };
        // The driver reads as many as the kernel has: the rest is never looked at.
        let mut params = [const { MaybeUninit::<*mut c_void>::uninit() }; ARGS_MAX];
        for (param, word) in params.iter_mut().zip(launch.args.iter()) {
            param.write((&raw const *word).cast_mut().cast());
        }
        cu!(
            self,
            "cuLaunchKernelEx",
            launch(
                &raw const config,
                raw(launch.function.0),
                params.as_mut_ptr().cast(),
                null_mut()
            ),
            "arguments that match the kernel's declaration, which its author vouched for"
        )
        .map_err(|error| error.context(format!("kernel `{}`", launch.name)))
    }
}
