//! The kernels with overlap inside, driven by several streams over many chunks: two levels of
//! overlap. The checker sees every run, and must have no finding.

use crate::{SCHEDULES, simulated, threads};
use std::fmt::Debug;
use trijet::kernels::gemm::{self, bf16};
use trijet::pipeline::{HostWork, StageCx, rows_of};
use trijet::sim::Order;
use trijet::testing::Prng;
use trijet::testing::dependent::{CONSUME, Trigger};
use trijet::testing::{cluster, warp_specialized};
use trijet::{Buffer, Bytes, Device, Element, LaunchConfig, Pipeline, Result, View, ViewMut};

/// Elements of a row: no multiple of the 4 elements that a bulk copy moves.
const WIDTH: usize = 37;
const ROWS: usize = 250;
/// Rows of a full chunk.
const CHUNK: usize = 20;

fn floats(seed: u64, len: usize) -> Vec<f32> {
    let mut draw = Prng::new(seed);
    (0..len).map(|_| draw.below(32) as f32 - 16.0).collect()
}

/// Runs a stage over chunks of rows of `width` elements, with every schedule and in drawn orders.
fn check<T: Element + PartialEq + Debug, R>(
    (x, width): (&[T], usize),
    wanted: &[T],
    prepared: impl Fn(&Device) -> Result<Buffer<R>>,
    stage: impl Fn(&StageCx<'_>, View<'_, T>, &Buffer<R>, ViewMut<'_, T>) -> Result<()>,
) {
    let mut devices = vec![threads(), simulated(Order::Greedy)];
    devices.extend((0..3).map(|seed| simulated(Order::Seeded(seed))));
    for (number, device) in devices.iter().enumerate() {
        let resident = prepared(device).expect("a small buffer");
        for schedule in SCHEDULES {
            let what = format!("device {number}, {schedule:?}");
            let mut found: Vec<T> = Vec::new();
            let run = Pipeline::on(device)
                .source(rows_of(x, width))
                .stage(|s, x, y| stage(s, x, &resident, y))
                .chunk(Bytes((CHUNK * width * size_of::<T>()) as u64))
                .depth(3)
                .schedule(schedule)
                .host_work(HostWork::Threads)
                .sink(&mut found)
                .run();
            let report = run.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(report.plan.chunks.len(), ROWS.div_ceil(CHUNK), "{what}");
            assert!(found == wanted, "{what}: the results differ");
        }
        let verdict = device.verdict().expect("it is checked");
        assert_eq!(verdict.findings, [], "{verdict}");
        assert!(verdict.accesses > 0, "{verdict}");
    }
}

#[test]
fn sums_by_warps_with_roles_over_many_chunks() {
    let (x, bias) = (floats(1, ROWS * WIDTH), floats(2, CHUNK * WIDTH));
    // Each chunk starts a new run of the resident numbers, and these start at an odd element.
    let wanted: Vec<f32> = x
        .chunks(CHUNK * WIDTH)
        .flat_map(|chunk| chunk.iter().zip(&bias).map(|(x, y)| x + y).collect::<Vec<_>>())
        .collect();
    check(
        (&x, WIDTH),
        &wanted,
        |device| device.stream()?.upload(&[&[0.0][..], &bias].concat()),
        |s, x, bias, z| {
            let (len, config) = (x.len(), warp_specialized::config(x.len(), 3));
            s.launch_with(&warp_specialized::ADD, config, (x, bias.slice(1..=len), z))
        },
    );
}

#[test]
fn products_by_clusters_over_many_chunks() {
    let (x, w) = (floats(3, ROWS * WIDTH), floats(4, WIDTH * WIDTH));
    // Small integers: every order of the sum gives the same float.
    let wanted: Vec<f32> = x
        .chunks(WIDTH)
        .flat_map(|row| {
            (0..WIDTH).map(|column| {
                row.iter().enumerate().rev().map(|(k, x)| x * w[k * WIDTH + column]).sum()
            })
        })
        .collect();
    check(
        (&x, WIDTH),
        &wanted,
        |device| device.stream()?.upload(&w),
        |s, x, w, y| {
            let (width, rows) = (37, (x.len() / WIDTH) as u64);
            let config = cluster::config(rows, width, 4);
            s.launch_with(&cluster::MATMUL, config, (width, width, x, w, y))
        },
    );
}

#[test]
fn products_on_tensor_cores_over_many_chunks() {
    // Rows of boxes start at multiples of 16 bytes.
    const WIDTH: usize = 40;
    let bf16s = |x: &[f32]| -> Vec<bf16> { x.iter().map(|x| bf16::from_f32(*x)).collect() };
    let (x, w) = (floats(6, ROWS * WIDTH), floats(7, WIDTH * WIDTH));
    let element = |row: &[f32], column: usize| -> f32 {
        row.iter().zip(&w[column * WIDTH..]).map(|(x, w)| x * w).sum()
    };
    let wanted: Vec<f32> = x
        .chunks(WIDTH)
        .flat_map(|row| (0..WIDTH).map(move |column| (row, column)))
        .map(|(row, column)| element(row, column))
        .collect();
    check(
        (&bf16s(&x), WIDTH),
        &bf16s(&wanted),
        |device| device.stream()?.upload(&bf16s(&w)),
        |s, x, w, y| {
            let rows = x.len() / WIDTH;
            let sizes = [rows, WIDTH, WIDTH].map(|side| u32::try_from(side).expect("a small test"));
            let args = (
                gemm::left(x, [rows, WIDTH], WIDTH)?,
                gemm::right(w.view(), [WIDTH, WIDTH], WIDTH)?,
                gemm::result(y, [rows, WIDTH], WIDTH)?,
                sizes,
            );
            s.launch_with(&gemm::MATMUL, gemm::config(sizes[0], sizes[1], 4), args)
        },
    );
}

/// Two kernels reverse the order of a chunk twice.
#[test]
fn dependent_pairs_over_many_chunks() {
    let mut draw = Prng::new(5);
    let x: Vec<u32> = (0..ROWS * WIDTH).map(|_| (draw.next_u64() >> 32) as u32).collect();
    let hashed = |v: u32| {
        let v = v ^ (v << 13);
        let v = v ^ (v >> 17);
        (v ^ (v << 5)).wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)
    };
    let wanted: Vec<u32> = x.iter().map(|x| hashed(hashed(x ^ 11) ^ hashed(7))).collect();
    check(
        (&x, WIDTH),
        &wanted,
        |device| device.stream()?.alloc::<u32>(0),
        |s, x, _, y| {
            let config = LaunchConfig::new([5, 1, 1], [64, 1, 1]);
            let mut scratch = s.alloc::<u32>(x.len())?;
            s.launch_with(&CONSUME, config, (11, 0, Trigger::Early, x, &mut scratch))?;
            s.launch_with(&CONSUME, config.dependent(), (7, 1, Trigger::Late, &scratch, y))
        },
    );
}
