//! Tools for tests of the library and of programs that use it. They check the conformance of a
//! device, run threads in a repeatable order, leave out waits, count waits and event records, and
//! generate random numbers. There are also demonstration kernels.
#![forbid(unsafe_code)]

pub use crate::base::prng::Prng;
pub use crate::device::conform::{Subject, transcript};
pub use crate::device::driver::{CaptureMode, Script};
pub use crate::kernels::mix::MIX;
pub use crate::kernels::tag::{HAS_TAG, TAG};
pub use crate::kernels::work::WORK;
pub use crate::stream::foreign::{Capture, Captured};
pub use crate::stream::{DroppedWait, OrderingCounts};

use crate::stream::Device;

/// Runs host threads until all of them have ended. In the virtual executor, only one of these
/// threads runs at a time. The order policy decides their order, so the run can be repeated. The
/// threads must then wait for each other only by events and tickets. Calls of other threads on the
/// device at the same time are not part of that order. On other devices, the threads run
/// concurrently. In a child of `fork`, no thread runs.
///
/// ```
/// use trijet::sim::{Executor, HostConfig, Order};
/// use trijet::{Device, testing};
/// let executor = Executor::Virtual(Order::Seeded(3));
/// let device = &Device::host(HostConfig::new().executor(executor))?[0];
/// let (a, b) = (device.stream()?, device.stream()?);
/// testing::script(device, vec![
///     Box::new(|| a.synchronize().expect("nothing failed")),
///     Box::new(|| b.synchronize().expect("nothing failed")),
/// ]);
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// # Panics
/// If one of the threads panics.
pub fn script(device: &Device, threads: Vec<Script<'_>>) {
    device.script(threads);
}

/// Leaves out one wait between streams, to show which results depend on the wait. `number` counts
/// the waits that follow this call, starting with 1. The results of the program may then be wrong,
/// but nothing else goes wrong. Waits of the host and waits before frees are never left out. If
/// wait `number` is a wait of the host or a wait before a free, the next wait between streams is
/// left out instead.
///
/// ```
/// use trijet::{Device, Select, testing};
/// let device = Device::open(Select::Host(0))?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let mut x = a.alloc::<u8>(64)?;
/// testing::drop_wait(&device, 1);
/// a.fill_bytes(&mut x, 1)?;
/// b.fill_bytes(&mut x, 2)?;
/// let dropped = testing::dropped_wait(&device).expect("the second fill does not wait");
/// assert_eq!(dropped.waiter, "fill");
/// # Ok::<(), trijet::Error>(())
/// ```
pub fn drop_wait(device: &Device, number: u64) {
    device.drop_wait(number);
}

/// The wait that [`drop_wait`] left out. `None` if it has left out no wait yet.
#[must_use]
pub fn dropped_wait(device: &Device) -> Option<DroppedWait> {
    device.dropped_wait()
}

/// A product of matrices, computed by clusters of blocks. The first block of a cluster loads each
/// tile of the second matrix. All blocks of the cluster read the tile from the shared memory of the
/// first block.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod cluster {
    pub use crate::kernels::cluster::{ClusterParams, MATMUL, config};
}

/// A producer and a consumer for dependent launches
/// ([`LaunchConfig::dependent`](crate::LaunchConfig::dependent)). Each kernel begins while the
/// previous kernel still runs. The threads of the kernel then wait for the results of the previous
/// kernel. A chain of dependent launches has one producer and any number of consumers.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod dependent {
    pub use crate::kernels::dependent::{CONSUME, Consumer, PRODUCE, Trigger};
}

/// A product of matrices, computed by clusters of blocks. The copy engine loads each tile of the
/// first matrix once for all blocks of a cluster (multicast).
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod multicast {
    pub use crate::kernels::multicast::{MATMUL, MulticastParams, config, left, right};
}

/// A sum, computed by blocks whose warps have different roles: one warp loads, one warp adds, and
/// one warp stores. So the copies of a block overlap with the arithmetic of the same block.
///
/// Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](crate::kernels::PtxRule::Target).
pub mod warp_specialized {
    pub use crate::kernels::warp_specialized::{ADD, TILE, config};
}
