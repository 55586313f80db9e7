//! The sizes and the numbers of repeats of the measurements. They are large enough for steady
//! numbers on a GPU, and smaller on a host device.
#![forbid(unsafe_code)]

use trijet::DeviceInfo;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The sizes and the numbers of repeats of all measurements.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The sizes of the measured copies in bytes.
    pub(super) sizes: &'static [u64],
    /// Maximum number of bytes that all copies of one sample move together. A sample of one copy
    /// may move more.
    pub(super) sample_bytes: u64,
    /// Maximum number of copies in one sample. It is far below the depth of a hardware queue.
    pub(super) copies_max: usize,
    /// The number of samples of each figure, without the warm-up.
    pub(super) repeats: usize,
    /// The duration of the long kernel that runs while a call is measured, in milliseconds.
    pub(super) kernel_ms: f64,
    /// The duration of work alone whose time beside other work is measured, in milliseconds.
    pub(super) beside_ms: f64,
    /// The size of a copy beside other work, in bytes.
    pub(super) copy_bytes: u64,
    /// The size of each of the two arrays of the kernel that is bound by device memory, in bytes.
    /// On a GPU, it is far more than the cache holds.
    pub(super) array_bytes: u64,
    /// The number of calls in one sample of the cost of a call.
    pub(super) burst: u32,
    /// The sizes of the measured allocations in bytes.
    pub(super) allocations: &'static [u64],
    /// The number of kernels that are launched together to measure how many run at the same time.
    pub(super) grids: usize,
    /// Maximum number of launches after a running kernel, with which the depth of a queue is
    /// measured.
    pub(super) launches_max: usize,
}

impl Plan {
    pub(super) fn of(info: &DeviceInfo) -> Self {
        if info.compute.0 > 0 { Self::gpu() } else { Self::host() }
    }

    fn gpu() -> Self {
        Self {
            sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB],
            sample_bytes: 256 * MIB,
            copies_max: 256,
            repeats: 7,
            kernel_ms: 20.0,
            beside_ms: 4.0,
            copy_bytes: 16 * MIB,
            array_bytes: 256 * MIB,
            burst: 256,
            allocations: &[4 * KIB, MIB, 16 * MIB, 256 * MIB],
            grids: 200,
            launches_max: 4096,
        }
    }

    /// The copies of a host device are made by the processor, so larger sizes would show nothing
    /// new.
    fn host() -> Self {
        Self {
            sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB],
            sample_bytes: 16 * MIB,
            copies_max: 32,
            repeats: 5,
            kernel_ms: 4.0,
            beside_ms: 1.0,
            copy_bytes: 512 * KIB,
            array_bytes: 2 * MIB,
            burst: 64,
            allocations: &[4 * KIB, MIB, 16 * MIB],
            grids: 24,
            launches_max: 2048,
        }
    }

    /// The number of copies of `bytes` bytes in one sample.
    pub(super) fn copies(&self, bytes: u64) -> usize {
        let copies = usize::try_from(self.sample_bytes / bytes).unwrap_or(usize::MAX);
        copies.clamp(1, self.copies_max)
    }

    pub(super) fn largest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(MIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fit_the_buffers_and_the_queue() {
        for plan in [Plan::gpu(), Plan::host()] {
            for bytes in plan.sizes {
                let copies = plan.copies(*bytes);
                assert!(copies as u64 * bytes <= plan.largest(), "{copies} copies of {bytes}");
                assert!(copies <= 512);
            }
            assert!(plan.repeats >= 5);
        }
    }
}
