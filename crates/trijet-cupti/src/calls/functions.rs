//! The functions of the driver that are recorded, with the types of their arguments.
//!
//! CUPTI passes the arguments of a call as a structure with the layout of C: a field for each
//! argument, in order. The names are the names of the driver's entry points, without the suffix of
//! the variants for the default stream of a thread.

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// A pointer, a handle or a size: 8 bytes.
    Word,
    /// A number of 4 bytes.
    Int,
    /// A number of 2 bytes.
    Short,
    /// A number of 1 byte.
    Byte,
    /// A pointer to a word that the call writes.
    Out,
    /// A pointer to a structure with this number of bytes, which the call reads.
    Struct(usize),
    /// A pointer to words that the call reads. Their number is the argument with this index.
    List(usize),
}

impl Argument {
    /// The number of bytes of the argument itself, which is also its alignment.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Word | Self::Out | Self::Struct(_) | Self::List(_) => 8,
            Self::Int => 4,
            Self::Short => 2,
            Self::Byte => 1,
        }
    }
}

/// The moment at which a call is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// The call, when it has returned.
    AtReturn,
    /// The call, when it begins. Another thread may get the freed address or handle before the call
    /// has returned.
    AtStart,
    /// A launch of a kernel, when it has returned.
    Launch(LaunchForm),
    /// A batch of copies, when it has returned: targets, sources, sizes and their number are its
    /// first arguments, and the stream is the argument with this index.
    Batch(usize),
    /// The first byte and the number of bytes of the tensor of a tensor map, when the call has
    /// returned. Only beside accesses of kernels, which name the map.
    TensorMap,
    /// Nothing, but the kernels of a module have other handles from now on.
    Unload,
}

/// The form of the arguments of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchForm {
    /// The kernel, seven numbers, the stream, the arguments and the extra options.
    Plain,
    /// A configuration, the kernel, the arguments and the extra options.
    Configured,
    /// The kernel, seven numbers, the stream and the arguments.
    Cooperative,
}

/// A function that is recorded.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) arguments: &'static [Argument],
    pub(super) recorded: Recorded,
    /// Whether the stack of each call is recorded.
    pub(super) has_stack: bool,
}

macro_rules! functions {
    ($($recorded:expr, $has_stack:literal { $($name:literal($($argument:expr),*);)* })*) => {
        &[$($(Function {
            name: $name,
            arguments: &[$($argument),*],
            recorded: $recorded,
            has_stack: $has_stack,
        },)*)*]
    };
}

use Argument::{Byte as B, Int as I, List as L, Out as O, Short as H, Struct as S, Word as W};
use Recorded::{AtReturn, AtStart, Batch, Launch, TensorMap, Unload};

