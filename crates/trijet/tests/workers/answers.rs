//! The programs of the library with their answers, for any device.

use trijet::workers::queens::{self, QUEENS};
use trijet::workers::{Policy, RunOptions, RunReport, Work};
use trijet::{Device, Result};
use trijet_programs::attention::{self, ATTENTION};
use trijet_programs::experts::{self, EXPERTS};
use trijet_programs::layered::{LAYERED, Layered};
use trijet_programs::lengths::{self, LENGTHS};
use trijet_programs::mandelbrot::{self, MANDELBROT};
use trijet_programs::mix;
use trijet_programs::pair::{self, PAIR};
use trijet_programs::rows::{self, ROWS};
use trijet_programs::search::{self, Neighbours, SEARCH};
use trijet_programs::tree::{self, TREE};

/// The number of ways to place this many queens.
const QUEENS_OF: [u64; 15] =
    [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14_200, 73_712, 365_596];

/// Counts the solutions of a board.
pub(crate) fn queens(device: &Device, options: &RunOptions, n: u8, cut: u32) -> Result<RunReport> {
    let s = device.stream()?;
    let mut total = s.alloc_zeroed::<u64>(1)?;
    let root = [queens::root(n)];
    let report = s.run_workers(&QUEENS, Work::Tasks(&root), options, (&mut total, cut))?.wait()?;
    assert_eq!(s.download(&total)?, [QUEENS_OF[usize::from(n)]], "{n} queens, {options:?}");
    assert_eq!(report.ran, report.spawned + 1, "{options:?}");
    Ok(report)
}

/// Computes an image.
pub(crate) fn mandelbrot(
    device: &Device,
    options: &RunOptions,
    width: u32,
    limit: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let mut counts = s.alloc::<u32>((width * width) as usize)?;
    let work = Work::Range { kind: 0, count: mandelbrot::tiles(width) };
    let run = s.run_workers(&MANDELBROT, work, options, (&mut counts, width, limit))?;
    let report = run.wait()?;
    let pixels = (0..width).flat_map(|y| (0..width).map(move |x| (x, y)));
    let expected: Vec<u32> =
        pixels.map(|(x, y)| mandelbrot::iterations(x, y, width, limit)).collect();
    assert!(s.download(&counts)? == expected, "the image, {options:?}");
    assert_eq!(report.ran, u64::from(mandelbrot::tiles(width)));
    Ok(report)
}

/// Runs tasks of different lengths.
pub(crate) fn lengths(
    device: &Device,
    options: &RunOptions,
    tasks: u32,
    skew: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let mut out = s.alloc::<u32>(tasks as usize * 32)?;
    let work = Work::Range { kind: 0, count: tasks };
    let report = s.run_workers(&LENGTHS, work, options, (&mut out, 3u32, skew))?.wait()?;
    let lanes = (0..tasks).flat_map(|task| (0..32).map(move |lane| (task, lane)));
    let expected: Vec<u32> =
        lanes.map(|(task, lane)| lengths::value(task, lane, 3, skew)).collect();
    assert!(s.download(&out)? == expected, "the numbers, {options:?}");
    assert_eq!(report.ran, u64::from(tasks));
    Ok(report)
}

/// Runs a layered graph twice.
pub(crate) fn layered(
    device: &Device,
    options: &RunOptions,
    levels: u32,
    width: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let graph = Layered::new(levels, width);
    let loaded = s.load_graph(&graph.tasks()?)?;
    let (ends, before) = (s.upload(&graph.ends)?, s.upload(&graph.before)?);
    let mut values = s.alloc::<u32>(graph.len())?;
    let mut last = RunReport::default();
    for _ in 0..2 {
        s.fill_bytes(&mut values, 0xff)?;
        let args = (&ends, &before, &mut values);
        last = s.run_workers(&LAYERED, Work::Graph(&loaded), options, args)?.wait()?;
        assert!(s.download(&values)? == graph.values(), "the values of the nodes, {options:?}");
        assert_eq!(last.ran, graph.len() as u64, "{options:?}");
    }
    Ok(last)
}

/// Visits a tree.
pub(crate) fn tree(
    device: &Device,
    options: &RunOptions,
    seed: u32,
    depth: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let mut sums = s.alloc_zeroed::<u64>(2)?;
    let root = [tree::root(seed)];
    let run = s.run_workers(&TREE, Work::Tasks(&root), options, (&mut sums, depth, 4u32))?;
    let report = run.wait()?;
    let expected = tree::sums(seed, depth, 4);
    assert_eq!(s.download(&sums)?, expected, "{options:?}");
    assert_eq!(report.ran, expected[0]);
    Ok(report)
}

/// Finds the distances of vertices.
pub(crate) fn search(
    device: &Device,
    options: &RunOptions,
    vertices: u32,
    seed: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let graph = Neighbours::power_law(vertices, seed);
    let (ends, neighbours) = (s.upload(&graph.ends)?, s.upload(&graph.neighbours)?);
    let mut distances = vec![u32::MAX; vertices as usize];
    distances[0] = 0;
    let mut distances = s.upload(&distances)?;
    let (first, args) = ([search::first(0)], (&ends, &neighbours, &mut distances));
    let report = s.run_workers(&SEARCH, Work::Tasks(&first), options, args)?.wait()?;
    assert!(s.download(&distances)? == graph.distances(0), "the distances, {options:?}");
    Ok(report)
}

