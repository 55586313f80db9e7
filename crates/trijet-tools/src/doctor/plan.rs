//! The sizes and repeats of the measurements: enough for steady numbers on a GPU, and fewer on a
//! host device.
#![forbid(unsafe_code)]

use trijet::DeviceInfo;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The sizes and repeats of all measurements.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The sizes of copies in bytes.
    pub(super) sizes: &'static [u64],
    /// Maximum number of bytes that all copies of a sample move together. A single copy may be
    /// larger.
    pub(super) sample_bytes: u64,
    /// Maximum number of copies in a sample, far below the depth of a queue.
    pub(super) copies_max: usize,
    /// The number of samples of each figure, after a warm-up.
    pub(super) repeats: usize,
    /// The time of the long kernel that runs while a call is measured, in milliseconds.
    pub(super) kernel_ms: f64,
    /// The number of calls of one sample.
    pub(super) burst: u32,
    /// The sizes of allocations in bytes.
    pub(super) allocations: &'static [u64],
    /// The number of kernels that are launched at once, each on its own stream.
    pub(super) grids: usize,
    /// Maximum number of launches that the measurement of the queue depth enqueues after a running
    /// kernel.
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
            burst: 256,
            allocations: &[4 * KIB, MIB, 16 * MIB, 256 * MIB],
            grids: 200,
            launches_max: 4096,
        }
    }

    /// The processor makes the copies of a host device, so larger sizes would show nothing new.
    fn host() -> Self {
        Self {
            sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB],
            sample_bytes: 16 * MIB,
            copies_max: 32,
            repeats: 5,
            kernel_ms: 8.0,
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
