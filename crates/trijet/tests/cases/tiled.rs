//! Kernels that copy boxes of matrices: a product by clusters, and a kernel of another program.
//!
//! On a GPU the drawn cases make hundreds of launches. `TRIJET_TURNS=3` makes 3 turns of each, over
//! small matrices, for tools that slow launches down.

use super::words;
use trijet::graph::{Graph, Recording};
use trijet::kernels::{
    Code, Cost, KernelSpec, Read, Shape, Swizzle, Tile, Tiled, Tiling, Twin, Write,
};
use trijet::testing::Prng;
use trijet::testing::multicast::{MATMUL, config, left, right};
use trijet::{Buffer, Device, ErrorKind, Kernel, LaunchConfig, Result, Stream, Uses, View};

/// The length of a case.
struct Scale {
    turns: u64,
    side_max: u64,
}

/// The scale of a case. `None` for a GPU that has no tilings and reports that.
fn scale(device: &Device, on_gpu: u64) -> Option<Scale> {
    let compute = device.info().compute;
    let is_host = compute == (0, 0);
    if !is_host && compute < (9, 0) {
        let refused = device.load(&MATMUL).expect_err("it needs compute capability 9.0");
        assert_eq!(refused.kind(), ErrorKind::Compile, "{refused}");
        assert!(refused.to_string().contains("PTX/TARGET: `.target sm_90`"), "{refused}");
        return None;
    }
    let turns = std::env::var("TRIJET_TURNS");
    let asked = turns.ok().map(|turns| turns.parse().expect("TRIJET_TURNS is a number"));
    let side_max = if is_host || asked.is_some() { 70 } else { 400 };
    Some(Scale { turns: asked.unwrap_or(if is_host { 6 } else { on_gpu }), side_max })
}

/// A number from 1 to `most`. Small numbers are as likely as large ones.
fn side(draw: &mut Prng, most: u64) -> u32 {
    let bits = draw.below(u64::from(most.ilog2()) + 1);
    u32::try_from(draw.below(2 << bits).clamp(1, most)).expect("a small test")
}

/// A matrix of small integers in a larger buffer. The first row starts at element `first`. The
/// starts of two rows are `pitch` elements apart.
struct Matrix {
    sides: [usize; 2],
    pitch: usize,
    first: usize,
    all: Vec<i32>,
}

impl Matrix {
    fn draw(draw: &mut Prng, seed: u64, sides: [u32; 2]) -> Self {
        let sides = sides.map(|side| side as usize);
        let spare = |draw: &mut Prng| 4 * usize::try_from(draw.below(4)).expect("at most 3");
        let (pitch, first) = (sides[1].next_multiple_of(4) + spare(draw), spare(draw));
        let all = words(seed, first + sides[0] * pitch);
        let all = all.iter().map(|word| i32::from((word >> 59) as u8) - 16).collect();
        Self { sides, pitch, first, all }
    }

    fn at(&self, row: usize, column: usize) -> i32 {
        self.all[self.first + row * self.pitch + column]
    }

    /// The elements of the buffer. Elements outside of the matrix are NaN, so the result shows if a
    /// box contains one of them.
    fn floats(&self) -> Vec<f32> {
        let is_inside =
            |at: usize| at >= self.first && (at - self.first) % self.pitch < self.sides[1];
        let float =
            |(at, value): (usize, &i32)| if is_inside(at) { *value as f32 } else { f32::NAN };
        self.all.iter().enumerate().map(float).collect()
    }
}

/// The product, summed from the last summand to the first one, unlike in the kernel. All sums are
/// exact.
fn product(x: &Matrix, w: &Matrix) -> Vec<f32> {
    let ([rows, inner], [_, columns]) = (x.sides, w.sides);
    let element = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        (0..inner).rev().map(|k| x.at(row, k) * w.at(k, column)).sum::<i32>() as f32
    };
    (0..rows * columns).map(element).collect()
}

