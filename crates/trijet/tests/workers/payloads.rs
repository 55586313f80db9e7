//! Any payload and all fields that safe code can choose: each shipped program computes the same as
//! a model of one task, and nothing if the payload names no object. For any device.
#![expect(clippy::cast_possible_truncation, reason = "payloads have numbers in their low bits")]

use trijet::testing::Prng;
use trijet::workers::queens::QUEENS;
use trijet::workers::{RunOptions, TaskGraph, Work, WorkerTask};
use trijet::{Buffer, Device, Result, Stream};
use trijet_programs::attention::{self, ATTENTION};
use trijet_programs::echo::ECHO;
use trijet_programs::experts::{self, EXPERTS};
use trijet_programs::layered::LAYERED;
use trijet_programs::lengths::{self, LENGTHS};
use trijet_programs::mandelbrot::{self, MANDELBROT};
use trijet_programs::mix;
use trijet_programs::pair::{self, PAIR};
use trijet_programs::rows::ROWS;
use trijet_programs::search::SEARCH;
use trijet_programs::tree::TREE;
use trijet_programs::vectors::VECTORS;

/// The largest payload.
const MOST: u64 = (1 << 56) - 1;

/// Ends of parts: they decrease, and exceed the length.
const ENDS: [u32; 7] = [0, 5, 3, 12, 70, u32::MAX, u32::MAX];
/// The numbers of the elements of the parts. Some elements do not exist.
const ELEMENTS: [u32; 20] =
    [1, 2, 0, 5, 3, u32::MAX, 4, 4, 6, 1, 0, 2, 3, 1 << 31, 5, 0, 1, 2, 3, 4];

/// Numbers at each limit of 8, 16, 24, 32, 48 and 56 bits, small ones, and drawn ones.
fn payloads(seed: u64) -> Vec<u64> {
    let limits = [8, 16, 24, 32, 48, 56].map(|bits| 1_u64 << bits);
    let mut all: Vec<u64> =
        limits.iter().flat_map(|at| [at - 2, at - 1, *at, at + 1, at + 7]).collect();
    all.extend(0..9);
    all.extend((0..9).map(|low| 3 << 32 | low));
    all.extend([
        u64::from(u32::MAX),
        MOST << 32 | 1,
        0xff_ffff << 32,
        0xff_ffff << 32 | 0xffff_fff0,
    ]);
    let mut prng = Prng::new(seed);
    all.extend((0..16).map(|at| prng.next_u64() >> (at * 4)));
    all.into_iter().map(|payload| payload & MOST).collect()
}

/// The part of `all` with this number, as far as it exists.
fn part(ends: &[u32], number: u64, all: u64) -> std::ops::Range<usize> {
    let at = |number: u64| usize::try_from(number).ok().and_then(|at| ends.get(at)).copied();
    match (at(number), at(number + 1)) {
        (Some(begin), Some(end)) => {
            let end = u64::from(end).min(all) as usize;
            (begin as usize).min(end)..end
        }
        _ => 0..0,
    }
}

fn low(payload: u64) -> u64 {
    payload & 0xffff_ffff
}

fn attention(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let width = attention::WIDTH;
    let drawn =
        |many: usize| -> Vec<f32> { (0..many).map(|at| (at % 13) as f32 / 16.0 - 0.4).collect() };
    let queries = ENDS.len() - 1;
    let (q, k, v) = (drawn(queries * width), drawn(20 * width), drawn(20 * width));
    let (ends, on_q, on_k) = (s.upload(&ENDS)?, s.upload(&q)?, s.upload(&k)?);
    let (on_v, mut out) = (s.upload(&v)?, s.upload(&vec![7.0_f32; q.len()])?);
    let args = (&ends, &on_q, &on_k, &on_v, &mut out);
    s.run_workers(&ATTENTION, Work::Tasks(&[WorkerTask::new(0, payload)]), options, args)?
        .wait()?;
    let mut expected = vec![7.0_f32; q.len()];
    let number = low(payload);
    if number < queries as u64 {
        let rows = part(&ENDS, number, 20);
        let rows = rows.start * width..rows.end * width;
        let own = number as usize * width..(number as usize + 1) * width;
        let result = attention::attended(&q[own.clone()], &k[rows.clone()], &v[rows]);
        expected[own].copy_from_slice(&result);
    }
    assert!(s.download(&out)? == expected, "attention of {payload:#x}");
    Ok(())
}

