//! Kernels of other programs: plain pointers, configurations that the caller chooses, and shapes
//! that depend on data.

use super::words;
use trijet::kernels::{
    Code, Cost, FILL_U32, KernelSpec, Ptr, Read, Shape, Tile, Twin, Update, Write,
};
use trijet::{Device, ErrorKind, Kernel, LaunchConfig, Result};

/// Maximum number of threads of a block of `block_sums`. It also determines the dynamic shared
/// memory.
const THREADS: u32 = 1024;

const CODE: &str = r#"
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void block_sums(const unsigned* x, unsigned long long n, unsigned* sums) {
    extern __shared__ unsigned part[];
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned t = 0; t < blockDim.x; t++) sum += part[t];
        sums[blockIdx.x] = sum;
    }
}
"#;

fn saxpy(tile: &mut Tile<'_>) {
    let (n, a) = (tile.scalar::<i32>(0), tile.scalar::<f32>(1));
    let (x, y) = (tile.read::<f32>(2), tile.write::<f32>(3));
    let n = usize::try_from(n).expect("checked").saturating_sub(tile.first);
    for (y, x) in y.iter_mut().zip(&x[tile.first..]).take(n) {
        *y += a * x;
    }
}

const NO_COST: fn(&trijet::kernels::ArgBlock) -> Cost = |_| Cost { bytes: 0, ops: 0 };

/// The parameters of a kernel of another program: plain pointers, and a count.
type Saxpy = (i32, f32, Ptr<Read<f32>>, Ptr<Update<f32>>);

static SAXPY: Kernel<Saxpy> = {
    let spec = KernelSpec::new("saxpy", Code::source(CODE), Shape::Given(|_, _| Ok(())))
        .check(|args| {
            let fits = |n: u64| args.spans().iter().all(|span| n <= span.elements);
            let n = args.scalar::<i32>(0);
            if u64::try_from(n).is_ok_and(fits) { Ok(()) } else { Err(format!("n is {n}")) }
        })
        .twin(Twin { tile_elements: |_| 64, run: saxpy, cost: NO_COST });
    // SAFETY: it takes (int, float, const float*, float*) and touches `n` elements of each, which
    // the check compares with their lengths. Its loop covers them with any number of threads.
    unsafe { Kernel::declare(spec) }
};

fn block_sums(tile: &mut Tile<'_>) {
    let block = tile.config.block[0] as usize;
    let (x, sums) = (tile.read::<u32>(0), tile.write::<u32>(2));
    for (sum, own) in sums.iter_mut().zip(x[tile.first * block..].chunks(block)) {
        *sum = own.iter().fold(0, |sum, x| sum.wrapping_add(*x));
    }
}

/// Sums the elements of each block. The result has one element for each block.
static BLOCK_SUMS: Kernel<(Read<u32>, Ptr<Write<u32>>)> = {
    let shape = Shape::Given(|args, config| {
        let [x, sums] = args.spans() else { return Err("two spans are needed".to_owned()) };
        let threads = u64::from(config.block[0]);
        let one_each =
            config.grid == [config.grid[0], 1, 1] && config.block == [config.block[0], 1, 1];
        let covers = x.elements.div_ceil(threads) == u64::from(config.grid[0]);
        let shared = u64::from(config.shared_bytes) == 4 * threads;
        if one_each && covers && sums.elements == u64::from(config.grid[0]) && shared {
            Ok(())
        } else {
            Err(format!("{} elements into {} sums", x.elements, sums.elements))
        }
    });
    let spec = KernelSpec::new("block_sums", Code::source(CODE), shape)
        .shared_bytes_max(4 * THREADS)
        .twin(Twin { tile_elements: |_| 2, run: block_sums, cost: NO_COST });
    // SAFETY: it takes (const unsigned*, u64, unsigned*), reads `x[..n]`, and writes one sum for
    // each block, and there are as many sums as blocks.
    unsafe { Kernel::declare(spec) }
};

fn floats(seed: u64, len: usize) -> Vec<f32> {
    // Small integers as floats, so that their sums and products are exact.
    words(seed, len).iter().map(|word| (word % 64) as f32).collect()
}

