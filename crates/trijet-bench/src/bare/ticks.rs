//! The kernel of the chains, declared for the library.

use super::lab::PTX;
use trijet::Kernel;
use trijet::kernels::{ArgBlock, Code, Cost, InOut, KernelSpec, Ptr, Shape, Tile, Twin};

fn tick(tile: &mut Tile<'_>) {
    tile.write::<u32>(0).iter_mut().for_each(|word| *word = word.wrapping_add(1));
}

fn cost(args: &ArgBlock) -> Cost {
    Cost { bytes: 2 * args.spans()[0].bytes(), ops: 0 }
}

/// Each block adds one to the word of its number.
pub(crate) static TICK: Kernel<(Ptr<InOut<u32>>,)> = {
    let shape = Shape::Given(|args, config| {
        let (blocks, words) = (config.grid, args.spans()[0].elements);
        if blocks[1..] == [1, 1] && u64::from(blocks[0]) == words {
            Ok(())
        } else {
            Err(format!("{words} words and a grid of {blocks:?} blocks"))
        }
    });
    let twin = Twin { tile_elements: |_| 1 << 16, run: tick, cost };
    let spec = KernelSpec::new("tick", Code::ptx(PTX), shape).twin(twin);
    // SAFETY: the entry takes one address, and block n adds one to word n, of which there are as many as
    // blocks by the check of the shape.
    unsafe { Kernel::declare(spec) }
};