fn experts(s: &Stream, options: &RunOptions, kind: u8, payload: u64) -> Result<()> {
    let (width, tokens) = (experts::WIDTH, 40);
    let x: Vec<u32> = (0..).map(mix).take(tokens * width).collect();
    let (ends, on_x) = (s.upload(&ENDS)?, s.upload(&x)?);
    let mut y = s.upload(&vec![7_u32; x.len()])?;
    let work = [WorkerTask::new(kind, payload)];
    s.run_workers(&EXPERTS, Work::Tasks(&work), options, (&ends, &on_x, &mut y))?.wait()?;
    let (expert, own) = if kind == 0 {
        (low(payload) as u32, part(&ENDS, low(payload), tokens as u64))
    } else {
        let (expert, first) = ((payload >> 32) as u32, low(payload) as usize);
        let end = part(&ENDS, u64::from(expert), tokens as u64).end.min(first + 16);
        (expert, first.min(end)..end)
    };
    let mut expected = vec![7_u32; x.len()];
    for token in own {
        let words = token * width..(token + 1) * width;
        let routed = experts::routed(expert, &x[words.clone()]);
        expected[words].copy_from_slice(&routed);
    }
    assert!(s.download(&y)? == expected, "kind {kind} of experts of {payload:#x}");
    Ok(())
}

fn search(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    // A distance near the limit of its 24 bits starts again at 0, so the result depends on the
    // order of the tasks.
    let ends_anew = payload >> 32 > 0xff_ff00;
    let mut expected = vec![u32::MAX; ENDS.len() - 1];
    let (ends, next, mut distances) =
        (s.upload(&ENDS)?, s.upload(&ELEMENTS)?, s.upload(&expected)?);
    let work = [WorkerTask::new(0, payload)];
    s.run_workers(&SEARCH, Work::Tasks(&work), options, (&ends, &next, &mut distances))?.wait()?;
    let mut open = vec![(low(payload), (payload >> 32) as u32)];
    while let (Some((vertex, distance)), false) = (open.pop(), ends_anew) {
        if vertex >= expected.len() as u64 {
            continue;
        }
        for other in &ELEMENTS[part(&ENDS, vertex, ELEMENTS.len() as u64)] {
            let Some(held) = expected.get_mut(*other as usize) else { continue };
            if *held > distance + 1 {
                *held = distance + 1;
                open.push((u64::from(*other), distance + 1));
            }
        }
    }
    let found = s.download(&distances)?;
    assert!(ends_anew || found == expected, "search from {payload:#x}: {found:?}");
    Ok(())
}

fn rows(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let x = [3, 5, 7, 11_u32];
    let (ends, columns, on_x) = (s.upload(&ENDS)?, s.upload(&ELEMENTS)?, s.upload(&x)?);
    let mut y = s.upload(&[7_u32; ENDS.len() - 1])?;
    let work = [WorkerTask::new(0, payload)];
    s.run_workers(&ROWS, Work::Tasks(&work), options, (&ends, &columns, &on_x, &mut y))?.wait()?;
    let mut expected = [7_u32; ENDS.len() - 1];
    if let Some(own) = usize::try_from(low(payload)).ok().and_then(|at| expected.get_mut(at)) {
        let columns = &ELEMENTS[part(&ENDS, low(payload), ELEMENTS.len() as u64)];
        let terms = columns
            .iter()
            .filter(|column| **column < 4)
            .map(|column| x[*column as usize].wrapping_mul(mix(*column ^ low(payload) as u32)));
        *own = terms.fold(0, u32::wrapping_add);
    }
    assert_eq!(s.download(&y)?, expected, "row {payload:#x}");
    Ok(())
}

fn layered(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let mut expected = [3, 5, 7, 11, 13, 17_u32];
    let (ends, before, mut values) = (s.upload(&ENDS)?, s.upload(&ELEMENTS)?, s.upload(&expected)?);
    let work = [WorkerTask::new(0, payload)];
    s.run_workers(&LAYERED, Work::Tasks(&work), options, (&ends, &before, &mut values))?.wait()?;
    if low(payload) < 6 {
        let before = &ELEMENTS[part(&ENDS, low(payload), ELEMENTS.len() as u64)];
        let known = before.iter().filter(|at| **at < 6).map(|at| expected[*at as usize]);
        let sum = known.fold(0, u32::wrapping_add);
        expected[low(payload) as usize] = mix(low(payload) as u32 ^ sum);
    }
    assert_eq!(s.download(&values)?, expected, "node {payload:#x}");
    Ok(())
}

