//! The number of blocks of a kernel for which a modelled device has room.
//!
//! A host device runs twins tile by tile, and could run any grid. But it refuses the launches that
//! a GPU would refuse, so that a program that needs too much room fails on both.
#![forbid(unsafe_code)]

use crate::device::launch_config::LaunchConfig;
use crate::device::launch_config::Occupancy;

/// The limits of a multiprocessor of an H200 (CUDA C++ Programming Guide, technical specifications
/// of compute capability 9.0).
pub(super) const THREADS_MAX: u32 = 2048;
pub(super) const BLOCKS_MAX: u32 = 32;
pub(super) const SHARED_BYTES: u32 = 228 << 10;
/// The shared memory that the system takes for each block.
const RESERVED_BYTES: u64 = 1 << 10;
/// The number of threads of a warp. A block occupies room for whole warps.
pub(super) const WARP: u32 = 32;
/// A cluster fits if this number of multiprocessors has room for it. Every GPU with clusters can
/// spread a cluster over at least this number. A host device may report fewer multiprocessors, one
/// for each processor of its machine. But a program that is correct on a GPU must run on any
/// machine.
const CLUSTER_MULTIPROCESSORS: u64 = 16;

/// The occupancy of a kernel whose registers and static shared memory never limit it.
pub(super) fn occupancy(config: &LaunchConfig, multiprocessors: u64) -> Occupancy {
    let warp = u64::from(WARP);
    let threads = config.block_threads().next_multiple_of(warp).max(warp);
    let shared = u64::from(config.shared_bytes) + RESERVED_BYTES;
    let (by_threads, by_shared) =
        (u64::from(THREADS_MAX) / threads, u64::from(SHARED_BYTES) / shared);
    let blocks = u64::from(BLOCKS_MAX).min(by_threads).min(by_shared);
    let clusters = (config.cluster != [1; 3]).then(|| {
        let size = config.cluster_blocks().max(1);
        let has_room = blocks * multiprocessors.max(CLUSTER_MULTIPROCESSORS) >= size;
        let all = (blocks * multiprocessors / size).max(u64::from(has_room));
        u32::try_from(all).unwrap_or(u32::MAX)
    });
    Occupancy { blocks: u32::try_from(blocks).unwrap_or(u32::MAX), clusters }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_shared_memory_and_a_fixed_number_limit_the_blocks() {
        let blocks = |threads, shared| {
            let config = LaunchConfig::new([1; 3], [threads, 1, 1]).shared_bytes(shared);
            occupancy(&config, 132).blocks
        };
        assert_eq!(blocks(1024, 0), 2);
        assert_eq!(blocks(1, 0), 32);
        assert_eq!(blocks(96, 0), 21);
        assert_eq!(blocks(97, 0), 16, "a started warp counts");
        assert_eq!(blocks(32, 227 << 10), 1);
        assert_eq!(blocks(32, 113 << 10), 2);
    }

    #[test]
    fn clusters_share_the_room_of_all_multiprocessors() {
        let config = LaunchConfig::new([8, 1, 1], [1024, 1, 1]);
        assert_eq!(occupancy(&config, 132).clusters, None);
        assert_eq!(occupancy(&config.cluster([8, 1, 1]), 132).clusters, Some(33));
        let too_large = config.shared_bytes(228 << 10).cluster([8, 1, 1]);
        assert_eq!(occupancy(&too_large, 132).clusters, Some(0));
    }

    #[test]
    fn a_cluster_has_room_on_a_machine_with_one_processor() {
        for (threads, shared) in [(288, 0), (384, 227 << 10), (1024, 0)] {
            let config = LaunchConfig::new([8, 1, 1], [threads, 1, 1]).shared_bytes(shared);
            let room = occupancy(&config.cluster([8, 1, 1]), 1).clusters;
            assert!(room.is_some_and(|room| room > 0), "{threads} threads, {shared} bytes");
        }
    }
}
