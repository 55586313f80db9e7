//! The kernels for compute capability 9.0 over drawn sizes, each compared with a separate
//! reference.
//!
//! On a GPU each case makes thousands of launches. `TRIJET_TURNS=5` makes 5 turns of each, over
//! small sizes, for tools that slow launches down.

use super::words;
use std::fmt::Debug;
use trijet::testing::Prng;
use trijet::testing::dependent::{CONSUME, PRODUCE, Trigger};
use trijet::testing::{cluster, warp_specialized};
use trijet::{Buffer, Device, ErrorKind, Kernel, LaunchConfig, Result, Stream};

/// The length of a case.
struct Scale {
    turns: u64,
    is_small: bool,
}

/// The scale of a case that makes this many turns on a GPU. `None` for a GPU that cannot run the
/// kernel and reports that.
fn scale<P>(device: &Device, kernel: &Kernel<P>, on_gpu: u64) -> Option<Scale> {
    const ON_HOST: u64 = 6;
    let compute = device.info().compute;
    let is_host = compute == (0, 0);
    if !is_host && compute < (9, 0) {
        let refused = device.load(kernel).expect_err("it needs compute capability 9.0");
        assert_eq!(refused.kind(), ErrorKind::Compile, "{refused}");
        assert!(refused.to_string().contains("PTX/TARGET: `.target sm_90`"), "{refused}");
        return None;
    }
    let turns = std::env::var("TRIJET_TURNS");
    let asked = turns.ok().map(|turns| turns.parse().expect("TRIJET_TURNS is a number"));
    let is_small = is_host || asked.is_some();
    Some(Scale { turns: asked.unwrap_or(if is_host { ON_HOST } else { on_gpu }), is_small })
}

/// A number from 1 to `most`. Every order of magnitude is as likely as any other.
fn length(draw: &mut Prng, most: u64) -> usize {
    let bits = draw.below(u64::from(most.ilog2()) + 1);
    usize::try_from(draw.below(2 << bits).clamp(1, most)).expect("a small test")
}

fn below(draw: &mut Prng, bound: usize) -> usize {
    usize::try_from(draw.below(bound as u64)).expect("it was one")
}

fn floats(seed: u64, len: usize) -> Vec<f32> {
    words(seed, len).iter().map(|word| (word >> 32) as f32 * 0.37).collect()
}

/// Compares all elements, and names the first one that differs.
fn same<T: PartialEq + Debug>(found: &[T], wanted: &[T], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    let shown = differs.map(|at| (at, &found[at], &wanted[at]));
    assert!(shown.is_none(), "{what}: (element, found, wanted) is {shown:?}");
}

/// The lengths cut tiles at each end of each span. A grid may be even or odd, and some blocks may
/// have no tile.
pub(crate) fn a_sum_by_warps_with_roles_has_any_length_alignment_and_grid(
    device: &Device,
) -> Result<()> {
    use warp_specialized::{ADD, TILE, config};
    const LAUNCHES: usize = 8;
    let Some(scale) = scale(device, &ADD, 500) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let tiles_max = if scale.is_small { 7 } else { 1000 };
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        // Lengths on both sides of the end of a tile are drawn as well.
        let tiles = length(&mut draw, tiles_max);
        let len = match draw.below(3) {
            0 => tiles * TILE,
            1 => tiles * TILE - below(&mut draw, 9),
            _ => tiles * TILE - below(&mut draw, TILE),
        };
        let [a, b, c] = [(); 3].map(|()| below(&mut draw, 9));
        let (x, y) = (floats(seed, a + len), floats(seed + 1000, b + len));
        let (dx, dy) = (streams[0].upload(&x)?, streams[1].upload(&y)?);
        let mut wanted = vec![-7.0; c + len + 9];
        let sums = x[a..].iter().zip(&y[b..]).map(|(x, y)| x + y);
        wanted[c..c + len].iter_mut().zip(sums).for_each(|(z, sum)| *z = sum);
        let mut launched = Vec::new();
        for launch in 0..LAUNCHES {
            let s = &streams[launch % 3];
            let blocks = u32::try_from(length(&mut draw, 400)).expect("at most 400");
            let config = match launch {
                0 => config(len, device.info().multiprocessors),
                _ => LaunchConfig::new([blocks, 1, 1], [96, 1, 1]),
            };
            let mut dz = s.upload(&vec![-7.0; wanted.len()])?;
            let z = dz.slice_mut(c..c + len);
            s.launch_with(&ADD, config, (dx.slice(a..), dy.slice(b..), z))?;
            launched.push((config.grid[0], dz));
        }
        for (blocks, z) in launched {
            let what = format!("seed {seed}: {len} elements from {a}, {b}, {c} in {blocks} blocks");
            same(&streams[2].download(&z)?, &wanted, &what);
        }
    }
    let (x, mut z) = (streams[0].alloc::<f32>(8)?, streams[0].alloc::<f32>(8)?);
    for (block, why) in
        [([64, 1, 1], "blocks of 64 threads; 96"), ([96, 2, 1], "the kernel uses x only")]
    {
        let config = LaunchConfig::new([1; 3], block);
        let refused = streams[0].launch_with(&ADD, config, (&x, &x, &mut z)).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidValue);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    Ok(())
}

