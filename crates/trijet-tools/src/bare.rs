//! Bare driver calls, which measure the cost of an operation without the library.
//!
//! The functions are the driver functions that the library calls. All unsafe code of this crate is
//! in this file and in the folder `bare`.

pub mod chain;
pub mod free_memory;
pub mod lab;
pub(crate) mod peer;
pub mod stay;
pub mod step;
mod table;
pub mod ticks;

use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::Instant;
use trijet::kernels::{AXPY, Code};
use trijet::{Error, ErrorKind, Result};

type Handle = *mut c_void;
type Launch = unsafe extern "C" fn(*const Config, Handle, *mut Handle, *mut Handle) -> c_int;
type Upload = unsafe extern "C" fn(u64, *const c_void, usize, Handle) -> c_int;
type OnStream = unsafe extern "C" fn(Handle, Handle) -> c_int;
type Wait = unsafe extern "C" fn(Handle, Handle, c_uint) -> c_int;
type Current = unsafe extern "C" fn(*mut Handle) -> c_int;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: Handle,
    attrs: *mut c_void,
    attr_count: c_uint,
}

/// A stream, an event and buffers, for launches of `axpy`, uploads and other operations by bare
/// calls.
#[derive(Debug)]
pub struct Bare {
    launch: Launch,
    upload: Upload,
    record: OnStream,
    wait: Wait,
    current: Current,
    synchronize: unsafe extern "C" fn(Handle) -> c_int,
    stream: Handle,
    event: Handle,
    function: Handle,
    host: *mut c_void,
    x: u64,
    y: u64,
    elements: u64,
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Driver, call, "the bare call failed").with_code(code))
}

/// Looks up a function of the driver by its name.
///
/// # Safety
/// `F` is the type of the function of that name.
unsafe fn symbol<F: Copy>(library: &Library, name: &'static str) -> Result<F> {
    // SAFETY: the caller promises that `F` is the type of the function `name`.
    let found = unsafe { library.get::<F>(name) };
    found.map(|function| *function).map_err(|error| {
        Error::new(ErrorKind::Unsupported, name, "the driver has no such function").caused_by(error)
    })
}

/// Looks up a driver function by its name, calls it once, and checks the code that it returns.
macro_rules! call {
    ($library:ident, $name:literal: fn($($type:ty),*), $($arg:expr),*) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        // SAFETY: the type in the macro call is the documented type of the function.
        let function: Function = unsafe { symbol($library, $name) }?;
        // SAFETY: the pointers are to live values of the documented types. This function got the
        // handles from the same driver. Nothing is destroyed, because the process is a benchmark.
        check($name, unsafe { function($($arg),*) })?;
    }};
}

impl Bare {
    /// # Errors
    /// `Unsupported` without a driver; every error of the driver.
    pub fn new(elements: u64) -> Result<Self> {
        let name = std::env::var_os("TRIJET_LIBCUDA").unwrap_or_else(|| "libcuda.so.1".into());
        // SAFETY: the library is the driver. It is already loaded, and may be loaded again.
        let library = unsafe { Library::new(name) }.map_err(|e| {
            Error::new(ErrorKind::Unsupported, "open", "no CUDA driver was found").caused_by(e)
        })?;
        // The library stays loaded until the process ends, because `Bare` has pointers to its
        // functions.
        let library: &'static Library = Box::leak(Box::new(library));
        let Code::Ptx(ptx) = AXPY.code() else { unreachable!("shipped kernels are PTX") };
        let ptx = CString::new(ptx.as_bytes()).expect("the text has no NUL byte");
        let name = CString::new(AXPY.name()).expect("the name has no NUL byte");
        let bytes = usize::try_from(elements * 4).expect("a small buffer");
        let (mut device, mut context) = (0, null_mut());
        call!(library, "cuInit": fn(c_uint), 0);
        call!(library, "cuDeviceGet": fn(*mut c_int, c_int), &raw mut device, 0);
        call!(
            library,
            "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int),
            &raw mut context,
            device
        );
        call!(library, "cuCtxSetCurrent": fn(Handle), context);
        let (mut stream, mut event) = (null_mut(), null_mut());
        call!(
            library,
            "cuStreamCreateWithPriority": fn(*mut Handle, c_uint, c_int),
            &raw mut stream,
            1,
            0
        );
        call!(library, "cuEventCreate": fn(*mut Handle, c_uint), &raw mut event, 2);
        let (mut module, mut function) = (null_mut(), null_mut());
        call!(
            library,
            "cuModuleLoadDataEx": fn(*mut Handle, *const c_char, c_uint, *mut c_int, *mut Handle),
            &raw mut module,
            ptx.as_ptr(),
            0,
            null_mut(),
            null_mut()
        );
        call!(
            library,
            "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char),
            &raw mut function,
            module,
            name.as_ptr()
        );
        let (mut host, mut x, mut y) = (null_mut(), 0, 0);
        call!(library, "cuMemHostAlloc": fn(*mut Handle, usize, c_uint), &raw mut host, bytes, 1);
        call!(library, "cuMemAlloc_v2": fn(*mut u64, usize), &raw mut x, bytes);
        call!(library, "cuMemAlloc_v2": fn(*mut u64, usize), &raw mut y, bytes);
        Ok(Self {
            // SAFETY: the documented type of `cuLaunchKernelEx`.
            launch: unsafe { symbol(library, "cuLaunchKernelEx") }?,
            // SAFETY: the documented type of `cuMemcpyHtoDAsync`.
            upload: unsafe { symbol(library, "cuMemcpyHtoDAsync_v2") }?,
            // SAFETY: the documented type of `cuEventRecord`.
            record: unsafe { symbol(library, "cuEventRecord") }?,
            // SAFETY: the documented type of `cuStreamWaitEvent`.
            wait: unsafe { symbol(library, "cuStreamWaitEvent") }?,
            // SAFETY: the documented type of `cuCtxGetCurrent`.
            current: unsafe { symbol(library, "cuCtxGetCurrent") }?,
            // SAFETY: the documented type of `cuStreamSynchronize`.
            synchronize: unsafe { symbol(library, "cuStreamSynchronize") }?,
            stream,
            event,
            function,
            host,
            x,
            y,
            elements,
        })
    }

