//! The driver functions that the doctor calls, looked up by name. If the driver lacks a function, a
//! call of this function returns an `Unsupported` error. So with an old driver, the report lacks
//! some figures, but there is a report.

use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_ushort, c_void};
use trijet::{Error, ErrorKind, Result};

pub(super) type Handle = *mut c_void;

/// `CUlaunchAttribute`: a number, padding, and a value of 64 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute {
    pub(super) id: c_uint,
    pub(super) pad: c_uint,
    pub(super) value: [u64; 8],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Config {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: Handle,
    pub(super) attrs: *mut Attribute,
    pub(super) attr_count: c_uint,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct UpdateResult {
    pub(super) result: c_int,
    pub(super) nodes: [Handle; 2],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub(super) kind: c_int,
    pub(super) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct AllocationProp {
    pub(super) kind: c_int,
    pub(super) handle_types: c_int,
    pub(super) location: Location,
    pub(super) security: *mut c_void,
    pub(super) compression: u8,
    pub(super) rdma: u8,
    pub(super) usage: c_ushort,
    pub(super) reserved: [u8; 4],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct AccessDesc {
    pub(super) location: Location,
    pub(super) flags: c_int,
}

macro_rules! table {
    ($($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)*) => {
        /// The functions. A field is `None` if the driver lacks the function.
        #[derive(Debug)]
        pub(super) struct Table {
            $(pub(super) $field: Option<unsafe extern "C" fn($($arg),*) -> c_int>,)*
        }

        impl Table {
            /// Looks up all functions in the driver library.
            pub(super) fn load(library: &'static Library) -> Self {
                Self {
                    // SAFETY: the list has for each name the type that `cuda.h` documents, and the
                    // library is never unloaded. This does not hold if a type in the list is wrong.
                    $($field: unsafe { library.get($symbol) }.ok().map(|symbol| *symbol),)*
                }
            }
        }
    };
}

table! {
    init = "cuInit": fn(c_uint);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    primary_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, c_int);
    set_current = "cuCtxSetCurrent": fn(Handle);
    push_current = "cuCtxPushCurrent_v2": fn(Handle);
    pop_current = "cuCtxPopCurrent_v2": fn(*mut Handle);
    memory_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    peer_possible = "cuDeviceCanAccessPeer": fn(*mut c_int, c_int, c_int);
    peer_enable = "cuCtxEnablePeerAccess": fn(Handle, c_uint);
    peer_copy = "cuMemcpyPeerAsync": fn(u64, Handle, u64, Handle, usize, Handle);
    stream_create = "cuStreamCreateWithPriority": fn(*mut Handle, c_uint, c_int);
    stream_destroy = "cuStreamDestroy_v2": fn(Handle);
    stream_synchronize = "cuStreamSynchronize": fn(Handle);
    stream_wait = "cuStreamWaitEvent": fn(Handle, Handle, c_uint);
    event_create = "cuEventCreate": fn(*mut Handle, c_uint);
    event_destroy = "cuEventDestroy_v2": fn(Handle);
    event_record = "cuEventRecord": fn(Handle, Handle);
    event_query = "cuEventQuery": fn(Handle);
    event_elapsed = "cuEventElapsedTime": fn(*mut f32, Handle, Handle);
    module_load = "cuModuleLoadDataEx":
        fn(*mut Handle, *const c_char, c_uint, *mut c_int, *mut Handle);
    module_unload = "cuModuleUnload": fn(Handle);
    module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    function_load = "cuFuncLoad": fn(Handle);
    launch = "cuLaunchKernelEx": fn(*const Config, Handle, *mut Handle, *mut Handle);
    host_fn = "cuLaunchHostFunc": fn(Handle, unsafe extern "C" fn(*mut c_void), *mut c_void);
    host_alloc = "cuMemHostAlloc": fn(*mut Handle, usize, c_uint);
    host_free = "cuMemFreeHost": fn(Handle);
    host_register = "cuMemHostRegister_v2": fn(Handle, usize, c_uint);
    host_unregister = "cuMemHostUnregister": fn(Handle);
    alloc = "cuMemAlloc_v2": fn(*mut u64, usize);
    free = "cuMemFree_v2": fn(u64);
    alloc_async = "cuMemAllocAsync": fn(*mut u64, usize, Handle);
    free_async = "cuMemFreeAsync": fn(u64, Handle);
    pool_default = "cuDeviceGetDefaultMemPool": fn(*mut Handle, c_int);
    pool_set = "cuMemPoolSetAttribute": fn(Handle, c_int, *mut u64);
    upload = "cuMemcpyHtoDAsync_v2": fn(u64, *const c_void, usize, Handle);
    download = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, u64, usize, Handle);
    fill = "cuMemsetD8Async": fn(u64, u8, usize, Handle);
    write_value = "cuStreamWriteValue64_v2": fn(Handle, u64, u64, c_uint);
    wait_value = "cuStreamWaitValue64_v2": fn(Handle, u64, u64, c_uint);
    capture_begin = "cuStreamBeginCapture_v2": fn(Handle, c_int);
    capture_end = "cuStreamEndCapture": fn(Handle, *mut Handle);
    graph_instantiate = "cuGraphInstantiateWithFlags": fn(*mut Handle, Handle, u64);
    graph_update = "cuGraphExecUpdate_v2": fn(Handle, Handle, *mut UpdateResult);
    graph_launch = "cuGraphLaunch": fn(Handle, Handle);
    graph_destroy = "cuGraphDestroy": fn(Handle);
    exec_destroy = "cuGraphExecDestroy": fn(Handle);
    address_reserve = "cuMemAddressReserve": fn(*mut u64, usize, usize, u64, u64);
    address_free = "cuMemAddressFree": fn(u64, usize);
    memory_create = "cuMemCreate": fn(*mut u64, usize, *const AllocationProp, u64);
    memory_release = "cuMemRelease": fn(u64);
    memory_map = "cuMemMap": fn(u64, usize, usize, u64, u64);
    memory_unmap = "cuMemUnmap": fn(u64, usize);
    memory_access = "cuMemSetAccess": fn(u64, usize, *const AccessDesc, usize);
}

/// Returns the function, or an error with its name.
pub(super) fn need<F>(function: Option<F>, name: &'static str) -> Result<F> {
    function
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, name, "the driver has no such function"))
}

