//! A kernel whose blocks record the multiprocessor and the time of their run.

use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Ptr, Shape, Tile, Twin, Write};
use trijet::{Kernel, LaunchConfig};

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

/// Checks that there are [`WORDS`] words for each block of a grid in x.
fn check(args: &ArgBlock, config: &LaunchConfig) -> Result<(), String> {
    let (blocks, words) = (config.grid, args.spans()[0].elements);
    if blocks[1..] == [1, 1] && u64::from(blocks[0]) * WORDS as u64 == words {
        return Ok(());
    }
    Err(format!("{words} words do not match a grid of {blocks:?} blocks"))
}

fn spec(name: &'static str, ptx: &'static str) -> KernelSpec {
    let twin = Twin { tile_elements: |_| u64::MAX, run: stay_on_host, cost };
    KernelSpec::new(name, Code::ptx(ptx), Shape::Given(check)).twin(twin)
}

/// The kernel. A block may use up to `shared_bytes_max` bytes of dynamic shared memory, which it
/// does not access.
#[must_use]
pub fn stay(shared_bytes_max: u32) -> Stay {
    let spec = spec("stay", include_str!("stay.ptx")).shared_bytes_max(shared_bytes_max);
    // SAFETY: the entry function takes (u32, u64*), and block n writes the words from `WORDS * n`
    // to `WORDS * n + 2`. The check of the shape guarantees `WORDS` words for each block.
    unsafe { Kernel::declare(spec) }
}

/// The number of threads of each block of [`stay_wide`].
pub const WIDE_THREADS: u32 = 512;

/// The same kernel with so many registers that two blocks of [`WIDE_THREADS`] threads do not fit on
/// a multiprocessor with 65536 registers.
#[must_use]
pub fn stay_wide() -> Stay {
    // SAFETY: the entry function takes the same parameters as `stay` above, and writes the same
    // words. It also reads the first of these words, and the result does not depend on the value.
    unsafe { Kernel::declare(spec("stay_wide", include_str!("stay_wide.ptx"))) }
}
