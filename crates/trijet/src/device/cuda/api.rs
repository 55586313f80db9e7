//! The symbols of the CUDA driver library, opened at run time. The entry of a symbol that the
//! library lacks is `None`. A call that needs this symbol returns an `Unsupported` error.
//!
//! Types follow `cuda.h` of CUDA 12.0 and later. Tests compare their layouts with an independent
//! binding.

use super::library::{self, Library};
use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

pub(crate) type CuResult = c_int;
pub(crate) type CuDevice = c_int;
pub(crate) type CuPtr = u64;
pub(crate) type Handle = *mut c_void;
pub(crate) type HostFnPtr = unsafe extern "C" fn(*mut c_void);

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemLocation {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemPoolProps {
    pub(crate) alloc_type: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location: MemLocation,
    pub(crate) security: *mut c_void,
    pub(crate) max_size: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

/// `CUmemAllocationProp`, with its flags as bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProps {
    pub(crate) kind: c_int,
    pub(crate) handle_types: c_int,
    pub(crate) location: MemLocation,
    pub(crate) security: *mut c_void,
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemAccess {
    pub(crate) location: MemLocation,
    pub(crate) flags: c_int,
}

/// `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyAttributes {
    pub(crate) source_order: c_int,
    pub(crate) source_hint: MemLocation,
    pub(crate) target_hint: MemLocation,
    pub(crate) flags: c_uint,
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CuLaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attrs: *mut LaunchAttribute,
    pub(crate) attr_count: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_uint,
    pub(crate) pad: c_uint,
    pub(crate) value: [c_uint; 16],
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) params: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    pub(crate) kernel: Handle,
    pub(crate) context: Handle,
}

/// `CUtensorMap`, with the alignment of CUDA 13. Before CUDA 13, the alignment was 64.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TensorMap {
    pub(crate) words: [u64; 16],
}

/// The source or the destination of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopySide {
    pub(crate) x_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) kind: c_uint,
    pub(crate) host: *mut c_void,
    pub(crate) device: CuPtr,
    pub(crate) array: Handle,
    pub(crate) reserved: *mut c_void,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyNode {
    pub(crate) src: CopySide,
    pub(crate) dst: CopySide,
    pub(crate) width_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FillNode {
    pub(crate) dst: CuPtr,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_bytes: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFnNode {
    pub(crate) function: HostFnPtr,
    pub(crate) data: *mut c_void,
}

/// `CUDA_CONDITIONAL_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionalParams {
    pub(crate) handle: u64,
    pub(crate) kind: c_int,
    pub(crate) size: c_uint,
    /// The graphs of the bodies. The driver writes this pointer.
    pub(crate) bodies: *mut Handle,
    pub(crate) context: Handle,
}

/// `CUgraphNodeParams` of a conditional node. The union in this structure has 29 words.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    pub(crate) conditional: ConditionalParams,
    rest: [u64; 25],
    reserved_too: u64,
}

impl NodeParams {
    /// The parameters of a conditional node with one body.
    pub(crate) fn conditional(handle: u64, kind: c_int, context: Handle) -> Self {
        /// `CU_GRAPH_NODE_TYPE_CONDITIONAL`.
        const CONDITIONAL: c_int = 13;
        let bodies = std::ptr::null_mut();
        let conditional = ConditionalParams { handle, kind, size: 1, bodies, context };
        let (kind, reserved, rest) = (CONDITIONAL, [0; 3], [0; 25]);
        Self { kind, reserved, conditional, rest, reserved_too: 0 }
    }
}

/// `CUgraphEdgeData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeData {
    pub(crate) from_port: u8,
    pub(crate) to_port: u8,
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 5],
}