/// Small integers as floats, whose products and sums are exact, and the product in integers.
fn matrices(
    seed: u64,
    [rows, inner, columns]: [usize; 3],
) -> (Vec<f32>, Vec<f32>, impl Iterator<Item = f32>) {
    let small = |seed: u64, len: usize| -> Vec<i64> {
        words(seed, len).iter().map(|word| i64::from((word >> 59) as i8) - 16).collect()
    };
    let (x, w) = (small(seed, rows * inner), small(seed + 1000, inner * columns));
    let floats = |values: &[i64]| values.iter().map(|value| *value as f32).collect();
    let (fx, fw) = (floats(&x), floats(&w));
    let product = (0..rows * columns).map(move |at| {
        let (row, column) = (at / columns, at % columns);
        // The sum runs from the last summand to the first one, unlike in the kernel.
        (0..inner).rev().map(|k| x[row * inner + k] * w[k * columns + column]).sum::<i64>() as f32
    });
    (fx, fw, product)
}

pub(crate) fn clusters_of_each_size_compute_the_same_product(device: &Device) -> Result<()> {
    use cluster::{MATMUL, config};
    let Some(scale) = scale(device, &MATMUL, 750) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?];
    let most = if scale.is_small { 70 } else { 200 };
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let [rows, columns] = [(); 2].map(|()| length(&mut draw, most));
        let inner = below(&mut draw, 130);
        let (x, w, product) = matrices(seed, [rows, inner, columns]);
        let offset = below(&mut draw, 5);
        let mut wanted = vec![-7.5; offset + rows * columns + 5];
        wanted[offset..].iter_mut().zip(product).for_each(|(y, sum)| *y = sum);
        let (dx, dw) = (streams[0].upload(&x)?, streams[1].upload(&w)?);
        let sides = |side: usize| u32::try_from(side).expect("at most 200");
        let mut launched = Vec::new();
        for (turn, cluster) in [1, 2, 4, 8].into_iter().enumerate() {
            let s = &streams[turn % 2];
            let mut dy = s.upload(&vec![-7.5; wanted.len()])?;
            let config = config(rows as u64, sides(columns), cluster);
            let y = dy.slice_mut(offset..offset + rows * columns);
            s.launch_with(&MATMUL, config, (sides(inner), sides(columns), &dx, &dw, y))?;
            launched.push((cluster, dy));
        }
        for (cluster, y) in launched {
            let what = format!(
                "seed {seed}: {rows} rows of {inner} by {columns} columns in clusters of {cluster}"
            );
            same(&streams[1].download(&y)?, &wanted, &what);
        }
    }
    Ok(())
}

