//! The bare driver call, through another binding's raw layer with nothing around it: what a launch
//! costs before anybody adds to it. The only unsafe code of the benchmarks.

use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::time::Instant;
use trijet::kernels::AXPY;
use trijet::launch::Code;
use trijet::{Error, ErrorKind, Result};

/// `axpy` on two buffers of its own, in a stream of its own.
#[derive(Debug)]
pub(crate) struct Bare {
    stream: sys::CUstream,
    function: sys::CUfunction,
    x: sys::CUdeviceptr,
    y: sys::CUdeviceptr,
    elements: u64,
}

fn refused(error: result::DriverError) -> Error {
    Error::new(ErrorKind::Driver, "bare call", format!("{error:?}"))
}

impl Bare {
    /// # Errors
    /// `Unsupported` where the other binding finds no driver.
    pub(crate) fn new(elements: u64) -> Result<Self> {
        // SAFETY: only looks for the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::new(ErrorKind::Unsupported, "bare call", "no driver library"));
        }
        let Code::Ptx(ptx) = AXPY.code() else { unreachable!("shipped kernels are PTX") };
        let ptx = CString::new(ptx.as_bytes()).expect("the text has no NUL byte");
        let name = CString::new(AXPY.name()).expect("the name has no NUL byte");
        let bytes = usize::try_from(elements * 4).expect("a small buffer");
        result::init().map_err(refused)?;
        let device = result::device::get(0).map_err(refused)?;
        // SAFETY: a device that the driver just gave.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(refused)?;
        // SAFETY: a context that is retained for the rest of the process.
        unsafe { result::ctx::set_current(context) }.map_err(refused)?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(refused)?;
        // SAFETY: a terminated PTX text.
        let module = unsafe { result::module::load_data(ptx.as_ptr().cast()) }.map_err(refused)?;
        // SAFETY: a module that is never unloaded.
        let function = unsafe { result::module::get_function(module, name) }.map_err(refused)?;
        // SAFETY: never freed; the process is a benchmark.
        let x = unsafe { result::malloc_sync(bytes) }.map_err(refused)?;
        // SAFETY: as above.
        let y = unsafe { result::malloc_sync(bytes) }.map_err(refused)?;
        Ok(Self { stream, function, x, y, elements })
    }

    /// Nanoseconds per launch of one burst; the device is idle before and after.
    pub(crate) fn burst(&mut self, count: u32) -> Result<f64> {
        let (mut a, mut length) = (1.0f32, self.elements);
        let mut params: [*mut c_void; 5] = [
            (&raw mut a).cast(),
            (&raw mut self.x).cast(),
            (&raw mut length).cast(),
            (&raw mut self.y).cast(),
            (&raw mut length).cast(),
        ];
        let blocks = u32::try_from(self.elements.div_ceil(256)).unwrap_or(u32::MAX);
        let start = Instant::now();
        for _ in 0..count {
            let (grid, block) = ((blocks, 1, 1), (256, 1, 1));
            // SAFETY: the parameters match the kernel and live until the call has copied them.
            let launched = unsafe {
                result::launch_kernel(self.function, grid, block, 0, self.stream, &mut params)
            };
            launched.map_err(refused)?;
        }
        let time = start.elapsed();
        // SAFETY: a live stream.
        unsafe { result::stream::synchronize(self.stream) }.map_err(refused)?;
        Ok(time.as_secs_f64() * 1e9 / f64::from(count))
    }
}
