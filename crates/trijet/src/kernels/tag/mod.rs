//! Tags in the memory of allocations: `tag_u32` and `has_tag_u32`. They show whether another owner
//! writes to the memory.

use super::elementwise::refuse_unless_line;
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::{Code, Kernel, KernelSpec, Shape, Update, Write};

/// The device code, generated from `tag.cu`.
const PTX: &str = include_str!("tag.ptx");

/// The number of simple operations that the modelled GPU performs per nanosecond (see `CostModel`).
const OPS_PER_NS: u64 = 14_000;

fn differs(tile: &mut Tile<'_>) -> bool {
    let tag: u32 = tile.scalar(0);
    let block = tile.write::<u32>(4);
    [block.first(), block.last()].into_iter().flatten().any(|word| *word != tag)
}

fn write(tile: &mut Tile<'_>) {
    let tag = tile.scalar(0);
    let block = tile.write::<u32>(4);
    let last = block.len() - 1;
    (block[0], block[last]) = (tag, tag);
}

fn compare(tile: &mut Tile<'_>) {
    if differs(tile) {
        tile.write::<u32>(2)[0] += 1;
    }
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: 16, ops: u64::from(args.scalar::<u32>(1)) * OPS_PER_NS }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    match args.spans() {
        [errors, block] if errors.elements == 1 && block.elements > 0 => Ok(()),
        _ => Err("one word for errors and at least one word of a block are needed".to_owned()),
    }
}

const fn spec(name: &'static str, run: fn(&mut Tile<'_>)) -> KernelSpec {
    let shape = Shape::Given(|_, config| refuse_unless_line(config));
    let twin = Twin { tile_elements: |_| u64::MAX, run, cost };
    KernelSpec::new(name, Code::ptx(PTX), shape).check(check).twin(twin)
}

/// Writes the tag of an owner into the first and the last word of the owner's block, and runs for
/// at least `ns` nanoseconds. Its arguments are `(tag, ns, &mut errors, &mut block)`. If one of the
/// two words has another tag at the end, the kernel adds 1 to `errors`.
pub static TAG: Kernel<(u32, u32, Update<u32>, Write<u32>)> =
    // SAFETY: `tag_u32` takes (u32, u32, u32*, u64, u32*, u64). One of its threads uses the first
    // word of `errors` and the first and the last word of the block, which exist according to the
    // check.
    unsafe { Kernel::declare(spec("tag_u32", write)) };

/// Compares the first and the last word of a block with the tag of its owner, and runs for at least
/// `ns` nanoseconds. Its arguments are the same as for [`TAG`]. If one of the two words has another
/// tag at the start or at the end, the kernel adds 1 to `errors`.
pub static HAS_TAG: Kernel<(u32, u32, Update<u32>, Update<u32>)> =
    // SAFETY: `has_tag_u32` takes the same parameters and uses the same words as `tag_u32` above.
    // It writes `errors` only.
    unsafe { Kernel::declare(spec("has_tag_u32", compare)) };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Result;
    use crate::device::{Executor, HostConfig, LaunchConfig, Order};
    use crate::stream::Device;

    #[test]
    fn a_tag_that_another_owner_wrote_is_counted() -> Result<()> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let s = device.stream()?;
        let one = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
        let (mut errors, mut block) = (s.upload(&[0u32])?, s.upload(&[0u32; 10])?);
        s.launch_with(&TAG, one, (7, 100, &mut errors, &mut block))?;
        for tag in [7, 8] {
            s.launch_with(&HAS_TAG, one, (tag, 100, &mut errors, &mut block))?;
        }
        assert_eq!(s.download(&block)?, [7, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(s.download(&errors)?, [1]);
        s.fill_bytes(&mut block.slice_mut(9..), 1)?;
        s.launch_with(&HAS_TAG, one, (7, 0, &mut errors, &mut block))?;
        assert_eq!(s.download(&errors)?, [2], "the last word is of another owner");
        let error = s.launch_with(&TAG, one, (7, 0, &mut errors, &mut block.slice_mut(..0)));
        assert!(error.is_err(), "there is no word for a tag");
        Ok(())
    }
}