macro_rules! symbols {
    ($table:ident, $($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?);)*) => {
        /// The functions of the CUDA driver library: one entry for each symbol that this crate
        /// uses.
        #[derive(Debug)]
        pub(crate) struct $table {
            $(pub(crate) $field: Option<unsafe extern "C" fn($($arg),*) -> CuResult>,)*
            /// Keeps the code of the functions mapped for as long as the table lives.
            _library: libloading::Library,
        }

        impl $table {
            /// Looks every symbol up in `library`.
            pub(crate) fn load(library: libloading::Library) -> Self {
                Self {
                    // SAFETY: the type is the documented signature of the symbol. This does not
                    // hold for a library that exports the name with another meaning. The pointer is
                    // copied out, and is valid while `_library` keeps the code mapped. This does
                    // not hold for a copy that outlives the table.
                    $($field: unsafe { library.get($symbol) }.ok().map(|symbol| *symbol),)*
                    _library: library,
                }
            }

            /// The names of the symbols that the library lacks.
            pub(crate) fn missing(&self) -> Vec<&'static str> {
                let mut missing = Vec::new();
                $(if self.$field.is_none() { missing.push($symbol); })*
                missing
            }
        }
    };
}

symbols! { DriverApi,
    init = "cuInit": fn(c_uint);
    driver_version = "cuDriverGetVersion": fn(*mut c_int);
    error_name = "cuGetErrorName": fn(CuResult, *mut *const c_char);
    error_string = "cuGetErrorString": fn(CuResult, *mut *const c_char);
    device_count = "cuDeviceGetCount": fn(*mut c_int);
    device_get = "cuDeviceGet": fn(*mut CuDevice, c_int);
    device_name = "cuDeviceGetName": fn(*mut c_char, c_int, CuDevice);
    device_attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, CuDevice);
    device_memory = "cuDeviceTotalMem_v2": fn(*mut usize, CuDevice);
    primary_retain = "cuDevicePrimaryCtxRetain": fn(*mut Handle, CuDevice);
    primary_release = "cuDevicePrimaryCtxRelease_v2": fn(CuDevice);
    ctx_get = "cuCtxGetCurrent": fn(*mut Handle);
    ctx_set = "cuCtxSetCurrent": fn(Handle);
    ctx_synchronize = "cuCtxSynchronize": fn();
    capture_mode = "cuThreadExchangeStreamCaptureMode": fn(*mut c_int);
    ctx_record = "cuCtxRecordEvent": fn(Handle, Handle);
    ctx_priorities = "cuCtxGetStreamPriorityRange": fn(*mut c_int, *mut c_int);
    peer_possible = "cuDeviceCanAccessPeer": fn(*mut c_int, CuDevice, CuDevice);
    peer_enable = "cuCtxEnablePeerAccess": fn(Handle, c_uint);
    peer_disable = "cuCtxDisablePeerAccess": fn(Handle);
    mem_info = "cuMemGetInfo_v2": fn(*mut usize, *mut usize);
    stream_create = "cuStreamCreateWithPriority": fn(*mut Handle, c_uint, c_int);
    stream_destroy = "cuStreamDestroy_v2": fn(Handle);
    stream_synchronize = "cuStreamSynchronize": fn(Handle);
    stream_query = "cuStreamQuery": fn(Handle);
    stream_flags = "cuStreamGetFlags": fn(Handle, *mut c_uint);
    stream_is_capturing = "cuStreamIsCapturing": fn(Handle, *mut c_int);
    capture_begin = "cuStreamBeginCapture_v2": fn(Handle, c_int);
    capture_end = "cuStreamEndCapture": fn(Handle, *mut Handle);
    stream_wait = "cuStreamWaitEvent": fn(Handle, Handle, c_uint);
    event_create = "cuEventCreate": fn(*mut Handle, c_uint);
    event_destroy = "cuEventDestroy_v2": fn(Handle);
    event_record = "cuEventRecord": fn(Handle, Handle);
    event_query = "cuEventQuery": fn(Handle);
    event_synchronize = "cuEventSynchronize": fn(Handle);
    event_elapsed = "cuEventElapsedTime": fn(*mut f32, Handle, Handle);
    host_fn = "cuLaunchHostFunc": fn(Handle, HostFnPtr, *mut c_void);
    pool_create = "cuMemPoolCreate": fn(*mut Handle, *const MemPoolProps);
    pool_destroy = "cuMemPoolDestroy": fn(Handle);
    pool_set = "cuMemPoolSetAttribute": fn(Handle, c_int, *mut c_void);
    pool_get = "cuMemPoolGetAttribute": fn(Handle, c_int, *mut c_void);
    pool_trim = "cuMemPoolTrimTo": fn(Handle, usize);
    pool_default = "cuDeviceGetDefaultMemPool": fn(*mut Handle, CuDevice);
    pool_current = "cuDeviceGetMemPool": fn(*mut Handle, CuDevice);
    pool_set_current = "cuDeviceSetMemPool": fn(CuDevice, Handle);
    pool_set_access = "cuMemPoolSetAccess": fn(Handle, *const MemAccess, usize);
    pool_access = "cuMemPoolGetAccess": fn(*mut c_int, Handle, *mut MemLocation);
    alloc = "cuMemAllocAsync": fn(*mut CuPtr, usize, Handle);
    alloc_from = "cuMemAllocFromPoolAsync": fn(*mut CuPtr, usize, Handle, Handle);
    free = "cuMemFreeAsync": fn(CuPtr, Handle);
    device_alloc = "cuMemAlloc_v2": fn(*mut CuPtr, usize);
    device_free = "cuMemFree_v2": fn(CuPtr);
    range_granule = "cuMemGetAllocationGranularity":
        fn(*mut usize, *const AllocationProps, c_uint);
    range_reserve = "cuMemAddressReserve": fn(*mut CuPtr, usize, usize, CuPtr, c_ulonglong);
    range_free = "cuMemAddressFree": fn(CuPtr, usize);
    memory_create =
        "cuMemCreate": fn(*mut u64, usize, *const AllocationProps, c_ulonglong);
    memory_release = "cuMemRelease": fn(u64);
    memory_map = "cuMemMap": fn(CuPtr, usize, usize, u64, c_ulonglong);
    memory_unmap = "cuMemUnmap": fn(CuPtr, usize);
    memory_access = "cuMemSetAccess": fn(CuPtr, usize, *const MemAccess, usize);
    host_alloc = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost": fn(*mut c_void);
    host_register = "cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint);
    host_unregister = "cuMemHostUnregister": fn(*mut c_void);
    copy = "cuMemcpyAsync": fn(CuPtr, CuPtr, usize, Handle);
    copy_up = "cuMemcpyHtoDAsync_v2": fn(CuPtr, *const c_void, usize, Handle);
    copy_down = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, CuPtr, usize, Handle);
    copy_sync = "cuMemcpy": fn(CuPtr, CuPtr, usize);
    copy_batch = "cuMemcpyBatchAsync_v2": fn(
        *mut CuPtr, *mut CuPtr, *mut usize, usize, *mut CopyAttributes, *mut usize, usize, Handle,
    );
    copy_batch_12 = "cuMemcpyBatchAsync": fn(
        *mut CuPtr, *mut CuPtr, *mut usize, usize, *mut CopyAttributes, *mut usize, usize,
        *mut usize, Handle,
    );
    fill = "cuMemsetD8Async": fn(CuPtr, u8, usize, Handle);
    fill_sync = "cuMemsetD8_v2": fn(CuPtr, u8, usize);
    module_load =
        "cuModuleLoadDataEx": fn(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    module_function = "cuModuleGetFunction": fn(*mut Handle, Handle, *const c_char);
    func_load = "cuFuncLoad": fn(Handle);
    func_set = "cuFuncSetAttribute": fn(Handle, c_int, c_int);
    func_parameter = "cuFuncGetParamInfo": fn(Handle, usize, *mut usize, *mut usize);
    launch = "cuLaunchKernelEx":
        fn(*const CuLaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
    graph_create = "cuGraphCreate": fn(*mut Handle, c_uint);
    graph_destroy = "cuGraphDestroy": fn(Handle);
    graph_add_kernel = "cuGraphAddKernelNode_v2":
        fn(*mut Handle, Handle, *const Handle, usize, *const KernelNode);
    graph_add_copy = "cuGraphAddMemcpyNode":
        fn(*mut Handle, Handle, *const Handle, usize, *const CopyNode, Handle);
    graph_add_fill = "cuGraphAddMemsetNode":
        fn(*mut Handle, Handle, *const Handle, usize, *const FillNode, Handle);
    graph_add_child = "cuGraphAddChildGraphNode":
        fn(*mut Handle, Handle, *const Handle, usize, Handle);
    graph_add_host_fn = "cuGraphAddHostNode":
        fn(*mut Handle, Handle, *const Handle, usize, *const HostFnNode);
    graph_condition = "cuGraphConditionalHandleCreate":
        fn(*mut u64, Handle, Handle, c_uint, c_uint);
    graph_add_node = "cuGraphAddNode_v2":
        fn(*mut Handle, Handle, *const Handle, *const EdgeData, usize, *mut NodeParams);
    graph_retain = "cuGraphRetainUserObject": fn(Handle, Handle, c_uint, c_uint);
    user_object_create = "cuUserObjectCreate":
        fn(*mut Handle, *mut c_void, HostFnPtr, c_uint, c_uint);
    user_object_release = "cuUserObjectRelease": fn(Handle, c_uint);
    graph_add_edges = "cuGraphAddDependencies_v2":
        fn(Handle, *const Handle, *const Handle, *const EdgeData, usize);
    graph_set_attribute = "cuGraphKernelNodeSetAttribute": fn(Handle, c_uint, *const c_void);
    graph_instantiate = "cuGraphInstantiateWithFlags": fn(*mut Handle, Handle, c_ulonglong);
    graph_exec_destroy = "cuGraphExecDestroy": fn(Handle);
    graph_launch = "cuGraphLaunch": fn(Handle, Handle);
    graph_set_kernel =
        "cuGraphExecKernelNodeSetParams_v2": fn(Handle, Handle, *const KernelNode);
    graph_set_copy =
        "cuGraphExecMemcpyNodeSetParams": fn(Handle, Handle, *const CopyNode, Handle);
    graph_set_fill =
        "cuGraphExecMemsetNodeSetParams": fn(Handle, Handle, *const FillNode, Handle);
    encode_tiled = "cuTensorMapEncodeTiled": fn(
        *mut TensorMap, c_int, c_uint, Handle, *const u64, *const u64, *const c_uint, *const c_uint,
        c_int, c_int, c_int, c_int,
    );
    active_blocks =
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": fn(*mut c_int, Handle, c_int, usize);
    active_clusters =
        "cuOccupancyMaxActiveClusters": fn(*mut c_int, Handle, *const CuLaunchConfig);
}

/// Returns the function in an entry of the table. If the library lacks `symbol`, returns an
/// `Unsupported` error that names the symbol.
#[inline]
pub(crate) fn need<F: Copy>(entry: Option<F>, symbol: &'static str) -> Result<F> {
    match entry {
        Some(entry) => Ok(entry),
        None => Err(missing(symbol)),
    }
}

#[cold]
fn missing(symbol: &'static str) -> Error {
    let cause = format!("the driver library has no `{symbol}`; install a newer driver");
    Error::new(ErrorKind::Unsupported, symbol, cause)
}

/// Opens the driver library.
///
/// # Errors
/// `Unsupported`, with the files that were tried.
pub(crate) fn open_driver() -> Result<DriverApi> {
    library::open(Library::Driver).map(DriverApi::load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;
    use std::mem::{align_of, offset_of, size_of};

    #[test]
    fn launch_config_has_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUlaunchConfig_st;
        assert_eq!(size_of::<CuLaunchConfig>(), size_of::<Theirs>());
        assert_eq!(align_of::<CuLaunchConfig>(), align_of::<Theirs>());
        assert_eq!(offset_of!(CuLaunchConfig, grid), offset_of!(Theirs, gridDimX));
        assert_eq!(offset_of!(CuLaunchConfig, block), offset_of!(Theirs, blockDimX));
        assert_eq!(offset_of!(CuLaunchConfig, shared_bytes), offset_of!(Theirs, sharedMemBytes));
        assert_eq!(offset_of!(CuLaunchConfig, stream), offset_of!(Theirs, hStream));
        assert_eq!(offset_of!(CuLaunchConfig, attrs), offset_of!(Theirs, attrs));
        assert_eq!(offset_of!(CuLaunchConfig, attr_count), offset_of!(Theirs, numAttrs));
        type Kernel = sys::CUDA_KERNEL_NODE_PARAMS_v2_st;
        assert_eq!(size_of::<KernelNode>(), size_of::<Kernel>());
        assert_eq!(offset_of!(KernelNode, shared_bytes), offset_of!(Kernel, sharedMemBytes));
        assert_eq!(offset_of!(KernelNode, params), offset_of!(Kernel, kernelParams));
        assert_eq!(offset_of!(KernelNode, context), offset_of!(Kernel, ctx));
        assert_eq!(size_of::<TensorMap>(), size_of::<sys::CUtensorMap_st>());
        assert!(align_of::<TensorMap>() >= align_of::<sys::CUtensorMap_st>());
        type Copies = sys::CUDA_MEMCPY3D_st;
        let side = |of: usize, field: usize| of + field;
        let (src, dst) = (offset_of!(CopyNode, src), offset_of!(CopyNode, dst));
        assert_eq!(size_of::<CopyNode>(), size_of::<Copies>());
        assert_eq!(side(src, offset_of!(CopySide, kind)), offset_of!(Copies, srcMemoryType));
        assert_eq!(side(src, offset_of!(CopySide, device)), offset_of!(Copies, srcDevice));
        assert_eq!(side(src, offset_of!(CopySide, pitch)), offset_of!(Copies, srcPitch));
        assert_eq!(side(dst, offset_of!(CopySide, x_bytes)), offset_of!(Copies, dstXInBytes));
        assert_eq!(side(dst, offset_of!(CopySide, host)), offset_of!(Copies, dstHost));
        assert_eq!(side(dst, offset_of!(CopySide, height)), offset_of!(Copies, dstHeight));
        assert_eq!(offset_of!(CopyNode, width_bytes), offset_of!(Copies, WidthInBytes));
        assert_eq!(offset_of!(CopyNode, depth), offset_of!(Copies, Depth));
        type Fill = sys::CUDA_MEMSET_NODE_PARAMS_st;
        assert_eq!(size_of::<FillNode>(), size_of::<Fill>());
        assert_eq!(offset_of!(FillNode, value), offset_of!(Fill, value));
        assert_eq!(offset_of!(FillNode, element_bytes), offset_of!(Fill, elementSize));
        assert_eq!(offset_of!(FillNode, height), offset_of!(Fill, height));
        type HostNode = sys::CUDA_HOST_NODE_PARAMS_st;
        assert_eq!(size_of::<HostFnNode>(), size_of::<HostNode>());
        assert_eq!(offset_of!(HostFnNode, function), offset_of!(HostNode, fn_));
        assert_eq!(offset_of!(HostFnNode, data), offset_of!(HostNode, userData));
        type Edge = sys::CUgraphEdgeData_st;
        assert_eq!(size_of::<EdgeData>(), size_of::<Edge>());
        assert_eq!(offset_of!(EdgeData, from_port), offset_of!(Edge, from_port));
        assert_eq!(offset_of!(EdgeData, kind), offset_of!(Edge, type_));
        type Attribute = sys::CUlaunchAttribute_st;
        assert_eq!(size_of::<LaunchAttribute>(), size_of::<Attribute>());
        assert_eq!(align_of::<LaunchAttribute>(), align_of::<Attribute>());
        assert_eq!(offset_of!(LaunchAttribute, id), offset_of!(Attribute, id));
        assert_eq!(offset_of!(LaunchAttribute, value), offset_of!(Attribute, value));
    }

    #[test]
    fn conditional_nodes_have_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUgraphNodeParams_st;
        type Conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS;
        assert_eq!(size_of::<NodeParams>(), size_of::<Theirs>());
        assert_eq!(align_of::<NodeParams>(), align_of::<Theirs>());
        assert_eq!(offset_of!(NodeParams, kind), offset_of!(Theirs, type_));
        let union = offset_of!(Theirs, __bindgen_anon_1);
        assert_eq!(offset_of!(NodeParams, conditional), union);
        assert_eq!(offset_of!(NodeParams, reserved_too), offset_of!(Theirs, reserved2));
        assert_eq!(size_of::<ConditionalParams>(), size_of::<Conditional>());
        assert_eq!(offset_of!(ConditionalParams, kind), offset_of!(Conditional, type_));
        assert_eq!(offset_of!(ConditionalParams, size), offset_of!(Conditional, size));
        assert_eq!(offset_of!(ConditionalParams, bodies), offset_of!(Conditional, phGraph_out));
        assert_eq!(offset_of!(ConditionalParams, context), offset_of!(Conditional, ctx));
        let kind = sys::CUgraphNodeType_enum::CU_GRAPH_NODE_TYPE_CONDITIONAL as c_int;
        assert_eq!(NodeParams::conditional(0, 0, std::ptr::null_mut()).kind, kind);
    }

    #[test]
    fn pool_properties_have_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUmemPoolProps_st;
        assert_eq!(size_of::<MemPoolProps>(), size_of::<Theirs>());
        assert_eq!(offset_of!(MemPoolProps, alloc_type), offset_of!(Theirs, allocType));
        assert_eq!(offset_of!(MemPoolProps, handle_types), offset_of!(Theirs, handleTypes));
        assert_eq!(offset_of!(MemPoolProps, location), offset_of!(Theirs, location));
        assert_eq!(offset_of!(MemPoolProps, security), offset_of!(Theirs, win32SecurityAttributes));
        assert_eq!(offset_of!(MemPoolProps, max_size), offset_of!(Theirs, maxSize));
        assert_eq!(offset_of!(MemPoolProps, usage), offset_of!(Theirs, usage));
    }

    #[test]
    fn allocation_properties_have_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUmemAllocationProp_st;
        assert_eq!(size_of::<AllocationProps>(), size_of::<Theirs>());
        assert_eq!(align_of::<AllocationProps>(), align_of::<Theirs>());
        assert_eq!(offset_of!(AllocationProps, kind), offset_of!(Theirs, type_));
        let handles = offset_of!(Theirs, requestedHandleTypes);
        assert_eq!(offset_of!(AllocationProps, handle_types), handles);
        assert_eq!(offset_of!(AllocationProps, location), offset_of!(Theirs, location));
        let security = offset_of!(Theirs, win32HandleMetaData);
        assert_eq!(offset_of!(AllocationProps, security), security);
        assert_eq!(offset_of!(AllocationProps, flags), offset_of!(Theirs, allocFlags));
    }

    #[test]
    fn pool_access_has_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUmemAccessDesc_st;
        assert_eq!(size_of::<MemAccess>(), size_of::<Theirs>());
        assert_eq!(align_of::<MemAccess>(), align_of::<Theirs>());
        assert_eq!(offset_of!(MemAccess, location), offset_of!(Theirs, location));
        assert_eq!(offset_of!(MemAccess, flags), offset_of!(Theirs, flags));
        assert_eq!(size_of::<MemLocation>(), size_of::<sys::CUmemLocation_st>());
        assert_eq!(offset_of!(MemLocation, kind), offset_of!(sys::CUmemLocation_st, type_));
        assert_eq!(offset_of!(MemLocation, id), offset_of!(sys::CUmemLocation_st, id));
    }

    #[test]
    fn copy_attributes_have_the_layout_of_the_reference_binding() {
        type Theirs = sys::CUmemcpyAttributes_st;
        assert_eq!(size_of::<CopyAttributes>(), size_of::<Theirs>());
        assert_eq!(align_of::<CopyAttributes>(), align_of::<Theirs>());
        assert_eq!(offset_of!(CopyAttributes, source_order), offset_of!(Theirs, srcAccessOrder));
        assert_eq!(offset_of!(CopyAttributes, source_hint), offset_of!(Theirs, srcLocHint));
        assert_eq!(offset_of!(CopyAttributes, target_hint), offset_of!(Theirs, dstLocHint));
        assert_eq!(offset_of!(CopyAttributes, flags), offset_of!(Theirs, flags));
    }
}
