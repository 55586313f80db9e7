//! The engines of a device that a profile distinguishes.
#![forbid(unsafe_code)]

use crate::trace::activity::{Activity, ActivityKind, CopyDirection, ProcessTrace};

/// Parts of the names of kernels that communicate between GPUs: kernels of the libraries NCCL,
/// RCCL, NVSHMEM and ROC_SHMEM.
const COMMUNICATION: [&str; 7] = [
    "ncclDevKernel",
    "ncclKernel",
    "ncclSymDevKernel",
    "ncclSymkDevKernel",
    "rcclDevKernel",
    "nvshmem",
    "rocshmem",
];

/// Whether a kernel with this name communicates between GPUs. Such a kernel waits for other GPUs
/// most of its time, so it does not count as a computation.
#[must_use]
pub fn communicates(name: &str) -> bool {
    // A mangled name starts with a prefix and the length of the name.
    let name = name.strip_prefix("_Z").unwrap_or(name);
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == 'N');
    COMMUNICATION.iter().any(|prefix| name.starts_with(prefix))
}

/// For each name of a trace, by its number: whether it is the name of a kernel that communicates.
pub(super) struct Communicating(Vec<bool>);

impl Communicating {
    pub(super) fn of(trace: &ProcessTrace) -> Self {
        Self(trace.names.iter().map(|name| communicates(name)).collect())
    }

    pub(super) fn has(&self, one: &Activity) -> bool {
        let index = one.name.and_then(|name| usize::try_from(name.0).ok());
        one.kind == ActivityKind::Kernel
            && index.and_then(|index| self.0.get(index)).is_some_and(|known| *known)
    }
}

/// An engine of a device, or a kind of work that has its own row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramEngine {
    Kernels,
    Communication,
    Upload,
    Download,
    Peer,
    Within,
    Fills,
    Host,
}

impl ProgramEngine {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Communication => "communication",
            Self::Upload => "upload",
            Self::Download => "download",
            Self::Peer => "peer copies",
            Self::Within => "copies within",
            Self::Fills => "fills",
            Self::Host => "host copies",
        }
    }
}

/// The engine of an activity; `None` for an activity of the host.
pub(super) fn engine(one: &Activity, communicating: &Communicating) -> Option<ProgramEngine> {
    match one.kind {
        ActivityKind::Kernel if communicating.has(one) => Some(ProgramEngine::Communication),
        ActivityKind::Kernel => Some(ProgramEngine::Kernels),
        ActivityKind::Fill => Some(ProgramEngine::Fills),
        ActivityKind::Copy { direction, .. } => Some(match direction {
            CopyDirection::Upload => ProgramEngine::Upload,
            CopyDirection::Download => ProgramEngine::Download,
            CopyDirection::Peer => ProgramEngine::Peer,
            CopyDirection::Host => ProgramEngine::Host,
            _ => ProgramEngine::Within,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_communication_libraries_are_known_by_their_names() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_AllGather_RING_LL_Sum_int8_t",
            "_Z32ncclDevKernel_AllReduce_Sum_bf1624ncclDevKernelArgsStorageILm4096EE",
            "ncclSymDevKernel_AllReduce_AGxLL_R_sum_f32",
            "ncclSymkDevKernel_AllGather_LL",
            "nvshmemi_barrier_kernel",
        ] {
            assert!(communicates(name), "{name}");
        }
        for name in ["my_ncclDevKernel", "gemm", "", "_Z", "_ZN2at6native3addE"] {
            assert!(!communicates(name), "{name}");
        }
    }
}
