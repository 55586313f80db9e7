//! Parts for tests of the library and of programs that use it: conformance of a device,
//! demonstration kernels, dropped waits, counters, and a generator of numbers.
#![forbid(unsafe_code)]

pub use crate::base::prng::Prng;
pub use crate::device::conform::{Subject, transcript};
pub use crate::device::driver::CaptureMode;
pub use crate::kernels::mix::MIX;
pub use crate::kernels::tag::{HAS_TAG, TAG};
pub use crate::kernels::work::WORK;
pub use crate::stream::foreign::{Capture, Captured};
pub use crate::stream::{DroppedWait, OrderingCounts};

/// A product of matrices by clusters of blocks. The first block of a cluster loads each tile of the
/// second matrix, and all blocks read it from the shared memory of that block.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod cluster {
    pub use crate::kernels::cluster::{ClusterParams, MATMUL, config};
}

/// A producer and a consumer for dependent launches
/// ([`LaunchConfig::dependent`](crate::LaunchConfig::dependent)). Each begins while the previous
/// kernel still runs, and waits inside for the results of that kernel. A chain is a producer and
/// any number of consumers.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod dependent {
    pub use crate::kernels::dependent::{CONSUME, Consumer, PRODUCE, Trigger};
}

/// A product of matrices by clusters of blocks. The copy engine loads each tile of the first matrix
/// once for all blocks of a cluster (multicast).
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod multicast {
    pub use crate::kernels::multicast::{MATMUL, MulticastParams, config, left, right};
}

/// A sum by blocks whose warps have different roles: one loads, one adds, one stores. So copies and
/// arithmetic overlap inside a block too.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod warp_specialized {
    pub use crate::kernels::warp_specialized::{ADD, TILE, config};
}
