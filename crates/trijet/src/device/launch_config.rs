//! The configuration of a launch: its grid, its blocks, their shared memory and its attributes.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};

/// The number of blocks and clusters of a kernel that run at the same time on a device that does
/// nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Blocks on one multiprocessor.
    pub blocks: u32,
    /// Clusters on the device; `None` for a configuration without clusters.
    pub clusters: Option<u32>,
}

/// Maximum sizes of a block in x, y and z, in threads (CUDA C++ Programming Guide, "Technical
/// Specifications").
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
/// Maximum sizes of a grid in x, y and z, in blocks (from the same table of the guide).
const GRID_MAX: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];
/// Maximum number of blocks of a cluster on every device that has clusters (CUDA C++ Programming
/// Guide, "Thread Block Clusters").
const CLUSTER_MAX: u32 = 8;
/// The first compute capability with clusters.
const CLUSTERS_SINCE: (u32, u32) = (9, 0);
/// The compute capability of a host device. A host device accepts clusters and dependent launches,
/// because its twins run one tile after another.
const HOST: (u32, u32) = (0, 0);

/// The limits of a device that [`LaunchConfig::check`] needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchLimits {
    pub(crate) block_threads_max: u32,
    pub(crate) compute: (u32, u32),
}

/// The configuration of a launch: what CUDA writes between `<<<` and `>>>`, and its attributes.
///
/// ```
/// use trijet::LaunchConfig;
/// let config = LaunchConfig::new([20, 1, 1], [128, 2, 1]).shared_bytes(4096);
/// assert_eq!((config.grid[0], config.shared_bytes), (20, 4096));
/// assert_eq!(LaunchConfig::over(1000, 256)?.grid, [4, 1, 1]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchConfig {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
    /// Blocks of a cluster in x, y and z; all 1 without clusters.
    pub cluster: [u32; 3],
    /// Whether all blocks run at the same time, so that they may wait for each other.
    pub cooperative: bool,
    /// The priority of the kernel's blocks; `None` for the priority of its stream.
    pub priority: Option<i32>,
    /// Whether the kernel may start before the previous kernel of its stream has ended.
    pub dependent: bool,
}

