//! A kernel whose blocks record the multiprocessor and the time of their run.

use trijet::Kernel;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Ptr, Shape, Tile, Twin, Write};

/// The number of words that a block records: its multiprocessor, its start and its end.
pub const WORDS: usize = 3;
/// The number of simple operations that the modelled GPU performs per nanosecond (see `CostModel`).
const OPS_PER_NS: u64 = 14_000;

/// A kernel with the arguments `(ns, words)`. Each block runs for at least `ns` nanoseconds, and
/// writes [`WORDS`] words.
pub type Stay = Kernel<(u32, Ptr<Write<u64>>)>;

/// A host device has neither multiprocessors nor a clock. There, each block is on multiprocessor 0,
/// and lasts from 0 to `ns`.
fn stay_on_host(tile: &mut Tile<'_>) {
    let ns = u64::from(tile.scalar::<u32>(0));
    for words in tile.write::<u64>(1).chunks_mut(WORDS) {
        words.copy_from_slice(&[0, 0, ns]);
    }
}

fn cost(args: &ArgBlock) -> Cost {
    let ops = u64::from(args.scalar::<u32>(0)) * OPS_PER_NS;
    Cost { bytes: args.spans()[0].bytes(), ops }
}

/// The kernel. A block may use up to `shared_bytes_max` bytes of dynamic shared memory, which it
/// does not access.
#[must_use]
pub fn stay(shared_bytes_max: u32) -> Stay {
    let shape = Shape::Given(|args, config| {
        let (blocks, words) = (config.grid, args.spans()[0].elements);
        if blocks[1..] == [1, 1] && u64::from(blocks[0]) * WORDS as u64 == words {
            Ok(())
        } else {
            Err(format!("{words} words do not match a grid of {blocks:?} blocks"))
        }
    });
    let twin = Twin { tile_elements: |_| u64::MAX, run: stay_on_host, cost };
    let spec = KernelSpec::new("stay", Code::ptx(include_str!("stay.ptx")), shape).twin(twin);
    // SAFETY: the entry function takes (u32, u64*), and block n writes the words from `WORDS * n`
    // to `WORDS * n + 2`. The check of the shape guarantees `WORDS` words for each block.
    unsafe { Kernel::declare(spec.shared_bytes_max(shared_bytes_max)) }
}
