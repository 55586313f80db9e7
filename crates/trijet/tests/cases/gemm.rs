//! The product of bf16 matrices over drawn sizes, in ordinary and in dependent launches.
//!
//! On a GPU the drawn cases make hundreds of launches. `TRIJET_TURNS=3` makes 3 turns of each, over
//! small matrices, for tools that slow launches down.

use super::words;
use trijet::kernels::gemm::{MATMUL, bf16, config, left, result, right};
use trijet::testing::Prng;
use trijet::{Buffer, Device, ErrorKind, LaunchConfig, Result, Stream};

/// The length of a case.
struct Scale {
    turns: u64,
    side_max: u64,
}

/// The scale of a case. `None` for a GPU that cannot run the kernel and reports that.
fn scale(device: &Device, on_gpu: u64) -> Option<Scale> {
    let compute = device.info().compute;
    let is_host = compute == (0, 0);
    if !is_host && compute.0 != 9 {
        let refused = device.load(&MATMUL).expect_err("it needs compute capability 9.0");
        assert_eq!(refused.kind(), ErrorKind::Compile, "{refused}");
        assert!(refused.to_string().contains("PTX/TARGET: `.target sm_90a`"), "{refused}");
        return None;
    }
    let turns = std::env::var("TRIJET_TURNS");
    let asked = turns.ok().map(|turns| turns.parse().expect("TRIJET_TURNS is a number"));
    let side_max = if is_host || asked.is_some() { 150 } else { 700 };
    Some(Scale { turns: asked.unwrap_or(if is_host { 4 } else { on_gpu }), side_max })
}

/// A number from 1 to `most`. Small numbers are as likely as large ones.
fn side(draw: &mut Prng, most: u64) -> usize {
    let bits = draw.below(u64::from(most.ilog2()) + 1);
    usize::try_from(draw.below(2 << bits).clamp(1, most)).expect("a small test")
}

/// A matrix of small integers, whose products and sums are exact, in a larger buffer.
#[derive(Clone)]
struct Matrix {
    sides: [usize; 2],
    pitch: usize,
    first: usize,
    /// All elements of the buffer. Elements outside of the matrix are NaN.
    all: Vec<f32>,
}

impl Matrix {
    fn draw(draw: &mut Prng, seed: u64, sides: [usize; 2]) -> Self {
        let spare = |draw: &mut Prng| 8 * usize::try_from(draw.below(3)).expect("at most 2");
        let (pitch, first) = (sides[1].next_multiple_of(8) + spare(draw), spare(draw));
        let numbers = words(seed, first + sides[0] * pitch).into_iter().enumerate();
        let number = |(at, word): (usize, u64)| {
            let is_inside = at >= first && (at - first) % pitch < sides[1];
            if is_inside { f32::from((word >> 60) as u8) - 8.0 } else { f32::NAN }
        };
        Self { sides, pitch, first, all: numbers.map(number).collect() }
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.all[self.first + row * self.pitch..][..self.sides[1]]
    }

    fn bf16s(&self) -> Vec<bf16> {
        self.all.iter().map(|x| bf16::from_f32(*x)).collect()
    }
}

/// The product, summed from the last summand to the first one.
fn product(a: &[f32], b: &[f32]) -> bf16 {
    bf16::from_f32(a.iter().zip(b).rev().map(|(a, b)| a * b).sum())
}

fn sides(m: usize, n: usize, k: usize) -> [u32; 3] {
    [m, n, k].map(|side| u32::try_from(side).expect("a small test"))
}

/// The sizes cut tiles on all sides. Clusters have one or two blocks and compute several tiles.
pub(crate) fn products_of_bf16_have_any_size(device: &Device) -> Result<()> {
    let Some(scale) = scale(device, 150) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?];
    let outside = bf16::from_f32(-77.5);
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let [m, n, k] = [(); 3].map(|()| side(&mut draw, scale.side_max));
        let (a, b) =
            (Matrix::draw(&mut draw, seed, [m, k]), Matrix::draw(&mut draw, seed + 1000, [n, k]));
        let d = Matrix::draw(&mut draw, seed, [m, n]);
        let (da, db) = (streams[0].upload(&a.bf16s())?, streams[1].upload(&b.bf16s())?);
        let mut launched = Vec::new();
        for (turn, cluster) in [1, 2].into_iter().enumerate() {
            let s = &streams[turn];
            let sizes = sides(m, n, k);
            let mut config = config(sizes[0], sizes[1], device.info().multiprocessors);
            config.cluster[0] = cluster;
            let clusters = 1 + u32::try_from(draw.below(9)).expect("at most 8");
            config.grid[0] = if turn == 0 { config.grid[0] } else { clusters * cluster };
            let mut dd = s.upload(&vec![outside; d.all.len()])?;
            let args = (
                left(da.slice(a.first..), a.sides, a.pitch)?,
                right(db.slice(b.first..), b.sides, b.pitch)?,
                result(dd.slice_mut(d.first..), d.sides, d.pitch)?,
                sizes,
            );
            s.launch_with(&MATMUL, config, args)?;
            launched.push((config, dd));
        }
        for (config, dd) in launched {
            let found = streams[1].download(&dd)?;
            let differs = found.iter().enumerate().find(|(at, found)| {
                let (row, column) =
                    (at.wrapping_sub(d.first) / d.pitch, at.wrapping_sub(d.first) % d.pitch);
                if row >= m || column >= n.next_multiple_of(8) {
                    return **found != outside;
                }
                column < n && **found != product(a.row(row), b.row(column))
            });
            assert_eq!(differs, None, "seed {seed}: {m} x {n} x {k} in {config:?}");
        }
    }
    Ok(())
}