fn independent(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let (work, number) = ([WorkerTask::new(0, payload)], low(payload));
    let mut out = s.upload(&[7_u32; 64])?;
    s.run_workers(&LENGTHS, Work::Tasks(&work), options, (&mut out, 3_u32, 2_u32))?.wait()?;
    let mut expected = [7_u32; 64];
    if number < 2 {
        let value = |lane| lengths::value(number as u32, lane, 3, 2);
        (0..32).for_each(|lane| expected[number as usize * 32 + lane] = value(lane as u32));
    }
    assert_eq!(s.download(&out)?, expected, "steps of {payload:#x}");
    let mut counts = s.upload(&[7_u32; 32 * 32])?;
    s.run_workers(&MANDELBROT, Work::Tasks(&work), options, (&mut counts, 32_u32, 9_u32))?
        .wait()?;
    let mut expected = [7_u32; 32 * 32];
    for at in 0..if number < 4 { 256 } else { 0 } {
        let (px, py) = (number as usize % 2 * 16 + at % 16, number as usize / 2 * 16 + at / 16);
        expected[py * 32 + px] = mandelbrot::iterations(px as u32, py as u32, 32, 9);
    }
    assert!(s.download(&counts)? == expected, "tile {payload:#x}");
    Ok(())
}

/// The solutions of a board, place by place: its columns, both diagonals, its row and its size.
fn solutions([columns, left, right]: [u64; 3], row: u64, n: u64) -> u64 {
    if row == n {
        return 1;
    }
    let all = (1_u64 << n) - 1;
    let open =
        (0..n).map(|at| 1_u64 << at).filter(|bit| all & !(columns | left | right) & bit != 0);
    let next = |bit: u64| [columns | bit, (left | bit) << 1 & all, (right | bit) >> 1];
    open.map(|bit| solutions(next(bit), row + 1, n)).sum()
}

fn queens(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let part = |at: u32, bits: u32| payload >> at & ((1 << bits) - 1);
    let (row, n) = (part(48, 4), part(52, 4));
    // Other boards take too long if they have few queens.
    if n > 8 && row < n && payload & 0xffff_ffff_ffff != 0xffff_ffff_ffff {
        return Ok(());
    }
    let expected =
        if row < n { solutions([part(0, 16), part(16, 16), part(32, 16)], row, n) } else { 0 };
    for cut in [0_u32, 3, u32::MAX] {
        let mut total = s.upload(&[u64::MAX])?;
        let work = [WorkerTask::new(0, payload)];
        s.run_workers(&QUEENS, Work::Tasks(&work), options, (&mut total, cut))?.wait()?;
        assert_eq!(s.download(&total)?, [expected.wrapping_sub(1)], "board {payload:#x}, {cut}");
    }
    Ok(())
}

fn sums(s: &Stream, options: &RunOptions, payload: u64) -> Result<()> {
    let work = [WorkerTask::new(0, payload)];
    let mut sum = s.upload(&[u64::MAX])?;
    s.run_workers(&ECHO, Work::Tasks(&work), options, (&mut sum,))?.wait()?;
    assert_eq!(s.download(&sum)?, [payload.wrapping_sub(1)], "echo of {payload:#x}");
    let (mut open, mut expected) =
        (vec![(low(payload) as u32, payload >> 32 & 0xffff)], [u64::MAX; 2]);
    while let Some((hash, depth)) = open.pop() {
        let word = u64::from(hash);
        expected = [expected[0].wrapping_add(1), expected[1].wrapping_add(word)];
        let many = if depth < 4 { mix(hash ^ 0x9e37_79b9) % 4 } else { 0 };
        open.extend((0..many).map(|at| (mix(hash.wrapping_add(at + 1)), depth + 1)));
    }
    let mut found = s.upload(&[u64::MAX; 2])?;
    s.run_workers(&TREE, Work::Tasks(&work), options, (&mut found, 4_u32, 3_u32))?.wait()?;
    assert_eq!(s.download(&found)?, expected, "tree of {payload:#x}");
    Ok(())
}

