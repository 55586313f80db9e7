//! The kernels of the chains, declared for launches through the library.

use super::chain::DEPENDENT_PTX;
use super::lab::PTX;
use trijet::Kernel;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Ptr, Shape, Tile, Twin, Update};

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
            Err(format!("{words} words do not match a grid of {blocks:?} blocks"))
        }
    });
    let twin = Twin { tile_elements: |_| 1 << 16, run: tick, cost };
    KernelSpec::new(name, Code::ptx(ptx), shape).twin(twin)
}

/// A kernel in which each block adds one to the word with the number of the block.
pub type Tick = Kernel<(Ptr<Update<u32>>,)>;

/// The kernel that does not wait for the previous kernel.
pub static TICK: Tick =
    // SAFETY: the entry function takes one address, and block n adds one to word n. The check of
    // the shape guarantees that there are as many words as blocks.
    unsafe { Kernel::declare(spec("tick", PTX)) };

/// The kernel that waits for the previous kernel, and then lets the next kernel start.
pub static WAIT_THEN_TRIGGER: Tick =
    // SAFETY: the same as for `TICK`. The kernel accesses memory only after it has waited for its
    // predecessor.
    unsafe { Kernel::declare(spec("wait_then_trigger", DEPENDENT_PTX)) };

/// The kernel that lets the next kernel start, and then waits for the previous kernel.
pub static TRIGGER_THEN_WAIT: Tick =
    // SAFETY: the same as for `TICK`. The kernel accesses memory only after it has waited for its
    // predecessor.
    unsafe { Kernel::declare(spec("trigger_then_wait", DEPENDENT_PTX)) };

/// The source of one kernel that makes `count` steps, like a chain of `count` kernels. Between two
/// steps, all blocks wait for each other.
const STEPS_CODE: &str = r#"
extern "C" __global__ void steps(unsigned count, unsigned* words, unsigned long long blocks, unsigned* arrived,
                                 unsigned long long) {
    for (unsigned step = 1; step <= count; step++) {
        if (threadIdx.x == 0) words[blockIdx.x] += 1;
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned all = step * gridDim.x, now;
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(arrived) : "memory");
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
            while (now < all);
        }
        __syncthreads();
    }
}
"#;

/// A persistent kernel with the arguments `(count, words, arrived)`. `count` is the number of
/// steps, and `words` has one word for each block. `arrived` is a single word, which must be zero
/// at the launch.
pub static STEPS: Kernel<(u32, Update<u32>, Update<u32>)> = {
    let run: fn(&mut Tile<'_>) = |tile| {
        let count: u32 = tile.scalar(0);
        tile.write::<u32>(1).iter_mut().for_each(|word| *word = word.wrapping_add(count));
        tile.write::<u32>(3).iter_mut().for_each(|word| *word = word.wrapping_add(1));
    };
    let cost = |args: &ArgBlock| Cost { bytes: 2 * args.spans()[0].bytes(), ops: 0 };
    let twin = Twin { tile_elements: |_| 1 << 16, run, cost };
    let shape = Shape::Given(|args, config| {
        let [words, arrived] = args.spans() else { return Err("two spans are needed".to_owned()) };
        let fits = config.cooperative
            && [u64::from(config.grid[0]), 1, 1]
                == [words.elements, config.grid[1].into(), config.grid[2].into()]
            && arrived.elements == 1;
        let cause = "the kernel needs a cooperative launch with one word per block";
        if fits { Ok(()) } else { Err(cause.to_owned()) }
    });
    let spec = KernelSpec::new("steps", Code::source(STEPS_CODE), shape).twin(twin);
    // SAFETY: the entry function takes (unsigned, unsigned*, u64, unsigned*, u64). Block n adds to
    // word n, and there are as many words as blocks. All blocks add to the word `arrived`. The
    // shape demands a cooperative launch, so all blocks are resident, and each wait of a block
    // ends.
    unsafe { Kernel::declare(spec) }
};
