//! A CUDA driver library whose functions succeed and do nothing. `TRIJET_LIBCUDA` names it in place
//! of the real driver, to measure the code around the calls, and to run the CUDA binding without a
//! GPU. Functions with results return fixed, plausible values. The library is also a run-time
//! compiler, which `TRIJET_LIBNVRTC` names.
//!
//! Callers pass more arguments than the functions declare. That is harmless in the C ABI, because
//! the caller owns the registers and the stack of its arguments.

mod compiler;
mod objects;
mod tilings;

pub use compiler::*;
pub use tilings::*;

use objects::{INVALID_VALUE, handle, lock};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::thread::ThreadId;

macro_rules! nothing {
    ($($name:ident)*) => {$(
        /// Does nothing, and succeeds.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            0
        }
    )*};
}

macro_rules! writes {
    ($($name:ident($($out:ident: $type:ty = $value:expr),*);)*) => {$(
        /// Writes fixed values.
        ///
        /// # Safety
        /// Every argument points to a writable value of its type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($out: *mut $type),*) -> c_int {
            // SAFETY: the caller promises that every argument is writable.
            $(unsafe { $out.write($value) };)*
            0
        }
    )*};
}

/// Functions that need a current context.
macro_rules! writes_in_context {
    ($($name:ident($($out:ident: $type:ty = $value:expr),*);)*) => {$(
        /// Writes fixed values, if a context is current.
        ///
        /// # Safety
        /// Every argument points to a writable value of its type.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($out: *mut $type),*) -> c_int {
            if CURRENT.get() == 0 {
                return INVALID_CONTEXT;
            }
            // SAFETY: the caller promises that every argument is writable.
            $(unsafe { $out.write($value) };)*
            0
        }
    )*};
}

nothing! {
    cuCtxSynchronize
    cuStreamDestroy_v2 cuMemPoolDestroy
    cuStreamWaitEvent cuEventDestroy_v2 cuEventRecord cuCtxRecordEvent
    cuMemPoolSetAttribute cuMemPoolTrimTo cuMemFreeAsync
    cuMemFreeHost cuMemcpyAsync cuMemcpyHtoDAsync_v2
    cuMemHostRegister_v2 cuMemHostUnregister
    cuMemcpyDtoHAsync_v2 cuMemsetD8Async cuFuncLoad
    cuFuncSetAttribute cuLaunchHostFunc
    cuDevicePrimaryCtxRelease_v2 cuMemPoolGetAttribute cuGetErrorName
    cuGetErrorString cuCtxEnablePeerAccess cuCtxDisablePeerAccess
    cuDeviceSetMemPool cuMemPoolSetAccess cuMemFree_v2
    cuMemcpy cuMemcpyBatchAsync cuMemcpyBatchAsync_v2
    cuMemsetD8_v2 cuGraphDestroy cuCtxDestroy_v2
    cuGraphKernelNodeSetAttribute cuGraphExecDestroy cuGraphLaunch
    cuGraphExecMemcpyNodeSetParams
    cuGraphExecMemsetNodeSetParams cuMemMap cuMemSetAccess
    cuMemUnmap cuMemRelease cuMemAddressFree
}

writes! {
    cuDriverGetVersion(out: c_int = 13_000);
    cuDeviceGetCount(out: c_int = 1);
    cuDeviceGet(out: c_int = 0);
    cuDeviceTotalMem_v2(out: usize = 1 << 37);
    cuEventElapsedTime(out: f32 = 0.0);
    cuDevicePrimaryCtxRetain(out: usize = CONTEXT);
    cuDeviceGetName(out: [u8; 13] = *b"empty driver\0");
    cuMemPoolCreate(out: usize = handle());
    cuMemAllocFromPoolAsync(out: usize = handle());
    cuMemAllocAsync(out: usize = handle());
    cuDeviceGetDefaultMemPool(out: usize = POOL);
    cuDeviceGetMemPool(out: usize = POOL);
    cuMemPoolGetAccess(out: c_int = 3);
    cuDeviceCanAccessPeer(out: c_int = 0);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(out: c_int = 8);
    cuOccupancyMaxActiveClusters(out: c_int = 16);
}