pub(crate) fn the_blocks_of_a_cluster_share_the_tiles_of_a_matrix(device: &Device) -> Result<()> {
    let Some(scale) = scale(device, 300) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?];
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let [rows, inner, columns] = [(); 3].map(|()| side(&mut draw, scale.side_max));
        let x = Matrix::draw(&mut draw, seed, [rows, inner]);
        let w = Matrix::draw(&mut draw, seed + 1000, [inner, columns]);
        let (dx, dw) = (streams[0].upload(&x.floats())?, streams[1].upload(&w.floats())?);
        let len = (rows * columns) as usize;
        let mut wanted = vec![-7.5; len + 6];
        wanted[3..len + 3].copy_from_slice(&product(&x, &w));
        let mut launched = Vec::new();
        for (turn, cluster) in [1, 2, 4, 8].into_iter().enumerate() {
            let s = &streams[turn % 2];
            let mut config = config(rows, columns, cluster);
            if draw.below(2) == 0 {
                // Clusters compute several parts, and the last clusters may have none.
                config.grid[0] = cluster * side(&mut draw, 9);
            }
            let mut y = s.upload(&vec![-7.5_f32; wanted.len()])?;
            let x = left(dx.slice(x.first..), x.sides, x.pitch)?;
            let w = right(dw.slice(w.first..), w.sides, w.pitch)?;
            let args = (x, w, y.slice_mut(3..len + 3), [rows, inner, columns]);
            s.launch_with(&MATMUL, config, args)?;
            launched.push((config, y));
        }
        for (config, y) in launched {
            let found = streams[1].download(&y)?;
            let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
            let shown = differs.map(|at| (at, found[at], wanted[at]));
            let (blocks, cluster) = (config.grid[0], config.cluster[0]);
            assert!(
                shown.is_none(),
                "seed {seed}: {rows} rows of {inner} by {columns} columns in {blocks} blocks, clusters of \
                 {cluster}: (element, found, wanted) is {shown:?}"
            );
        }
    }
    Ok(())
}

/// Each block copies a box to shared memory, transposes the box, and copies it back. The threads of
/// a warp read a column, with one row per thread. A box of x is swizzled, so the elements of this
/// column are in different banks.
const CODE: &str = r#"
struct __align__(64) TensorMap { unsigned long long words[16]; };

extern "C" __global__ void transpose(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y) {
    __shared__ __align__(1024) unsigned from[32][32];
    __shared__ __align__(128) unsigned to[32][32];
    __shared__ unsigned long long arrived;
    unsigned column = blockIdx.x * 32, row = blockIdx.y * 32, lane = threadIdx.x;
    unsigned barrier = (unsigned)__cvta_generic_to_shared(&arrived);
    if (lane == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 4096;" :: "r"(barrier) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];"
                     :: "r"((unsigned)__cvta_generic_to_shared(from)), "l"(&x), "r"(column), "r"(row), "r"(barrier)
                     : "memory");
    }
    __syncwarp();
    asm volatile("{\n .reg .pred ended;\nagain:\n mbarrier.try_wait.parity.shared.b64 ended, [%0], 0;\n"
                 " @ended bra done;\n bra again;\ndone:\n}" :: "r"(barrier) : "memory");
    for (unsigned c = 0; c < 32; c++) to[c][lane] = from[lane][(c / 4 ^ lane % 8) * 4 + c % 4];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&y), "r"(row), "r"(column), "r"((unsigned)__cvta_generic_to_shared(to)) : "memory");
        asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"#;

fn transpose(tile: &mut Tile<'_>) {
    let (x, tiling) = (tile.matrix::<u32>(0), tile.tiling(1));
    for (at, y) in (tile.first..).zip(tile.write::<u32>(1)) {
        let (row, column) = (at / tiling.pitch, at % tiling.pitch);
        if row < tiling.rows && column < tiling.columns {
            *y = x.at(column, row);
        }
    }
}