    /// Makes `count` bare calls. Returns the host time per call in nanoseconds. The device is idle
    /// before and after the calls.
    fn burst(&self, count: u32, mut call: impl FnMut() -> c_int) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            check("bare call", call())?;
        }
        let time = start.elapsed();
        // SAFETY: the stream is live.
        check("cuStreamSynchronize", unsafe { (self.synchronize)(self.stream) })?;
        Ok(time.as_secs_f64() * 1e9 / f64::from(count))
    }

    /// The host time per launch of `axpy`, in nanoseconds.
    pub fn launches(&mut self, count: u32) -> Result<f64> {
        let (mut a, mut length) = (1.0f32, self.elements);
        let mut params: [*mut c_void; 5] = [
            (&raw mut a).cast(),
            (&raw mut self.x).cast(),
            (&raw mut length).cast(),
            (&raw mut self.y).cast(),
            (&raw mut length).cast(),
        ];
        let config = Config {
            grid: [u32::try_from(self.elements.div_ceil(256)).unwrap_or(u32::MAX), 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
            stream: self.stream,
            attrs: null_mut(),
            attr_count: 0,
        };
        let this = &*self;
        this.burst(count, || {
            // SAFETY: the parameters match the parameters of the kernel, and live until the call
            // has copied them.
            unsafe {
                (this.launch)(&raw const config, this.function, params.as_mut_ptr(), null_mut())
            }
        })
    }

    /// The host time per upload from page-locked memory, in nanoseconds.
    pub fn uploads(&self, count: u32) -> Result<f64> {
        let bytes = usize::try_from(self.elements * 4).unwrap_or(0);
        // SAFETY: `x` and `host` are allocations of `bytes` bytes that are never freed.
        self.burst(count, || unsafe { (self.upload)(self.x, self.host, bytes, self.stream) })
    }

    /// The host time per record of an event, in nanoseconds.
    pub fn records(&self, count: u32) -> Result<f64> {
        // SAFETY: the event and the stream are live and belong to one context.
        self.burst(count, || unsafe { (self.record)(self.event, self.stream) })
    }

    /// The host time per wait of a stream for an event, in nanoseconds.
    pub fn waits(&self, count: u32) -> Result<f64> {
        // SAFETY: the stream and the event are live. A stream may wait for its own event.
        self.burst(count, || unsafe { (self.wait)(self.stream, self.event, 0) })
    }

    /// The host time per query of the current context of the thread, in nanoseconds.
    pub fn contexts(&self, count: u32) -> Result<f64> {
        let mut context = null_mut();
        // SAFETY: the call writes the local variable `context`.
        self.burst(count, || unsafe { (self.current)(&raw mut context) })
    }
}