writes_in_context! {
    cuCtxGetStreamPriorityRange(low: c_int = 0, high: c_int = -5);
    cuMemGetAllocationGranularity(out: usize = 2 << 20);
    cuMemCreate(out: usize = handle());
    cuMemGetInfo_v2(free: usize = 1 << 37, total: usize = 1 << 37);
    cuStreamCreateWithPriority(out: usize = handle());
    cuStreamCreate(out: usize = handle());
    cuEventCreate(out: usize = handle());
    cuGraphCreate(out: usize = handle());
    cuGraphAddMemcpyNode(out: usize = handle());
    cuGraphAddMemsetNode(out: usize = handle());
    cuGraphInstantiateWithFlags(out: usize = handle());
    cuMemAlloc_v2(out: usize = handle());
}

const INVALID_CONTEXT: c_int = 201;
const NOT_FOUND: c_int = 500;

thread_local! {
    /// The current context of the thread; 0 if no context is current.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Creates a context and makes it current in the calling thread.
///
/// # Safety
/// `context` points to a writable handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v2(context: *mut usize) -> c_int {
    CURRENT.set(handle());
    // SAFETY: `context` is writable by the contract of this function.
    unsafe { context.write(CURRENT.get()) };
    0
}

/// Makes a context current in the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: usize) -> c_int {
    CURRENT.set(context);
    0
}

/// Writes the handle of the current context of the calling thread.
///
/// # Safety
/// `context` points to a writable handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut usize) -> c_int {
    // SAFETY: `context` is writable by the contract of this function.
    unsafe { context.write(CURRENT.get()) };
    0
}

/// Writes that the primary context of a device is active.
///
/// # Safety
/// `flags` and `active` point to writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    _device: c_int,
    flags: *mut u32,
    active: *mut c_int,
) -> c_int {
    // SAFETY: `flags` is writable by the contract of this function.
    unsafe { flags.write(0) };
    // SAFETY: `active` is writable by the contract of this function.
    unsafe { active.write(1) };
    0
}

/// Loads the library that `CUDA_INJECTION64_PATH` names, and calls the entry point of the library
/// once, as the real driver does.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> c_int {
    static INJECTION: Once = Once::new();
    INJECTION.call_once(|| {
        let Some(path) = std::env::var_os("CUDA_INJECTION64_PATH") else { return };
        // SAFETY: the user who sets the variable asks for the library's initialisers to run.
        let Ok(library) = (unsafe { libloading::Library::new(path) }) else { return };
        // SAFETY: the signature is the documented one.
        let entry = unsafe { library.get::<extern "C" fn() -> c_int>(b"InitializeInjection") };
        if let Ok(entry) = entry {
            entry();
        }
        // The library stays loaded until the process ends.
        std::mem::forget(library);
    });
    0
}

/// A capture of a stream: the thread that began it, its mode, and whether it is invalid.
struct Capture {
    thread: ThreadId,
    mode: c_int,
    is_invalid: bool,
}

/// The captures in progress. The keys are the handles of the captured streams.
static CAPTURES: Mutex<BTreeMap<usize, Capture>> = Mutex::new(BTreeMap::new());

/// A value of `CUstreamCaptureMode`.
const GLOBAL: c_int = 0;
const RELAXED: c_int = 2;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;

thread_local! {
    /// The capture mode of the thread.
    static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
}

/// Exchanges the capture mode of the calling thread.
///
/// # Safety
/// `mode` points to a number that is readable and writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int {
    // SAFETY: `mode` is readable by the contract of this function.
    let before = MODE.replace(unsafe { mode.read() });
    // SAFETY: `mode` is writable by the contract of this function.
    unsafe { mode.write(before) };
    0
}

/// Handles a call that a capture may forbid. If captures forbid the call, marks these captures as
/// invalid and returns an error.
fn barred() -> c_int {
    let mut captures = lock(&CAPTURES);
    let (mode, thread) = (MODE.get(), std::thread::current().id());
    let bars = |capture: &Capture| match capture.thread == thread {
        true => capture.mode != RELAXED,
        false => capture.mode == GLOBAL && mode == GLOBAL,
    };
    let barring = captures.values_mut().filter(|capture| mode != RELAXED && bars(capture));
    let count = barring.map(|capture| capture.is_invalid = true).count();
    if count == 0 { 0 } else { CAPTURE_UNSUPPORTED }
}