/// The parameters of the kernel: a matrix and its transpose.
type Pair = (Tiled<Read<u32>>, Tiled<Write<u32>>);

static TRANSPOSE: Kernel<Pair> = {
    let shape = Shape::Given(|args, config| {
        let [x, y] = args.tiled() else { return Err("two matrices are needed".to_owned()) };
        let boxes = |tiling: Tiling| (tiling.box_rows, tiling.box_columns, tiling.swizzle);
        let fit = boxes(x.tiling) == (32, 32, Swizzle::Bytes128)
            && boxes(y.tiling) == (32, 32, Swizzle::None)
            && (x.tiling.rows, x.tiling.columns) == (y.tiling.columns, y.tiling.rows)
            && [config.block, config.cluster] == [[32, 1, 1], [1, 1, 1]];
        if fit { Ok(()) } else { Err("matrices, boxes or blocks that do not fit".to_owned()) }
    });
    let cost = |_: &trijet::kernels::ArgBlock| Cost { bytes: 0, ops: 0 };
    let twin = Twin { tile_elements: |_| 100, run: transpose, cost };
    let spec = KernelSpec::new("transpose", Code::source(CODE), shape).twin(twin);
    // SAFETY: it takes two tensor maps, and copies boxes of 32 rows and columns. The shape demands
    // exactly this size, the size of their places in shared memory. The copy engine touches nothing
    // outside of the matrices.
    unsafe { Kernel::declare(spec) }
};

pub(crate) fn boxes_are_read_and_written_within_their_matrix(device: &Device) -> Result<()> {
    let Some(scale) = scale(device, 100) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?];
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let [rows, columns] = [(); 2].map(|()| side(&mut draw, scale.side_max));
        let x = Matrix::draw(&mut draw, seed, [rows, columns]);
        let y = Matrix::draw(&mut draw, seed + 1000, [columns, rows]);
        let bits = |matrix: &Matrix| -> Vec<u32> {
            matrix.all.iter().map(|value| value.cast_unsigned()).collect()
        };
        let mut wanted = bits(&y);
        for (row, column) in (0..x.sides[0]).flat_map(|r| (0..x.sides[1]).map(move |c| (r, c))) {
            wanted[y.first + column * y.pitch + row] = x.at(row, column).cast_unsigned();
        }
        let (dx, mut dy) = (streams[0].upload(&bits(&x))?, streams[1].upload(&bits(&y))?);
        let tiling = |matrix: &Matrix| Tiling::new(matrix.sides, [32, 32]).pitch(matrix.pitch);
        let from = dx.slice(x.first..).tiled(tiling(&x).swizzle(Swizzle::Bytes128))?;
        let to = dy.slice_mut(y.first..).tiled(tiling(&y))?;
        let grid = [columns.div_ceil(32), rows.div_ceil(32), 1];
        streams[0].launch_with(&TRANSPOSE, LaunchConfig::new(grid, [32, 1, 1]), (from, to))?;
        let found = streams[1].download(&dy)?;
        // The copy engine writes whole units of 16 bytes, so these elements may have any value.
        let is_in_last_unit = |at: usize| {
            let (row, column) =
                (at.wrapping_sub(y.first) / y.pitch, (at.wrapping_sub(y.first)) % y.pitch);
            row < y.sides[0] && (y.sides[1]..y.sides[1].next_multiple_of(4)).contains(&column)
        };
        let differs =
            (0..found.len()).find(|at| found[*at] != wanted[*at] && !is_in_last_unit(*at));
        let shown = differs.map(|at| (at, found[at], wanted[at]));
        assert!(
            shown.is_none(),
            "seed {seed}: {rows} rows of {columns}, from {} and {} with {} and {} between rows: (element, \
             found, wanted) is {shown:?}",
            x.first,
            y.first,
            x.pitch,
            y.pitch
        );
    }
    Ok(())
}