/// A chain of products. Each product multiplies the result of the previous product.
fn chain(
    s: &Stream,
    x: &mut [Buffer<bf16>; 2],
    w: &Buffer<bf16>,
    m: usize,
    n: usize,
    config: LaunchConfig,
) -> Result<()> {
    for turn in 0..6 {
        let [one, other] = &mut *x;
        let (from, to) = if turn % 2 == 0 { (one, other) } else { (other, one) };
        let args = (
            left(from.view(), [m, n], n)?,
            right(w.view(), [n, n], n)?,
            result(to.view_mut(), [m, n], n)?,
            sides(m, n, n),
        );
        s.launch_with(&MATMUL, config, args)?;
    }
    Ok(())
}

pub(crate) fn chains_of_products_as_dependent_launches_compute_what_ordinary_ones_do(
    device: &Device,
) -> Result<()> {
    let Some(scale) = scale(device, 60) else { return Ok(()) };
    let s = device.stream()?;
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let (m, n) = (side(&mut draw, scale.side_max), 8 * side(&mut draw, scale.side_max / 8));
        let numbers = |seed: u64, len: usize| -> Vec<bf16> {
            let number = |word: u64| bf16::from_f32((f32::from((word >> 56) as u8) - 128.0) / 64.0);
            words(seed, len).into_iter().map(number).collect()
        };
        let (first, w) = (numbers(seed, m * n), s.upload(&numbers(seed + 1000, n * n))?);
        let [rows, columns, _] = sides(m, n, n);
        let config = config(rows, columns, device.info().multiprocessors);
        let mut results = Vec::new();
        for config in [config, config.dependent()] {
            let mut x = [s.upload(&first)?, s.alloc::<bf16>(m * n)?];
            chain(&s, &mut x, &w, m, n, config)?;
            results.push(s.download(&x[0])?);
        }
        // Both results are summed in the same order, so their bits are compared, even if the sums
        // are rounded.
        let bits = |x: &[bf16]| -> Vec<u16> { x.iter().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(&results[0]), bits(&results[1]), "seed {seed}: {m} x {n}");
    }
    Ok(())
}

pub(crate) fn a_product_of_bf16_refuses_what_does_not_fit(device: &Device) -> Result<()> {
    if scale(device, 1).is_none() {
        return Ok(());
    }
    let s = device.stream()?;
    let (x, mut d) = (s.alloc_zeroed::<bf16>(16 * 24)?, s.alloc_zeroed::<bf16>(16 * 16)?);
    let error = left(x.view(), [16, 20], 20).expect_err("rows of 40 bytes");
    assert!(error.to_string().contains("a multiple of 16 bytes"), "{error}");
    let error = result(d.slice_mut(..16 * 15 + 12), [16, 12], 16).expect_err("a part of a unit");
    assert!(error.to_string().contains("up to element 256, but the view has only 252"), "{error}");
    let given = config(16, 16, 4);
    let mut told = |sizes: [u32; 3], config: LaunchConfig, why: &str| -> Result<()> {
        let args = (
            left(x.view(), [16, 24], 24)?,
            right(x.view(), [16, 24], 24)?,
            result(d.view_mut(), [16, 16], 16)?,
            sizes,
        );
        let error = s.launch_with(&MATMUL, config, args).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(why), "{error}, not {why}");
        Ok(())
    };
    told([16, 16, 25], given, "a has 16 rows of 24; 16 rows of 25 are needed")?;
    told([16, 17, 24], given, "b has 16 rows of 24; 17 rows of 24 are needed")?;
    told([16, 16, 24], given.shared_bytes(1024), "1024 bytes of shared memory; 229472 are needed")?;
    let mut four = given;
    (four.grid, four.cluster) = ([4, 1, 1], [4, 1, 1]);
    told([16, 16, 24], four, "clusters of [4, 1, 1] blocks; 1 or 2 in x are")?;
    // A product without rows is empty, and nothing is launched for it; blocks for it are refused.
    for (config, is_refused) in [(config(0, 16, 4), false), (given, true)] {
        let args = (
            left(x.slice(..0), [0, 24], 24)?,
            right(x.view(), [16, 24], 24)?,
            result(d.slice_mut(..0), [0, 16], 16)?,
            [0, 16, 24],
        );
        let launched = s.launch_with(&MATMUL, config, args);
        assert_eq!(launched.is_err(), is_refused, "{launched:?}");
    }
    let mut swapped = s.alloc_zeroed::<bf16>(16 * 16)?;
    // The boxes of a first matrix are larger than those of a second one.
    let args = (
        right(x.view(), [16, 24], 24)?,
        right(x.view(), [16, 24], 24)?,
        result(swapped.view_mut(), [16, 16], 16)?,
        [16, 16, 24],
    );
    let error = s.launch_with(&MATMUL, given, args).expect_err("a box that is too small");
    assert!(error.to_string().contains("a has boxes of 64 rows of 64; 128 of 64"), "{error}");
    Ok(())
}
