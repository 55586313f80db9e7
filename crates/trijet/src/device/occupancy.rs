//! The number of blocks and clusters of a kernel that run at the same time.
#![forbid(unsafe_code)]

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