/// A pipeline in place passes page-locked memory to its kernels.
pub(crate) fn boxes_of_page_locked_memory_are_read_and_written(device: &Device) -> Result<()> {
    const SIDES: [usize; 2] = [100, 68];
    if scale(device, 1).is_none() {
        return Ok(());
    }
    let s = device.stream()?;
    let (mut x, mut y) = (device.pinned::<u32>(100 * 68)?, device.pinned::<u32>(68 * 100)?);
    let values: Vec<u32> = words(1, 100 * 68).into_iter().map(|word| (word >> 32) as u32).collect();
    x.write()?.copy_from_slice(&values);
    y.write()?.fill(7);
    let from = x.view().tiled(Tiling::new(SIDES, [32, 32]).swizzle(Swizzle::Bytes128))?;
    let to = y.view_mut().tiled(Tiling::new([SIDES[1], SIDES[0]], [32, 32]))?;
    s.launch_with(&TRANSPOSE, LaunchConfig::new([3, 4, 1], [32, 1, 1]), (from, to))?;
    let found = y.read()?;
    let wanted = |at: usize| values[at % 100 * 68 + at / 100];
    assert_eq!((0..found.len()).find(|at| found[*at] != wanted(*at)), None);
    Ok(())
}

const ROWS: u32 = 20;
const INNER: u32 = 40;
const COLUMNS: u32 = 36;

/// Two matrices whose rows follow each other without gaps.
fn dense(seed: u64) -> (Matrix, Matrix) {
    let matrix = |seed: u64, rows: u32, columns: u32| {
        let all = words(seed, (rows * columns) as usize);
        let all = all.iter().map(|word| i32::from((word >> 59) as u8) - 16).collect();
        Matrix { sides: [rows as usize, columns as usize], pitch: columns as usize, first: 0, all }
    };
    (matrix(seed, ROWS, INNER), matrix(seed + 1000, INNER, COLUMNS))
}

/// Both factors and room for the product.
type Buffers = [Buffer<f32>; 3];

fn upload(s: &Stream, seed: u64) -> Result<Buffers> {
    let (x, w) = dense(seed);
    let y = s.alloc_zeroed((ROWS * COLUMNS) as usize)?;
    Ok([s.upload(&x.floats())?, s.upload(&w.floats())?, y])
}

/// Records the product of the first `inner` columns of x and rows of w.
fn record(g: &Recording, inner: u32, [x, w, y]: &mut Buffers) -> Result<()> {
    g.argument(x)?;
    g.argument(w)?;
    g.argument(y)?;
    let x = left(x.view(), [ROWS as usize, inner as usize], INNER as usize)?;
    let w = right(w.view(), [inner as usize, COLUMNS as usize], COLUMNS as usize)?;
    let args = (x, w, y, [ROWS, inner, COLUMNS]);
    g.stream()?.launch_with(&MATMUL, config(ROWS, COLUMNS, 2), args)
}

/// The encoded form of a tiling contains the address of the memory, so a launch with other memory
/// must encode the tiling again.
pub(crate) fn a_graph_copies_boxes_of_the_memory_of_each_launch(device: &Device) -> Result<()> {
    if scale(device, 1).is_none() {
        return Ok(());
    }
    let s = device.stream()?;
    let launch = |seed: u64, graph: &mut Graph| -> Result<Vec<f32>> {
        let [x, w, mut y] = upload(&s, seed)?;
        let arguments = Uses::new().read(x.view()).read(w.view()).write(y.view_mut());
        s.launch_graph(graph, arguments)?;
        s.download(&y)
    };
    let mut buffers = upload(&s, 1)?;
    let mut graph = device.record(|g| record(g, INNER, &mut buffers))?;
    for seed in [1, 2, 3] {
        let (x, w) = dense(seed);
        assert_eq!(launch(seed, &mut graph)?, product(&x, &w), "launch {seed}");
    }
    // The recording uses other tilings of the same memory, in the same kernel with the same
    // configuration.
    device.record_again(&mut graph, |g| record(g, 33, &mut buffers))?;
    let (mut x, mut w) = dense(4);
    (x.sides[1], w.sides[0]) = (33, 33);
    assert_eq!(launch(4, &mut graph)?, product(&x, &w), "with fewer products");
    Ok(())
}

