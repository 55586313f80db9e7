//! The kernels for compute capability 9.0 over drawn sizes, each against a reference of its own.
//!
//! On a GPU each case makes thousands of launches. `TRIJET_TURNS=5` makes 5 turns of each, over small sizes, for
//! tools that slow launches down.

use super::words;
use std::fmt::Debug;
use trijet::kernels::warp_specialized;
use trijet::testing::Prng;
use trijet::{Device, ErrorKind, Kernel, LaunchConfig, Result};

/// How long a case is.
struct Scale {
    turns: u64,
    is_small: bool,
}

/// The scale of a case with this many turns on a GPU. `None` for a GPU that does not run the kernel, and that
/// says so.
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

/// Tiles are cut at each end of each span, a grid may be even or odd, and blocks may have no tile.
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
        // On both sides of the ends of tiles, too.
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
    for (block, why) in [([64, 1, 1], "blocks of 64 threads; 96"), ([96, 2, 1], "it uses x only")] {
        let config = LaunchConfig::new([1; 3], block);
        let refused = streams[0].launch_with(&ADD, config, (&x, &x, &mut z)).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::InvalidValue);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    Ok(())
}