pub(crate) fn a_kernel_takes_plain_pointers_and_any_configuration(device: &Device) -> Result<()> {
    let (s, other) = (device.stream()?, device.stream()?);
    let (x, y) = (floats(1, 1000), floats(2, 1000));
    let dx = s.upload(&x)?;
    for (grid, block) in [(1, 1), (1, 33), (4, 256), (20, 64), (1, 1024)] {
        let mut dy = other.upload(&y)?;
        let config = LaunchConfig::new([grid, 1, 1], [block, 1, 1]);
        // The launch is on a third stream. The library inserts the waits as for any kernel.
        device.stream()?.launch_with(&SAXPY, config, (900, 3.0_f32, &dx, &mut dy))?;
        let found = other.download(&dy)?;
        for at in 0..1000 {
            let wanted = if at < 900 { 3.0 * x[at] + y[at] } else { y[at] };
            assert_eq!(found[at], wanted, "element {at} with a grid of {grid} blocks of {block}");
        }
    }
    let mut y = other.upload(&y)?;
    let config = LaunchConfig::new([1; 3], [32, 1, 1]);
    let refused = s.launch_with(&SAXPY, config, (1001, 1.0_f32, &dx, &mut y)).expect_err("refused");
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::InvalidValue, None));
    assert!(refused.to_string().contains("`saxpy`: n is 1001"), "{refused}");
    device.synchronize()
}

pub(crate) fn a_shape_may_depend_on_data(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let x: Vec<u32> = words(3, 5000).iter().map(|word| (word % 1000) as u32).collect();
    let dx = s.upload(&x)?;
    // The first launch computes the size of the second one.
    let mut rows = s.alloc::<u32>(1)?;
    s.launch(&FILL_U32, (777, &mut rows))?;
    let rows = s.download(&rows)?[0] as usize;
    for block in [1, 7, 128, THREADS] {
        let config = LaunchConfig::over(rows, block)?.shared_bytes(4 * block);
        let mut sums = s.alloc::<u32>(config.grid[0] as usize)?;
        s.launch_with(&BLOCK_SUMS, config, (dx.slice(..rows), &mut sums))?;
        let wanted: Vec<u32> =
            x[..rows].chunks(block as usize).map(|own| own.iter().sum()).collect();
        assert_eq!(s.download(&sums)?, wanted, "blocks of {block}");
    }
    // Without rows there are no blocks, and nothing to do.
    let none = LaunchConfig::over(0, 32)?.shared_bytes(128);
    s.launch_with(&BLOCK_SUMS, none, (dx.slice(..0), &mut s.alloc::<u32>(0)?))?;
    device.synchronize()
}

pub(crate) fn a_configuration_is_checked_before_the_driver_is_called(
    device: &Device,
) -> Result<()> {
    let s = device.stream()?;
    let (x, mut sums) = (s.alloc_zeroed::<u32>(64)?, s.alloc_zeroed::<u32>(2)?);
    let right = LaunchConfig::new([2, 1, 1], [32, 1, 1]).shared_bytes(128);
    let before = device.ordering();
    let mut refused = |config: LaunchConfig, why: &str| {
        let error = s.launch_with(&BLOCK_SUMS, config, (&x, &mut sums)).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(
            error.to_string().contains(why) && error.to_string().contains("block_sums"),
            "{error}"
        );
    };
    let with = |grid: [u32; 3], block: [u32; 3]| LaunchConfig::new(grid, block).shared_bytes(128);
    refused(with([2, 1, 1], [32, 0, 1]), "block.y is 0");
    refused(with([2, 1, 1], [1025, 1, 1]), "block.x is 1025");
    refused(with([2, 1, 1], [64, 32, 1]), "2048 threads");
    refused(with([2, 70_000, 1], [32, 1, 1]), "grid.y is 70000");
    refused(with([3, 1, 1], [32, 1, 1]), "64 elements into 2 sums");
    refused(right.shared_bytes(4 * THREADS + 4), "4100 bytes of dynamic shared memory");
    let error = s.launch(&BLOCK_SUMS, (&x, &mut sums)).expect_err("refused");
    assert!(error.to_string().contains("call `launch_with`"), "{error}");
    let error = s.launch_with(&FILL_U32, right, (7, &mut sums)).expect_err("refused");
    assert!(error.to_string().contains("call `launch`"), "{error}");
    assert_eq!(device.ordering(), before, "no wait was enqueued");
    s.launch_with(&BLOCK_SUMS, right, (&x, &mut sums))?;
    assert_eq!(s.download(&sums)?, [0, 0]);
    Ok(())
}