impl LaunchConfig {
    /// A grid of `grid` blocks of `block` threads, without dynamic shared memory and attributes.
    #[must_use]
    #[inline]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        let (shared_bytes, cluster, priority) = (0, [1; 3], None);
        let (cooperative, dependent) = (false, false);
        Self { grid, block, shared_bytes, cluster, cooperative, priority, dependent }
    }

    /// A configuration with at least one thread for each of `elements` elements, in blocks of
    /// `block` threads.
    ///
    /// # Errors
    /// `InvalidValue` when `block` is 0, or when the grid would have more than 2^31 - 1 blocks.
    pub fn over(elements: usize, block: u32) -> Result<Self> {
        if block == 0 {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "launch",
                "the block has 0 threads; it needs at least 1",
            ));
        }
        Self::covering(elements as u64, u64::from(block), block)
    }

    /// A configuration for `elements` elements. Each block has `block` threads and covers
    /// `per_block` elements.
    #[inline]
    pub(crate) fn covering(elements: u64, per_block: u64, block: u32) -> Result<Self> {
        match i32::try_from(elements.div_ceil(per_block)) {
            Ok(blocks) => Ok(Self::new([blocks.cast_unsigned(), 1, 1], [block, 1, 1])),
            Err(_) => {
                let cause = format!(
                    "{elements} elements, with {per_block} in each block, need more than 2^31 - \
                     1 blocks"
                );
                Err(Error::new(ErrorKind::InvalidValue, "launch", cause))
            }
        }
    }

    /// The same configuration with `bytes` of dynamic shared memory for each block.
    #[must_use]
    #[inline]
    pub const fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// The same configuration with clusters of `blocks` in x, y and z. The blocks of a cluster run
    /// at the same time and can access each other's shared memory. The grid must consist of whole
    /// clusters. A GPU needs compute capability 9.0.
    ///
    /// ```
    /// use trijet::LaunchConfig;
    /// let config = LaunchConfig::new([6, 1, 1], [128, 1, 1]).cluster([2, 1, 1]);
    /// assert_eq!(config.cluster, [2, 1, 1]);
    /// ```
    #[must_use]
    #[inline]
    pub const fn cluster(mut self, blocks: [u32; 3]) -> Self {
        self.cluster = blocks;
        self
    }

    /// The same configuration as a cooperative launch: all blocks run at the same time. The launch
    /// is refused if the device cannot run all blocks of the grid at once while it does nothing
    /// else.
    #[must_use]
    #[inline]
    pub const fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// The same configuration with a priority for this kernel.
    /// [`DeviceInfo::priorities`](crate::DeviceInfo::priorities) has the range. Values out of range
    /// are clamped, as for streams.
    #[must_use]
    #[inline]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// The same configuration as a dependent launch (programmatic dependent launch, laws
    /// [A34](crate::laws#a34) to [A36](crate::laws#a36)). The kernel may start when every block of
    /// the previous kernel in its stream has executed `griddepcontrol.launch_dependents` or has
    /// ended. The kernel executes `griddepcontrol.wait` before it uses memory. A kernel is refused
    /// if its PTX has a path without such a wait, or a use of memory before the wait. The author of
    /// a kernel can [promise](crate::kernels::KernelSpec::trust_wait) that the kernel waits in
    /// time. Then the paths are not checked.
    ///
    /// The results are the same as for an ordinary launch; only the time differs. The launch is an
    /// ordinary launch after a copy, a fill or a wait, and on every GPU before compute capability
    /// 9.0. In a [graph](crate::graph), the launch is also an ordinary launch if it follows a node
    /// of another stream, or with a driver before CUDA 12.3.
    #[must_use]
    #[inline]
    pub const fn dependent(mut self) -> Self {
        self.dependent = true;
        self
    }

    /// Whether the launch needs attributes of CUDA in addition to its sizes.
    #[inline]
    pub(crate) fn has_attributes(&self) -> bool {
        self.needs_room() || self.priority.is_some() || self.dependent
    }

    /// Whether the launch is refused if its blocks do not fit onto the device at once. Only the
    /// driver knows how many blocks fit.
    #[inline]
    pub(crate) fn needs_room(&self) -> bool {
        self.cooperative || self.cluster != [1; 3]
    }

    /// The product of the sizes in x, y and z.
    fn product(sides: [u32; 3]) -> u64 {
        sides.iter().fold(1, |n, side| n.saturating_mul(u64::from(*side)))
    }

    /// The number of blocks of the grid.
    pub(crate) fn blocks(&self) -> u64 {
        Self::product(self.grid)
    }

    /// The number of threads of a block.
    pub(crate) fn block_threads(&self) -> u64 {
        Self::product(self.block)
    }

    /// The number of blocks of a cluster.
    pub(crate) fn cluster_blocks(&self) -> u64 {
        Self::product(self.cluster)
    }

    /// Checks the configuration against the limits of every CUDA device, and against `limits`.
    ///
    /// # Errors
    /// A text that names the wrong value and its limit.
    pub(crate) fn check(&self, limits: LaunchLimits) -> std::result::Result<(), String> {
        let block_threads_max = limits.block_threads_max;
        let sides = [("block", self.block, BLOCK_MAX), ("grid", self.grid, GRID_MAX)];
        for (what, sides, limits) in sides {
            for (axis, (side, limit)) in ["x", "y", "z"].iter().zip(sides.iter().zip(limits)) {
                if !(1..=limit).contains(side) {
                    return Err(format!("{what}.{axis} is {side}; it must be 1 to {limit}"));
                }
            }
        }
        let threads = self.block_threads();
        if threads > u64::from(block_threads_max) {
            let [x, y, z] = self.block;
            return Err(format!(
                "a block of {x} x {y} x {z} has {threads} threads; the device allows {block_threads_max}"
            ));
        }
        if self.cooperative && self.dependent {
            return Err("a launch cannot be both cooperative and dependent".to_owned());
        }
        self.check_cluster(limits.compute)
    }

    /// Whether a device of this compute capability has dependent launches. Every host device has
    /// dependent launches.
    pub(crate) fn has_dependents(compute: (u32, u32)) -> bool {
        compute == HOST || compute >= CLUSTERS_SINCE
    }

    /// Checks that a launch fits onto a device with `multiprocessors` multiprocessors. `room` is
    /// the occupancy of the kernel. At least one cluster of a launch with clusters must fit. All
    /// blocks of a cooperative launch must fit at the same time.
    ///
    /// # Errors
    /// A text with the number of blocks and the room for them.
    pub(crate) fn check_room(
        &self,
        room: Occupancy,
        multiprocessors: u64,
    ) -> std::result::Result<(), String> {
        let cluster = self.cluster_blocks();
        if room.clusters == Some(0) {
            return Err(format!(
                "the device has no room for a cluster of {cluster} blocks of {} threads with {} bytes of \
                 dynamic shared memory",
                self.block_threads(),
                self.shared_bytes
            ));
        }
        let blocks = match room.clusters {
            Some(clusters) => u64::from(clusters) * cluster,
            None => u64::from(room.blocks) * multiprocessors,
        };
        if self.cooperative && self.blocks() > blocks {
            return Err(format!(
                "the grid of a cooperative launch has {} blocks, but the device runs at most \
                 {blocks} at the same time",
                self.blocks()
            ));
        }
        Ok(())
    }

    /// Maximum number of blocks of a cluster on a device of this compute capability; 1 if the
    /// device has no clusters.
    pub(crate) fn cluster_blocks_max(compute: (u32, u32)) -> u32 {
        if compute == HOST || compute >= CLUSTERS_SINCE { CLUSTER_MAX } else { 1 }
    }

    fn check_cluster(&self, compute: (u32, u32)) -> std::result::Result<(), String> {
        if self.cluster == [1; 3] {
            return Ok(());
        }
        for (axis, (side, grid)) in ["x", "y", "z"].iter().zip(self.cluster.iter().zip(self.grid)) {
            if *side == 0 {
                return Err(format!("cluster.{axis} is 0; it must be at least 1"));
            }
            if !grid.is_multiple_of(*side) {
                return Err(format!(
                    "grid.{axis} is {grid}, which is not a multiple of cluster.{axis} {side}"
                ));
            }
        }
        let blocks = self.cluster_blocks();
        if blocks > u64::from(CLUSTER_MAX) {
            return Err(format!(
                "the cluster has {blocks} blocks; at most {CLUSTER_MAX} are allowed"
            ));
        }
        if compute != HOST && compute < CLUSTERS_SINCE {
            let ((major, minor), (since, _)) = (compute, CLUSTERS_SINCE);
            return Err(format!(
                "clusters need compute capability {since}.0, and the device has {major}.{minor}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LaunchConfig, LaunchLimits};

    const LIMITS: LaunchLimits = LaunchLimits { block_threads_max: 1024, compute: (9, 0) };

    #[test]
    fn the_grid_covers_every_element_and_no_further_block() {
        for (elements, block, blocks) in [(0, 32, 0), (1, 32, 1), (32, 32, 1), (33, 32, 2)] {
            let config = LaunchConfig::over(elements, block).expect("few blocks");
            assert_eq!((config.grid, config.block), ([blocks, 1, 1], [block, 1, 1]));
        }
        let most = i32::MAX as usize;
        assert_eq!(LaunchConfig::over(most, 1).expect("the most").grid[0] as usize, most);
        assert!(LaunchConfig::over(most + 1, 1).is_err());
        assert!(LaunchConfig::over(1, 0).is_err());
    }

    #[test]
    fn a_side_beyond_its_limit_is_named() {
        let told = |grid, block| LaunchConfig::new(grid, block).check(LIMITS).unwrap_err();
        assert_eq!(told([1; 3], [1, 1, 65]), "block.z is 65; it must be 1 to 64");
        assert_eq!(told([1; 3], [1, 0, 1]), "block.y is 0; it must be 1 to 1024");
        assert_eq!(told([1, 65_536, 1], [1; 3]), "grid.y is 65536; it must be 1 to 65535");
        assert_eq!(
            told([u32::MAX, 1, 1], [1; 3]),
            "grid.x is 4294967295; it must be 1 to 2147483647"
        );
        let large = "a block of 32 x 33 x 1 has 1056 threads; the device allows 1024";
        assert_eq!(told([1; 3], [32, 33, 1]), large);
        assert_eq!(LaunchConfig::new([2; 3], [32, 32, 1]).check(LIMITS), Ok(()));
    }

    #[test]
    fn a_cooperative_launch_is_no_dependent_one() {
        let both = LaunchConfig::new([1; 3], [32, 1, 1]).cooperative().dependent();
        let why = "a launch cannot be both cooperative and dependent";
        assert_eq!(both.check(LIMITS).unwrap_err(), why);
    }

    #[test]
    fn only_devices_with_clusters_have_clusters_of_several_blocks() {
        let sizes = [(0, 0), (8, 9), (9, 0), (12, 1)].map(LaunchConfig::cluster_blocks_max);
        assert_eq!(sizes, [8, 1, 8, 8]);
    }

    #[test]
    fn a_cluster_that_the_grid_or_the_device_does_not_allow_is_named() {
        let with = |cluster| LaunchConfig::new([12, 4, 1], [32, 1, 1]).cluster(cluster);
        let told = |cluster| with(cluster).check(LIMITS).unwrap_err();
        assert_eq!(told([1, 0, 1]), "cluster.y is 0; it must be at least 1");
        assert_eq!(told([5, 1, 1]), "grid.x is 12, which is not a multiple of cluster.x 5");
        assert_eq!(told([1, 1, 2]), "grid.z is 1, which is not a multiple of cluster.z 2");
        assert_eq!(told([6, 2, 1]), "the cluster has 12 blocks; at most 8 are allowed");
        for cluster in [[1, 1, 1], [2, 1, 1], [4, 2, 1], [1, 4, 1]] {
            assert_eq!(with(cluster).check(LIMITS), Ok(()), "{cluster:?}");
            let host = LaunchLimits { compute: (0, 0), ..LIMITS };
            assert_eq!(with(cluster).check(host), Ok(()), "{cluster:?} on the host");
        }
        let old = LaunchLimits { compute: (8, 6), ..LIMITS };
        let needs = "clusters need compute capability 9.0, and the device has 8.6";
        assert_eq!(with([2, 1, 1]).check(old).unwrap_err(), needs);
        assert_eq!(with([1, 1, 1]).check(old), Ok(()));
    }
}