/// All functions that are recorded.
pub(super) const FUNCTIONS: &[Function] = functions! {
    Launch(LaunchForm::Plain), false {
        "cuLaunchKernel"();
    }
    Launch(LaunchForm::Configured), false {
        "cuLaunchKernelEx"();
    }
    Launch(LaunchForm::Cooperative), false {
        "cuLaunchCooperativeKernel"();
    }
    Batch(8), true {
        "cuMemcpyBatchAsync"();
    }
    Batch(7), true {
        "cuMemcpyBatchAsync_v2"();
    }
    TensorMap, false {
        "cuTensorMapEncodeTiled"();
        "cuTensorMapEncodeIm2col"();
    }
    Unload, false {
        "cuModuleUnload"();
        "cuLibraryUnload"();
        "cuCtxDestroy_v2"();
        "cuDevicePrimaryCtxRelease_v2"();
        "cuDevicePrimaryCtxReset_v2"();
    }
    AtReturn, false {
        "cuStreamCreate"(O, I);
        "cuStreamCreateWithPriority"(O, I, I);
        "cuGreenCtxStreamCreate"(O, W, I, I);
        "cuStreamSynchronize"(W);
        "cuStreamQuery"(W);
        "cuStreamBeginCapture_v2"(W, I);
        "cuStreamBeginCaptureToGraph"(W, W, W, W, W, I);
        "cuStreamEndCapture"(W, O);
        "cuStreamUpdateCaptureDependencies"(W, W, W, I);
        "cuStreamUpdateCaptureDependencies_v2"(W, W, W, W, I);
        "cuEventQuery"(W);
        "cuEventSynchronize"(W);
        "cuEventElapsedTime"(W, W, W);
        "cuEventElapsedTime_v2"(W, W, W);
        "cuEventRecord"(W, W);
        "cuEventRecordWithFlags"(W, W, I);
        "cuStreamWaitEvent"(W, W, I);
        "cuLaunchHostFunc"(W, W, W);
        "cuStreamAddCallback"(W, W, W, I);
        "cuCtxSynchronize"();
        "cuCtxSynchronize_v2"(W);
        "cuGraphInstantiateWithFlags"(O, W, W);
        "cuGraphInstantiateWithParams"(O, W, W);
        "cuGraphCreate"(O, I);
        "cuGraphClone"(O, W);
        "cuGraphExecUpdate"(W, W);
        "cuGraphExecUpdate_v2"(W, W, W);
        "cuGraphExecKernelNodeSetParams_v2"(W, W, W);
        "cuGraphExecMemcpyNodeSetParams"(W, W, W, W);
        "cuGraphExecMemsetNodeSetParams"(W, W, W, W);
        "cuGraphExecChildGraphNodeSetParams"(W, W, W);
        "cuGraphExecNodeSetParams"(W, W, W);
        "cuGraphNodeSetEnabled"(W, W, I);
        "cuGraphAddDependencies"(W, L(3), L(3), W);
        "cuGraphAddDependencies_v2"(W, L(4), L(4), L(4), W);
        "cuGraphRemoveDependencies"(W, L(3), L(3), W);
        "cuGraphRemoveDependencies_v2"(W, L(4), L(4), L(4), W);
        "cuGraphDestroyNode"(W);
        "cuGraphChildGraphNodeGetGraph"(W, O);
        "cuGraphKernelNodeSetParams"(W, W);
        "cuGraphKernelNodeSetParams_v2"(W, W);
        "cuGraphMemcpyNodeSetParams"(W, W);
        "cuGraphMemsetNodeSetParams"(W, W);
        "cuGraphNodeSetParams"(W, W);
        "cuStreamBatchMemOp"(W, I, W, I);
        "cuStreamBatchMemOp_v2"(W, I, W, I);
        "cuWaitExternalSemaphoresAsync"(W, W, I, W);
        "cuSignalExternalSemaphoresAsync"(W, W, I, W);
    }
    AtReturn, true {
        "cuMemAlloc_v2"(O, W);
        "cuMemAllocManaged"(O, W, I);
        "cuMemAllocPitch_v2"(O, O, W, W, I);
        "cuMemAllocHost_v2"(O, W);
        "cuMemHostAlloc"(O, W, I);
        "cuMemHostRegister_v2"(W, W, I);
        "cuMemAllocAsync"(O, W, W);
        "cuMemAllocFromPoolAsync"(O, W, W, W);
        "cuMemMap"(W, W, W, W, W);
        "cuGraphAddKernelNode"(O, W, L(3), W, W);
        "cuGraphAddKernelNode_v2"(O, W, L(3), W, W);
        "cuGraphAddMemcpyNode"(O, W, L(3), W, S(200), W);
        "cuGraphAddMemsetNode"(O, W, L(3), W, S(40), W);
        "cuGraphAddMemAllocNode"(O, W, L(3), W, S(120));
        "cuGraphAddMemFreeNode"(O, W, L(3), W, W);
        "cuGraphAddChildGraphNode"(O, W, L(3), W, W);
        "cuGraphAddHostNode"(O, W, L(3), W, W);
        "cuGraphAddEmptyNode"(O, W, L(3), W);
        "cuGraphAddEventRecordNode"(O, W, L(3), W, W);
        "cuGraphAddEventWaitNode"(O, W, L(3), W, W);
        "cuGraphAddNode"(O, W, L(3), W, S(8));
        "cuGraphAddNode_v2"(O, W, L(4), L(4), W, S(8));
        "cuModuleGetGlobal_v2"(O, O);
        "cuLibraryGetGlobal"(O, O);
        "cuLibraryGetManaged"(O, O);
        "cuExternalMemoryGetMappedBuffer"(O, W, S(16));
        "cuIpcOpenMemHandle_v2"(O);
        "cuMemcpy"(W, W, W);
        "cuMemcpyAsync"(W, W, W, W);
        "cuMemcpyPeer"(W, W, W, W, W);
        "cuMemcpyPeerAsync"(W, W, W, W, W, W);
        "cuMemcpyHtoD_v2"(W, W, W);
        "cuMemcpyDtoH_v2"(W, W, W);
        "cuMemcpyDtoD_v2"(W, W, W);
        "cuMemcpyHtoDAsync_v2"(W, W, W, W);
        "cuMemcpyDtoHAsync_v2"(W, W, W, W);
        "cuMemcpyDtoDAsync_v2"(W, W, W, W);
        "cuMemcpy2D_v2"(S(128));
        "cuMemcpy2DUnaligned_v2"(S(128));
        "cuMemcpy2DAsync_v2"(S(128), W);
        "cuMemcpy3D_v2"(S(200));
        "cuMemcpy3DAsync_v2"(S(200), W);
        "cuMemcpy3DPeer"(S(200));
        "cuMemcpy3DPeerAsync"(S(200), W);
        "cuMemcpyWithAttributesAsync"(W, W, W, W, W);
        "cuMemsetD8_v2"(W, B, W);
        "cuMemsetD16_v2"(W, H, W);
        "cuMemsetD32_v2"(W, I, W);
        "cuMemsetD2D8_v2"(W, W, B, W, W);
        "cuMemsetD2D16_v2"(W, W, H, W, W);
        "cuMemsetD2D32_v2"(W, W, I, W, W);
        "cuMemsetD8Async"(W, B, W, W);
        "cuMemsetD16Async"(W, H, W, W);
        "cuMemsetD32Async"(W, I, W, W);
        "cuMemsetD2D8Async"(W, W, B, W, W, W);
        "cuMemsetD2D16Async"(W, W, H, W, W, W);
        "cuMemsetD2D32Async"(W, W, I, W, W, W);
        "cuStreamWriteValue32_v2"(W, W, I, I);
        "cuStreamWriteValue64_v2"(W, W, W, I);
        "cuStreamWriteValue32"(W, W, I, I);
        "cuStreamWriteValue64"(W, W, W, I);
        "cuStreamWaitValue32"(W, W, I, I);
        "cuStreamWaitValue64"(W, W, W, I);
        "cuStreamWaitValue32_v2"(W, W, I, I);
        "cuStreamWaitValue64_v2"(W, W, W, I);
        "cuGraphLaunch"(W, W);
    }
    AtStart, false {
        "cuStreamDestroy_v2"(W);
        "cuEventDestroy_v2"(W);
        "cuGraphExecDestroy"(W);
        "cuGraphDestroy"(W);
    }
    AtStart, true {
        "cuMemFree_v2"(W);
        "cuMemFreeHost"(W);
        "cuMemHostUnregister"(W);
        "cuMemFreeAsync"(W, W);
        "cuMemUnmap"(W, W);
    }
};

/// The function with this name, and whether its default stream is the one of the thread.
pub(super) fn find(name: &str) -> Option<(u16, bool)> {
    let base = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds"));
    let number = FUNCTIONS.iter().position(|one| one.name == base.unwrap_or(name))?;
    Some((u16::try_from(number).ok()?, base.is_some()))
}
