//! A producer and a consumer for dependent launches ([`LaunchConfig::dependent`]). Each kernel
//! begins while the previous kernel still runs. The threads of the kernel then wait for the results
//! of the previous kernel. A chain of dependent launches has one producer and any number of
//! consumers.
//!
//! Needs compute capability 9.0 on a GPU: see [`PtxRule::Target`](super::PtxRule::Target).

pub(crate) mod host;

use super::elementwise::{refuse_unless_line, twin};
use crate::device::LaunchConfig;
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Kernel, KernelSpec, Read, Shape, Write, any_lengths, equal_lengths};
use bytemuck::NoUninit;

/// The device code, generated from `dependent.cu`.
pub(crate) const PTX: &str = include_str!("dependent.ptx");

/// The parameters of [`CONSUME`]: `(salt, rounds, trigger, x, y)`.
pub type Consumer = (u32, u32, Trigger, Read<u32>, Write<u32>);

/// Number of instructions of one round of the hash. The round is the same as in `work.cu`.
const OPS_PER_ROUND: u64 = 7;

/// The time at which a kernel lets the next kernel of its stream begin, if the next kernel is a
/// dependent launch. The results do not depend on this time, because the next kernel waits for the
/// data that it needs (law [A35](crate::laws#a35)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, NoUninit)]
#[repr(u32)]
pub enum Trigger {
    /// After the results are written. Only the end of this kernel overlaps the next kernel.
    Late = 0,
    /// At the start of this kernel. All work of the next kernel before its wait overlaps this
    /// kernel.
    Early = 1,
}

fn check_shape(_: &ArgBlock, config: &LaunchConfig) -> Result<(), String> {
    refuse_unless_line(config)
}

fn produced(tile: &mut Tile<'_>) {
    let y = tile.write::<u32>(3);
    host::produce(tile.scalar(0), tile.scalar(1), tile.first, y);
}

fn consumed(tile: &mut Tile<'_>) {
    let y = tile.write::<u32>(5);
    host::consume(tile.scalar(0), tile.scalar(1), tile.first, tile.read(3), y);
}

fn cost_of_producer(args: &ArgBlock) -> Cost {
    let y = &args.spans()[0];
    let rounds = u64::from(args.scalar::<u32>(1));
    Cost { bytes: y.bytes(), ops: y.elements * rounds * OPS_PER_ROUND }
}

/// `y[i]` is the hash of `seed + i` after `rounds` rounds of [`WORK`](crate::testing::WORK). Its
/// arguments are `(seed, rounds, trigger, &mut y)`. Any one-dimensional grid of blocks is valid.
pub static PRODUCE: Kernel<(u32, u32, Trigger, Write<u32>)> = {
    let shape = Shape::Given(check_shape);
    let spec = KernelSpec::new("dependent_produce_u32", Code::ptx(PTX), shape).check(any_lengths);
    let twin = Twin { cost: cost_of_producer, ..twin(produced) };
    // SAFETY: the kernel takes (u32, u32, u32, u32*, u64) and stays within the length. Every thread
    // waits before its first access.
    unsafe { Kernel::declare(spec.twin(twin)) }
};

/// `y[i]` is one round of the hash over `x[len - 1 - i] ^ key`. The key is the hash of `salt` after
/// `rounds` rounds. The kernel computes the key before its wait. Its arguments are `(salt, rounds,
/// trigger, &x, &mut y)`; `x` and `y` have equal lengths. Any one-dimensional grid of blocks is
/// valid.
///
/// ```
/// use trijet::testing::dependent::{CONSUME, PRODUCE, Trigger};
/// use trijet::{Device, LaunchConfig, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let (mut x, mut y) = (s.alloc::<u32>(1000)?, s.alloc::<u32>(1000)?);
/// let config = LaunchConfig::new([4, 1, 1], [256, 1, 1]);
/// s.launch_with(&PRODUCE, config, (1, 100, Trigger::Early, &mut x))?;
/// s.launch_with(&CONSUME, config.dependent(), (2, 100, Trigger::Early, &x, &mut y))?;
/// let dependent = s.download(&y)?;
/// s.launch_with(&CONSUME, config, (2, 100, Trigger::Late, &x, &mut y))?;
/// assert_eq!(s.download(&y)?, dependent, "only the time differs");
/// # Ok::<(), trijet::Error>(())
/// ```
pub static CONSUME: Kernel<Consumer> = {
    let shape = Shape::Given(check_shape);
    let spec = KernelSpec::new("dependent_consume_u32", Code::ptx(PTX), shape).check(equal_lengths);
    // SAFETY: the kernel takes (u32, u32, u32, const u32*, u64, u32*, u64) and stays within both
    // lengths. The code before the wait of each thread accesses no memory.
    unsafe { Kernel::declare(spec.twin(twin(consumed))) }
};

#[cfg(test)]
mod tests {
    use super::PTX;

    /// The declarations promise laws A34 and A35. This test checks them in the PTX, without a GPU.
    #[test]
    fn memory_is_used_after_the_wait_and_both_triggers_are_there() {
        let entries: Vec<&str> = PTX.split(".visible .entry").skip(1).collect();
        assert_eq!(entries.len(), 2);
        for entry in entries {
            let (before, after) = entry.split_once("griddepcontrol.wait;").expect("it waits");
            for access in ["ld.global", "st.global", "atom.", "red."] {
                assert!(!before.contains(access), "`{access}` before the wait: {entry}");
            }
            assert!(after.contains("st.global"), "{entry}");
            for part in [before, after] {
                assert_eq!(part.matches("griddepcontrol.launch_dependents;").count(), 1, "{entry}");
            }
            assert_eq!(entry.matches("ret;").count(), 1, "no end before the wait: {entry}");
        }
    }
}