macro_rules! barred {
    ($($name:ident)*) => {$(
        /// Succeeds, unless a capture forbids the call.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            barred()
        }
    )*};
}

barred! { cuStreamQuery cuStreamSynchronize cuEventQuery cuEventSynchronize }

/// Begins the capture of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) -> c_int {
    let capture = Capture { thread: std::thread::current().id(), mode, is_invalid: false };
    lock(&CAPTURES).insert(stream, capture);
    0
}

/// Ends the capture of a stream. The graph has no nodes.
///
/// # Safety
/// `graph` points to a writable handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> c_int {
    if lock(&CAPTURES).remove(&stream).is_some_and(|capture| capture.is_invalid) {
        return CAPTURE_INVALIDATED;
    }
    // SAFETY: `graph` is writable by the contract of this function.
    unsafe { graph.write(handle()) };
    0
}

/// Writes whether a stream is being captured.
///
/// # Safety
/// `status` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> c_int {
    // SAFETY: `status` is writable by the contract of this function.
    unsafe { status.write(c_int::from(lock(&CAPTURES).contains_key(&stream))) };
    0
}

/// Writes the flags of a stream. Every stream is non-blocking.
///
/// # Safety
/// `flags` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(_stream: usize, flags: *mut c_uint) -> c_int {
    // SAFETY: `flags` is writable by the contract of this function.
    unsafe { flags.write(1) };
    0
}

/// Writes the number of nodes of a graph, which is 0.
///
/// # Safety
/// `count` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    _graph: usize,
    _nodes: *mut usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: `count` is writable by the contract of this function.
    unsafe { count.write(0) };
    0
}

/// The PTX texts of the loaded modules. The keys are the handles of the modules.
static MODULES: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());
/// For each loaded function, the sizes of its parameters in bytes. The keys are the handles of the
/// functions.
static FUNCTIONS: Mutex<BTreeMap<usize, Vec<usize>>> = Mutex::new(BTreeMap::new());

/// Loads a module. The text of a PTX module is stored, so that [`cuModuleGetFunction`] finds its
/// entries. A binary has no entries.
///
/// # Safety
/// `module` points to a writable handle, and `image` to a terminated text or to a binary.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(module: *mut usize, image: *const c_char) -> c_int {
    if CURRENT.get() == 0 {
        return INVALID_CONTEXT;
    }
    // SAFETY: `image` is terminated, or is a binary, which has zeros in its header.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy().into_owned();
    let new = handle();
    lock(&MODULES).insert(new, text);
    // SAFETY: `module` is writable by the contract of this function.
    unsafe { module.write(new) };
    0
}

/// The parameters of an entry of a PTX text, between its parentheses.
fn parameters<'a>(ptx: &'a str, entry: &str) -> Option<&'a str> {
    ptx.split(".entry").skip(1).find_map(|rest| {
        let rest = rest.trim_start().strip_prefix(entry)?.trim_start();
        Some(rest.strip_prefix('(').map_or("", |list| list.split(')').next().unwrap_or("")))
    })
}

/// The size of a parameter: `.param .u64 x`, or `.param .align 8 .b8 x[16]`.
fn size(parameter: &str) -> Option<usize> {
    let bits = parameter.split_whitespace().find_map(|word| {
        word.strip_prefix(['.'])?.strip_prefix(['u', 's', 'f', 'b'])?.parse::<usize>().ok()
    })?;
    let array = parameter.split_once('[').and_then(|(_, rest)| rest.split(']').next());
    let count = array.map_or(Some(1), |count| count.trim().parse().ok())?;
    Some(bits / 8 * count)
}