pub(crate) fn tilings_and_matrices_that_do_not_fit_are_refused(device: &Device) -> Result<()> {
    let s = device.stream()?;
    let refused = |view: View<'_, f32>, tiling: Tiling, why: &str| {
        let error = view.tiled(tiling).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(why), "{error}, not {why}");
    };
    let (mut x, host) = (s.alloc_zeroed::<f32>(400)?, device.pinned::<f32>(400)?);
    // 399 elements end within a unit of 16 bytes, which a write of the last box would fill.
    let ragged = Tiling::new([10, 39], [8, 32]).pitch(40);
    let error = x.slice_mut(..399).tiled(ragged).expect_err("its last unit ends beyond the view");
    assert!(error.to_string().contains("up to element 400, but the view has only 399"), "{error}");
    x.slice(..399).tiled(ragged)?;
    x.view_mut().tiled(ragged)?;
    let tiling = Tiling::new([10, 40], [8, 32]);
    host.view().tiled(tiling)?;
    refused(x.slice(1..), tiling.pitch(44), "ends at element 436, but the view has only 399");
    refused(x.slice(1..), Tiling::new([9, 40], [8, 32]), "a multiple of 16 is needed");
    refused(x.view(), Tiling::new([20, 20], [8, 300]), "a box has 300 columns");
    if scale(device, 1).is_none() {
        return Ok(());
    }
    let (w, mut y) = (s.alloc_zeroed::<f32>(40 * 8)?, s.alloc_zeroed::<f32>(80)?);
    let given = config(10, 8, 2);
    let mut told = |sides: [u32; 3], config: LaunchConfig, why: &str| -> Result<()> {
        let (x, w) = (left(x.view(), [10, 40], 40)?, right(w.view(), [40, 8], 8)?);
        let error = s.launch_with(&MATMUL, config, (x, w, &mut y, sides)).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(why), "{error}, not {why}");
        Ok(())
    };
    told([10, 41, 8], given, "x has 10 rows of 40; 10 rows of 41 are needed")?;
    told([10, 40, 9], given, "w has 40 rows of 8; 40 rows of 9 are needed")?;
    told([10, 40, 8], given.cluster([1, 1, 1]).cluster([1, 1, 2]), "grid.z is 1")?;
    told([10, 40, 8], config(10, 8, 3), "clusters of [3, 1, 1] blocks; 1, 2, 4 or 8")?;
    told([10, 40, 8], LaunchConfig::new([1; 3], [256, 1, 1]), "[288, 1, 1] threads, is needed")?;
    let boxes = x.view().tiled(Tiling::new([10, 40], [16, 32]))?;
    let args = (boxes, right(w.view(), [40, 8], 8)?, &mut y, [10, 40, 8]);
    let error = s.launch_with(&MATMUL, given, args).expect_err("a box beyond its shared memory");
    assert!(error.to_string().contains("x has boxes of 16 rows of 32; 8 of 32"), "{error}");
    let mut short = s.alloc_zeroed::<f32>(79)?;
    let (x, w) = (left(x.view(), [10, 40], 40)?, right(w.view(), [40, 8], 8)?);
    let error = s.launch_with(&MATMUL, given, (x, w, &mut short, [10, 40, 8])).expect_err("short");
    assert!(error.to_string().contains("y has 79 elements; 10 rows of 8 need 80"), "{error}");
    s.launch_with(&MATMUL, given, (x, w, &mut y, [10, 40, 8]))?;
    assert_eq!(s.download(&y)?, [0.0; 80]);
    Ok(())
}