/// Multiplies a sparse matrix with a vector.
pub(crate) fn rows(
    device: &Device,
    options: &RunOptions,
    count: u32,
    seed: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let matrix = Neighbours::power_law(count, seed);
    let x: Vec<u32> = (0..count).map(|at| mix(at ^ seed)).collect();
    let (ends, columns) = (s.upload(&matrix.ends)?, s.upload(&matrix.neighbours)?);
    let (vector, mut y) = (s.upload(&x)?, s.alloc::<u32>(count as usize)?);
    let (work, args) = (Work::Range { kind: 0, count }, (&ends, &columns, &vector, &mut y));
    let report = s.run_workers(&ROWS, work, options, args)?.wait()?;
    let expected = (0..count).map(|row| {
        let of = matrix.ends[row as usize] as usize..matrix.ends[row as usize + 1] as usize;
        rows::product(row, &matrix.neighbours[of], &x)
    });
    assert!(s.download(&y)? == expected.collect::<Vec<u32>>(), "the products, {options:?}");
    Ok(report)
}

/// Attends to sequences of different lengths.
pub(crate) fn attention(
    device: &Device,
    options: &RunOptions,
    count: u32,
    seed: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let mut ends = vec![0_u32];
    for number in 0..count {
        let length = mix(number ^ seed) % 4 * (1 << mix(number).leading_zeros().min(6));
        ends.push(ends[number as usize] + length);
    }
    let drawn = |many: usize, salt: u32| -> Vec<f32> {
        let word = |at: u32| (mix(at ^ salt) >> 16) as f32 / 65536.0 - 0.5;
        (0..).map(word).take(many).collect()
    };
    let (width, all) = (attention::WIDTH, ends[count as usize] as usize);
    let q = drawn(count as usize * width, seed);
    let (k, v) = (drawn(all * width, seed + 1), drawn(all * width, seed + 2));
    let (on_ends, on_q) = (s.upload(&ends)?, s.upload(&q)?);
    let (on_k, on_v, mut out) = (s.upload(&k)?, s.upload(&v)?, s.alloc::<f32>(q.len())?);
    let (work, args) = (Work::Range { kind: 0, count }, (&on_ends, &on_q, &on_k, &on_v, &mut out));
    let report = s.run_workers(&ATTENTION, work, options, args)?.wait()?;
    let expected = (0..count as usize).flat_map(|number| {
        let of = ends[number] as usize * width..ends[number + 1] as usize * width;
        attention::attended(&q[number * width..][..width], &k[of.clone()], &v[of])
    });
    assert!(s.download(&out)? == expected.collect::<Vec<f32>>(), "the results, {options:?}");
    Ok(report)
}

/// Multiplies tokens by the weights of their experts.
pub(crate) fn experts(
    device: &Device,
    options: &RunOptions,
    count: u32,
    tokens: u32,
) -> Result<RunReport> {
    let s = device.stream()?;
    let ends = experts::zipf(count, tokens);
    let x: Vec<u32> = (0..).map(mix).take(tokens as usize * experts::WIDTH).collect();
    let (on_ends, on_x) = (s.upload(&ends)?, s.upload(&x)?);
    let mut y = s.alloc::<u32>(x.len())?;
    let (work, args) = (Work::Range { kind: 0, count }, (&on_ends, &on_x, &mut y));
    let report = s.run_workers(&EXPERTS, work, options, args)?.wait()?;
    let expected = (0..count).flat_map(|expert| {
        let of = ends[expert as usize] as usize..ends[expert as usize + 1] as usize;
        let own = x[of.start * experts::WIDTH..of.end * experts::WIDTH].chunks(experts::WIDTH);
        own.flat_map(move |token| experts::routed(expert, token))
    });
    assert!(s.download(&y)? == expected.collect::<Vec<u32>>(), "the tokens, {options:?}");
    Ok(report)
}

/// Counts tasks of two kinds that make each other.
pub(crate) fn pair(device: &Device, options: &RunOptions, n: u8) -> Result<RunReport> {
    let s = device.stream()?;
    let mut counts = s.alloc_zeroed::<u64>(2)?;
    let first = [pair::first(n)];
    let report = s.run_workers(&PAIR, Work::Tasks(&first), options, (&mut counts,))?.wait()?;
    assert_eq!(s.download(&counts)?, pair::counts(n), "{options:?}");
    assert_eq!(report.ran, pair::counts(n).iter().sum::<u64>());
    Ok(report)
}

/// Every program that the policy and the queues allow, with small drawn sizes. The queues of a static
/// run must hold all tasks that it spawns. `options` has no policy and no queues yet.
pub(crate) fn every(
    device: &Device,
    (policy, queue): (Policy, Option<u32>),
    options: &RunOptions,
    seed: u32,
) -> Result<()> {
    let options = options.policy(policy);
    let options = &queue.map_or(options, |queue| options.queue(queue));
    let drawn = |salt: u32, most: u32| mix(seed.wrapping_mul(31) ^ salt) % most;
    if policy == Policy::Levels {
        layered(device, options, 1 + drawn(0, 9), 1 + drawn(1, 40))?;
        return Ok(());
    }
    queens(device, options, [5, 6, 7][drawn(2, 3) as usize], drawn(3, 5))?;
    mandelbrot(device, options, 16 * (1 + drawn(4, 5)), 40)?;
    lengths(device, options, drawn(5, 200), drawn(6, 8))?;
    rows(device, options, 1 + drawn(7, 200), seed)?;
    attention(device, options, 1 + drawn(8, 40), seed)?;
    if policy != Policy::Static || queue.is_none_or(|queue| queue >= 256) {
        tree(device, options, seed, 1 + drawn(9, 7))?;
        search(device, options, 1 + drawn(10, 200), seed)?;
        experts(device, options, 1 + drawn(11, 20), drawn(12, 300))?;
        pair(device, options, [0, 1, 2, 5, 11][drawn(13, 5) as usize])?;
    }
    if policy != Policy::Static {
        layered(device, options, 1 + drawn(0, 9), 1 + drawn(1, 40))?;
    }
    Ok(())
}
