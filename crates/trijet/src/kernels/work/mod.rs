//! `y[i]` is `x[i]` after `rounds` rounds of an integer hash: `work_u32`. The number of rounds
//! determines the cost.

use super::elementwise::{declaration, tile_input, twin};
use crate::device::args::ArgBlock;
use crate::device::twin::{Cost, Tile, Twin};
use crate::launch::equal_lengths;
use crate::launch::{Kernel, Read, Write};

/// The device code, generated from `work.cu`.
pub(crate) const PTX: &str = include_str!("work.ptx");

/// Number of instructions of one round, from the loop in `work.cu`: three shifts, three xors, one
/// multiply-add.
const OPS_PER_ROUND: u64 = 7;

fn tile(tile: &mut Tile<'_>) {
    let y = tile.write::<u32>(3);
    trijet_twins::work(tile.scalar(0), tile_input(tile, 1, y.len()), y);
}

fn cost(args: &ArgBlock) -> Cost {
    let moved = (TWIN.cost)(args);
    let elements = moved.bytes / 8;
    Cost { ops: elements * OPS_PER_ROUND * u64::from(args.scalar::<u32>(0)), ..moved }
}

const TWIN: Twin = twin(tile);

/// `y[i]` is `x[i]` after `rounds` rounds of an integer hash; 0 rounds make a copy. Its arguments
/// are `(rounds, &x, &mut y)`; `x` and `y` have equal lengths.
pub static WORK: Kernel<(u32, Read<u32>, Write<u32>)> =
    // SAFETY: `work_u32` takes (u32, const u32*, u64, u32*, u64) and stays within both lengths.
    unsafe {
        Kernel::declare(declaration("work_u32", PTX, equal_lengths, Twin { cost, ..TWIN }))
    };