pub(crate) fn a_product_refuses_sizes_and_shapes_that_do_not_fit(device: &Device) -> Result<()> {
    use cluster::{MATMUL, config};
    if scale(device, &MATMUL, 1).is_none() {
        return Ok(());
    }
    let s = device.stream()?;
    let (x, w, mut y) = (s.alloc::<f32>(40)?, s.alloc::<f32>(32)?, s.alloc::<f32>(80)?);
    let mut refused = |inner: u32, columns: u32, config: LaunchConfig, why: &str| {
        let args = (inner, columns, &x, &w, &mut y);
        let error = s.launch_with(&MATMUL, config, args).expect_err("refused");
        assert_eq!((error.kind(), error.code()), (ErrorKind::InvalidValue, None), "{error}");
        assert!(error.to_string().contains(why), "{error}, not {why}");
    };
    let right = config(10, 8, 2);
    refused(4, 0, right, "the matrices have 0 columns; at least 1 is needed");
    refused(4, 7, right, "y has 80 elements, not whole rows of 7");
    refused(5, 8, right, "x has 40 elements; 10 rows of 5 are needed");
    refused(4, 8, right.cluster([1, 2, 1]), "grid.y is 1");
    refused(4, 8, config(33, 8, 2), "a grid of [4, 1, 1] blocks");
    refused(4, 8, config(10, 8, 3), "clusters of [3, 1, 1] blocks; 1, 2, 4 or 8");
    s.launch_with(&MATMUL, right, (4, 8, &x, &w, &mut y))
}

/// The hash that the kernels compute, written from its description: xorshift32, then a
/// multiplication by an odd number and an increment.
fn hashed(rounds: u32, v: u32) -> u32 {
    (0..rounds).fold(v, |v, _| {
        let v = v ^ (v << 13);
        let v = v ^ (v >> 17);
        let v = v ^ (v << 5);
        v.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)
    })
}

/// One kernel of a drawn chain: its arguments, its shape, and whether it is a dependent launch.
struct Link {
    salt: u32,
    rounds: u32,
    trigger: Trigger,
    config: LaunchConfig,
}

fn link(draw: &mut Prng) -> Link {
    let blocks = u32::try_from(length(draw, 64)).expect("at most 64");
    let threads = [32, 96, 256, 1024][below(draw, 4)];
    let config = LaunchConfig::new([blocks, 1, 1], [threads, 1, 1]);
    Link {
        salt: (draw.next_u64() >> 32) as u32,
        rounds: u32::try_from(draw.below(100)).expect("small"),
        trigger: [Trigger::Early, Trigger::Late][below(draw, 2)],
        // Most launches are dependent.
        config: if draw.below(5) == 0 { config } else { config.dependent() },
    }
}

/// Runs a chain between two buffers. Returns the index of the buffer with the result.
fn run_chain(s: &Stream, links: &[Link], buffers: &mut [Buffer<u32>; 2]) -> Result<usize> {
    let [a, b] = buffers;
    for (turn, Link { salt, rounds, trigger, config }) in links.iter().enumerate() {
        let (x, y) = if turn % 2 == 1 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        if turn == 0 {
            s.launch_with(&PRODUCE, *config, (*salt, 20 * rounds, *trigger, y))?;
        } else {
            s.launch_with(&CONSUME, *config, (*salt, *rounds, *trigger, &*x, y))?;
        }
    }
    Ok((links.len() + 1) % 2)
}

/// The chains have two links or more. Every link overwrites memory that the link before it has
/// read, and reads memory that other blocks have written.
pub(crate) fn chains_of_producers_and_consumers_compute_what_their_descriptions_say(
    device: &Device,
) -> Result<()> {
    let Some(scale) = scale(device, &PRODUCE, 350) else { return Ok(()) };
    let streams = [device.stream()?, device.stream()?];
    let most = if scale.is_small { 600 } else { 50_000 };
    for seed in 0..scale.turns {
        let mut draw = Prng::new(seed);
        let (len, count) = (length(&mut draw, most), 2 + below(&mut draw, 18));
        let links: Vec<Link> = (0..count).map(|_| link(&mut draw)).collect();
        let mut wanted: Vec<u32> = (0..u32::try_from(len).expect("a small test"))
            .map(|i| hashed(20 * links[0].rounds, links[0].salt.wrapping_add(i)))
            .collect();
        for link in &links[1..] {
            let key = hashed(link.rounds, link.salt);
            wanted = wanted.iter().rev().map(|x| hashed(1, x ^ key)).collect();
        }
        // The chains of both streams share no memory, so they run side by side.
        let mut results = Vec::new();
        for s in &streams {
            let mut buffers = [s.alloc_zeroed::<u32>(len)?, s.alloc_zeroed::<u32>(len)?];
            let last = run_chain(s, &links, &mut buffers)?;
            results.push((buffers, last));
        }
        for (buffers, last) in results {
            let found = device.stream()?.download(&buffers[last])?;
            same(&found, &wanted, &format!("seed {seed}: {count} links over {len} elements"));
        }
    }
    Ok(())
}
