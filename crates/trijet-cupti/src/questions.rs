//! The functions of CUDA that a trace leaves out, because they only query or set something.

/// The prefixes of the names of these functions. A suffix with a version may end the name.
const PREFIXES: [&str; 39] = [
    "cudaGet",
    "cudaPeek",
    "cudaSetDevice",
    "cudaDeviceGet",
    "cudaDriverGet",
    "cudaRuntimeGet",
    "cudaStreamGet",
    "cudaStreamIsCapturing",
    "cudaEventCreate",
    "cudaEventDestroy",
    "cudaEventQuery",
    "cudaEventElapsedTime",
    "cudaFuncGet",
    "cudaFuncSet",
    "cudaOccupancy",
    "cudaPointerGet",
    "cudaThreadExchange",
    "cuGet",
    "cuCtxGet",
    "cuCtxSet",
    "cuCtxPush",
    "cuCtxPop",
    "cuDeviceGet",
    "cuDriverGet",
    "cuOccupancy",
    "cuPointer",
    "cuThreadExchange",
    "cuDevicePrimaryCtxGet",
    "cuStreamGet",
    "cuStreamIsCapturing",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuFuncGet",
    "cuFuncSet",
    "cuKernelGet",
    "cuKernelSet",
    "cuLibraryGet",
];

/// Whether a function of CUDA only queries or sets something. Such a function does not enqueue,
/// wait or allocate.
pub(crate) fn is_question(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_question;

    #[test]
    fn calls_that_enqueue_wait_or_allocate_are_recorded() {
        for name in [
            "cudaLaunchKernel_v7000",
            "cudaMemcpyAsync_v3020",
            "cudaStreamSynchronize_v3020",
            "cudaStreamWaitEvent_v3020",
            "cudaEventRecord_v3020",
            "cudaEventSynchronize_v3020",
            "cudaMalloc_v3020",
            "cudaDeviceSynchronize_v3020",
            "cudaGraphLaunch_v10000",
            "cuLaunchKernelEx",
            "cuMemcpyHtoDAsync_v2",
            "cuCtxSynchronize",
            "cuMemAlloc_v2",
            "cuModuleLoadData",
            "cuStreamWaitEvent",
        ] {
            assert!(!is_question(name), "{name}");
        }
        for name in ["cudaGetDevice_v3020", "cuCtxGetCurrent", "cudaEventQuery_v3020"] {
            assert!(is_question(name), "{name}");
        }
    }
}