/// Calls one function of the table, and checks the code that it returns. `$why` describes the
/// arguments, and explains why they are valid for the call.
macro_rules! ask {
    ($table:expr, $field:ident ( $($arg:expr),* $(,)? ), $why:literal) => {{
        let function = crate::bare::table::need($table.$field, stringify!($field))?;
        // SAFETY: the field has the documented type of the function, and `$why` holds at this call.
        // The handles come from the same driver, and are private to this folder. The pointers are
        // to live values.
        let code = unsafe { function($($arg),*) };
        crate::bare::check(stringify!($field), code)
    }};
}

pub(super) use ask;

/// Opens the driver library, which then stays open until the process ends.
pub(super) fn open() -> Result<&'static Library> {
    let name = std::env::var_os("TRIJET_LIBCUDA").unwrap_or_else(|| "libcuda.so.1".into());
    // SAFETY: opening a library runs its initialisers. The driver is already open, because one of
    // its devices is being measured. So no initialiser runs.
    let library = unsafe { Library::new(name) }.map_err(|e| {
        Error::new(ErrorKind::Unsupported, "open", "no CUDA driver was found").caused_by(e)
    })?;
    Ok(Box::leak(Box::new(library)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Attribute>(), 72);
        assert_eq!(size_of::<Config>(), 56);
        assert_eq!(size_of::<AllocationProp>(), 32);
        assert_eq!(size_of::<AccessDesc>(), 12);
        assert_eq!(std::mem::offset_of!(Attribute, value), 8);
        assert_eq!(std::mem::offset_of!(AllocationProp, security), 16);
    }
}