/// Finds a kernel of a module.
///
/// # Safety
/// `function` points to a writable handle, and `name` to a terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut usize,
    module: usize,
    name: *const c_char,
) -> c_int {
    // SAFETY: `name` is terminated by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let modules = lock(&MODULES);
    let Some(list) = modules.get(&module).and_then(|text| parameters(text, &name)) else {
        return NOT_FOUND;
    };
    let new = handle();
    let sizes: Vec<usize> = list.split(',').filter_map(size).collect();
    tilings::loaded(new, &sizes);
    lock(&FUNCTIONS).insert(new, sizes);
    // SAFETY: `function` is writable by the contract of this function.
    unsafe { function.write(new) };
    0
}

/// Writes the offset and the size of a parameter in bytes. All offsets are 0.
///
/// # Safety
/// `offset` and `bytes` point to writable numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetParamInfo(
    function: usize,
    number: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> c_int {
    let functions = lock(&FUNCTIONS);
    let Some(size) = functions.get(&function).and_then(|sizes| sizes.get(number)) else {
        return INVALID_VALUE;
    };
    // SAFETY: `offset` is writable by the contract of this function.
    unsafe { offset.write(0) };
    // SAFETY: `bytes` is writable by the contract of this function.
    unsafe { bytes.write(*size) };
    0
}

/// Numbers of attributes, each with its value: `MAX_THREADS_PER_BLOCK`, `WARP_SIZE`,
/// `MEMORY_CLOCK_RATE` in kHz, `GLOBAL_MEMORY_BUS_WIDTH` in bits, `L2_CACHE_SIZE`,
/// `MAX_THREADS_PER_MULTIPROCESSOR`, `MAX_SHARED_MEMORY_PER_MULTIPROCESSOR`,
/// `MAX_REGISTERS_PER_MULTIPROCESSOR`, `MAX_SHARED_MEMORY_PER_BLOCK_OPTIN` and
/// `MAX_BLOCKS_PER_MULTIPROCESSOR`.
const ATTRIBUTES: [(c_int, c_int); 10] = [
    (1, 1024),
    (10, 32),
    (36, 2_619_000),
    (37, 5120),
    (38, 50 << 20),
    (39, 2048),
    (81, 228 << 10),
    (82, 1 << 16),
    (97, 227 << 10),
    (106, 32),
];

/// Writes an attribute of the device. The attributes of a block, of a multiprocessor and of the
/// memory are the same as on an H100, and every other attribute is 9.
///
/// # Safety
/// `out` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(out: *mut c_int, attribute: c_int) -> c_int {
    let known = ATTRIBUTES.iter().find(|(number, _)| *number == attribute);
    let value = known.map_or(9, |(_, value)| *value);
    // SAFETY: `out` is writable by the contract of this function.
    unsafe { out.write(value) };
    0
}

/// Reserves addresses that no other range has.
///
/// # Safety
/// `out` points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(out: *mut usize, bytes: usize) -> c_int {
    // All handles are smaller than this address.
    static NEXT: AtomicUsize = AtomicUsize::new(1 << 45);
    // SAFETY: `out` is writable by the contract of this function.
    unsafe { out.write(NEXT.fetch_add(bytes, Ordering::Relaxed)) };
    0
}

/// Adds a node, if a context is current.
///
/// # Safety
/// `out` points to a writable handle, and `node` to parameters as for a launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphAddKernelNode_v2(
    out: *mut usize,
    _graph: usize,
    _before: usize,
    _count: usize,
    node: *const KernelNode,
) -> c_int {
    if CURRENT.get() == 0 {
        return INVALID_CONTEXT;
    }
    // SAFETY: `out` is writable by the contract of this function.
    unsafe { out.write(handle()) };
    // SAFETY: `node` has the parameters of a launch, by the contract of this function. The called
    // function reads only these parameters.
    unsafe { cuGraphExecKernelNodeSetParams_v2(0, 0, node) }
}

/// The handle of the only context.
const CONTEXT: usize = 0x42_0000;
/// The handle of the only device's pool.
const POOL: usize = 0x43_0000;

/// Allocates zeroed memory, which is never freed.
///
/// # Safety
/// `out` points to a writable pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize) -> c_int {
    let pages = vec![0u64; bytes.div_ceil(8)].leak();
    // SAFETY: `out` is writable by the caller's promise, and the pages are never freed.
    unsafe { out.write(pages.as_mut_ptr().cast()) };
    0
}
