//! The configuration of a launch: its grid, its blocks and their shared memory.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};

/// The largest sides of a block (CUDA C++ Programming Guide, "Technical Specifications").
const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
/// The largest sides of a grid (as above).
const GRID_MAX: [u32; 3] = [i32::MAX.cast_unsigned(), 65_535, 65_535];

/// The configuration of a launch: what CUDA writes between `<<<` and `>>>`.
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
}

impl LaunchConfig {
    /// A grid of `grid` blocks of `block` threads, without dynamic shared memory.
    #[must_use]
    #[inline]
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self { grid, block, shared_bytes: 0 }
    }

    /// At least one thread for each of `elements`, in blocks of `block` threads.
    ///
    /// # Errors
    /// `InvalidValue` when `block` is 0, or when the grid would have more than 2^31 - 1 blocks.
    pub fn over(elements: usize, block: u32) -> Result<Self> {
        if block == 0 {
            return Err(Error::new(ErrorKind::InvalidValue, "launch", "a block of 0 threads"));
        }
        Self::covering(elements as u64, u64::from(block), block)
    }

    /// Blocks of `block` threads, each of which covers `per_block` of `elements`.
    #[inline]
    pub(crate) fn covering(elements: u64, per_block: u64, block: u32) -> Result<Self> {
        match i32::try_from(elements.div_ceil(per_block)) {
            Ok(blocks) => Ok(Self::new([blocks.cast_unsigned(), 1, 1], [block, 1, 1])),
            Err(_) => {
                let cause = format!(
                    "{elements} elements at {per_block} for each block are more than 2^31 - 1 blocks"
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

    fn block_threads(&self) -> u64 {
        self.block.iter().fold(1, |n, side| n.saturating_mul(u64::from(*side)))
    }

    /// Checks the configuration against the limits of every device of CUDA, and against
    /// `block_threads_max` of this one.
    ///
    /// # Errors
    /// A text that names the side, its value and its limit.
    pub(crate) fn check(&self, block_threads_max: u32) -> std::result::Result<(), String> {
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
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LaunchConfig;

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
        let told = |grid, block| LaunchConfig::new(grid, block).check(1024).unwrap_err();
        assert_eq!(told([1; 3], [1, 1, 65]), "block.z is 65; it must be 1 to 64");
        assert_eq!(told([1; 3], [1, 0, 1]), "block.y is 0; it must be 1 to 1024");
        assert_eq!(told([1, 65_536, 1], [1; 3]), "grid.y is 65536; it must be 1 to 65535");
        assert_eq!(
            told([u32::MAX, 1, 1], [1; 3]),
            "grid.x is 4294967295; it must be 1 to 2147483647"
        );
        let large = "a block of 32 x 33 x 1 has 1056 threads; the device allows 1024";
        assert_eq!(told([1; 3], [32, 33, 1]), large);
        assert_eq!(LaunchConfig::new([2; 3], [32, 32, 1]).check(1024), Ok(()));
    }
}