/// Fields of ranges, each as the only node of a graph, and tasks without fields.
fn vectors(s: &Stream, options: &RunOptions, kind: u8, fields: Option<[u64; 5]>) -> Result<()> {
    let mut model: [Vec<f32>; 4] =
        [40, 33, 20, 0].map(|len| (0..len).map(|at| at as f32).collect());
    let arrays: Result<Vec<Buffer<f32>>> = model.iter().map(|array| s.upload(array)).collect();
    let [mut a, mut b, mut c, mut d]: [Buffer<f32>; 4] = arrays?.try_into().expect("four arrays");
    let args = (&mut a, &mut b, &mut c, &mut d);
    match fields {
        None => {
            let work = [WorkerTask::new(kind, 0), WorkerTask::new(kind, MOST)];
            s.run_workers(&VECTORS, Work::Tasks(&work), options, args)?.wait()?;
        }
        Some([to, from, begin, end, value]) => {
            let mut graph = TaskGraph::new();
            graph.node_with(kind, [to, from, begin, end, value, 0, 0, 0]);
            let graph = s.load_graph(&graph)?;
            s.run_workers(&VECTORS, Work::Graph(&graph), options, args)?.wait()?;
            let from = if kind == 0 { to } else { from };
            let len = |array: u64| model.get(array as usize).map_or(0, Vec::len) as u64;
            let value = f32::from_bits(value as u32);
            for at in begin..end.min(len(to)).min(len(from)) {
                let read = model[from as usize][at as usize];
                let own = &mut model[to as usize][at as usize];
                *own = [value, read, value.mul_add(read, *own)][usize::from(kind)];
            }
        }
    }
    for (array, expected) in [a, b, c, d].iter().zip(&model) {
        assert!(s.download(array)? == *expected, "kind {kind} with {fields:x?}");
    }
    Ok(())
}

/// Every program with every payload, one task at a time.
pub(crate) fn every(device: &Device, options: &RunOptions, seed: u64) -> Result<()> {
    let s = device.stream()?;
    for payload in payloads(seed) {
        attention(&s, options, payload)?;
        experts(&s, options, 0, payload)?;
        experts(&s, options, 1, payload)?;
        search(&s, options, payload)?;
        rows(&s, options, payload)?;
        layered(&s, options, payload)?;
        independent(&s, options, payload)?;
        queens(&s, options, payload)?;
        queens(
            &s,
            options,
            payload & 0xffff_ffff_ffff | (payload % 9) << 52 | (payload / 9 % 16) << 48,
        )?;
        sums(&s, options, payload)?;
    }
    // A pair makes about as many tasks as the Fibonacci number of its payload.
    for n in 0..12_u8 {
        let mut counts = s.alloc_zeroed::<u64>(2)?;
        let work = [WorkerTask::new(n % 2, u64::from(n))];
        s.run_workers(&PAIR, Work::Tasks(&work), options, (&mut counts,))?.wait()?;
        let mut expected = pair::counts(n);
        expected.rotate_left(usize::from(n % 2));
        assert_eq!(s.download(&counts)?, expected, "pair of {n}");
    }
    let drawn = |at: u32| u64::from(mix(at ^ seed as u32)) << 32 | u64::from(mix(at));
    let numbers = [0, 1, 2, 3, 4, u64::MAX];
    let places =
        [0, 1, 19, 20, 33, 40, 41, 1 << 32, (1 << 32) + 3, u64::MAX - 31, u64::MAX - 7, u64::MAX];
    for at in 0..60_u32 {
        let pick = |all: &[u64], salt: u32| all[drawn(at * 8 + salt) as usize % all.len()];
        let (to, from) = (pick(&numbers, 0), pick(&numbers, 1));
        // A task must not write an element that it reads by another lane.
        let from = if to == from { to.wrapping_add(1) } else { from };
        let value = u64::from(((at % 7) as f32).to_bits());
        let fields = [to, from, pick(&places, 2), pick(&places, 3), value | 0xffff << 32];
        for kind in 0..3 {
            vectors(&s, options, kind, Some(fields))?;
            vectors(&s, options, kind, None)?;
        }
    }
    Ok(())
}
