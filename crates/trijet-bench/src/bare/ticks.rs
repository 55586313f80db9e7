//! The kernels of the chains, declared for the library.

use super::chain::DEPENDENT_PTX;
use super::lab::PTX;
use trijet::Kernel;
use trijet::kernels::{ArgBlock, Code, Cost, InOut, KernelSpec, Ptr, Shape, Tile, Twin};

fn tick(tile: &mut Tile<'_>) {
    tile.write::<u32>(0).iter_mut().for_each(|word| *word = word.wrapping_add(1));
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: 2 * args.spans()[0].bytes(), ops: 0 }
}

const fn spec(name: &'static str, ptx: &'static str) -> KernelSpec {
    let shape = Shape::Given(|args, config| {
        let (blocks, words) = (config.grid, args.spans()[0].elements);
        if blocks[1..] == [1, 1] && u64::from(blocks[0]) == words {
            Ok(())
        } else {
            Err(format!("{words} words and a grid of {blocks:?} blocks"))
        }
    });
    let twin = Twin { tile_elements: |_| 1 << 16, run: tick, cost };
    KernelSpec::new(name, Code::ptx(ptx), shape).twin(twin)
}

/// A kernel of which each block adds one to the word of its number.
pub(crate) type Tick = Kernel<(Ptr<InOut<u32>>,)>;

pub(crate) static TICK: Tick =
    // SAFETY: the entry takes one address, and block n adds one to word n, of which there are as many as
    // blocks by the check of the shape.
    unsafe { Kernel::declare(spec("tick", PTX)) };

/// Waits for the kernel before, then lets the next one begin.
pub(crate) static WAIT_THEN_TRIGGER: Tick =
    // SAFETY: as `TICK`; it touches memory behind its wait only.
    unsafe { Kernel::declare(spec("wait_then_trigger", DEPENDENT_PTX)) };

/// Lets the next kernel begin, then waits for the one before.
pub(crate) static TRIGGER_THEN_WAIT: Tick =
    // SAFETY: as `TICK`; it touches memory behind its wait only.
    unsafe { Kernel::declare(spec("trigger_then_wait", DEPENDENT_PTX)) };
