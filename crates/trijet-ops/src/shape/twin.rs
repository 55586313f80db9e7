//! The computations of the kernels of `shape.cu` and `project.cu`, over slices.
#![forbid(unsafe_code)]

use super::how::Projection;
use super::params::{BinParams, BinPlan, CropParams, ProjectParams, ProjectPlan};
use crate::elements::{Element, RealType, elements, with_element, write, write_whole};
use std::ops::Range;
use trijet::kernels::Tile;

/// An index or a length in a span. A span fits in memory.
fn index(v: u64) -> usize {
    usize::try_from(v).expect("an index in a span fits in `usize`")
}

/// The twin of `crop`.
pub(super) fn crop(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (bytes, plan, x, y) = tile.args::<CropParams>();
    let bytes = bytes as usize;
    let (mut at, mut rest) = ((first / bytes) as u64, y);
    while !rest.is_empty() {
        let (line, column) = (at / plan.out_width, at % plan.out_width);
        let from = plan.row_in(plan.first_out + line) - plan.first_in;
        let from = index(from * plan.width + plan.left + column) * bytes;
        let units = index(plan.out_width - column).min(rest.len() / bytes);
        let (part, after) = rest.split_at_mut(units * bytes);
        part.copy_from_slice(&x[from..][..part.len()]);
        (at, rest) = (at + units as u64, after);
    }
}

/// The elements of a window, row by row.
fn window<'x, A: Element + 'x>(
    plan: &'x BinPlan,
    x: &'x [u8],
    element: u64,
) -> impl Iterator<Item = A> + 'x {
    let out_width = plan.width / plan.columns;
    let [image, row] = plan.start(plan.first_out + element / out_width);
    let column = element % out_width * plan.columns;
    let lines = (0..plan.images).flat_map(move |z| (0..plan.rows).map(move |r| (z, r)));
    lines.flat_map(move |(z, r)| {
        let from = (image + z) * plan.height + row + r - plan.first_in;
        let start = index(from * plan.width + column) * A::BYTES;
        elements::<A>(&x[start..][..index(plan.columns) * A::BYTES])
    })
}

/// `sum / count`, rounded to nearest, ties to even.
fn mean_of(sum: i128, count: i128) -> i128 {
    let (floor, left) = (sum.div_euclid(count), sum.rem_euclid(count));
    let is_up = 2 * left > count || (2 * left == count && floor % 2 != 0);
    floor + i128::from(is_up)
}

/// The twin of `bin`.
pub(super) fn bin(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (from, to, is_mean, plan, x, y) = tile.args::<BinParams>();
    let (to, count) = (RealType::known(to), plan.count());
    let start = first / to.size();
    let outputs = start as u64..(start + y.len() / to.size()) as u64;
    with_element!(RealType::known(from), A => {
        if A::IS_INTEGER {
            let reduced = |element| {
                let sum: i128 = window::<A>(&plan, x, element).map(A::whole).sum();
                if is_mean == 0 { sum } else { mean_of(sum, count.into()) }
            };
            write_whole(to, &outputs.map(reduced).collect::<Vec<_>>(), y);
        } else {
            let reduced = |element| {
                let sum = window::<A>(&plan, x, element).fold(0.0, |sum, v| sum + v.real());
                if is_mean == 0 { sum } else { sum / count as f64 }
            };
            write(to, &outputs.map(reduced).collect::<Vec<_>>(), y);
        }
    });
}

/// Takes the elements of the axis one after another, for each element `y` of the output of a call.
/// `states` has one state for each of these elements.
fn fold<A: Element, S>(
    plan: &ProjectPlan,
    x: &[u8],
    y: &Range<u64>,
    states: &mut [S],
    take: impl Fn(&mut S, A),
) {
    let (mut at, mut rest) = (y.start, states);
    while !rest.is_empty() {
        // The elements up to the end of `inner` have the same elements before the axis.
        let place = (plan.first_out + at) % plan.inner;
        let together = index(plan.inner - place).min(rest.len());
        let (part, after) = rest.split_at_mut(together);
        let start = plan.start(plan.first_out + at) - plan.first_in;
        for n in 0..plan.count {
            let from = index(start + n * plan.inner) * A::BYTES;
            let line = elements::<A>(&x[from..][..together * A::BYTES]);
            part.iter_mut().zip(line).for_each(|(state, v)| take(state, v));
        }
        (at, rest) = (at + together as u64, after);
    }
}

/// The element that is kept of two: the larger or the smaller one, and NaN.
fn kept<A: Element>(how: Projection, best: A, v: A) -> A {
    let is_min = how == Projection::Min;
    let is_better = if A::IS_INTEGER {
        if is_min { v.whole() < best.whole() } else { v.whole() > best.whole() }
    } else {
        let (best, v) = (best.real(), v.real());
        !best.is_nan() && (v.is_nan() || if is_min { v < best } else { v > best })
    };
    if is_better { v } else { best }
}

/// The mean or the sum in `f64`, or the standard deviation from the mean in a second pass.
fn in_double<A: Element>(
    how: Projection,
    plan: &ProjectPlan,
    x: &[u8],
    y: &Range<u64>,
) -> Vec<f64> {
    let count = plan.count as f64;
    let mut sums = vec![0.0; index(y.end - y.start)];
    fold(plan, x, y, &mut sums, |sum, v: A| *sum += v.real());
    match how {
        Projection::Std => {
            let mut states: Vec<_> = sums.iter().map(|sum| (sum / count, 0.0)).collect();
            fold(plan, x, y, &mut states, |(mean, squares), v: A| {
                let v = v.real() - *mean;
                *squares += v * v;
            });
            states.iter().map(|(_, squares)| (squares / count).sqrt()).collect()
        }
        Projection::Mean => sums.iter().map(|sum| sum / count).collect(),
        _ => sums,
    }
}

/// The twin of `project`.
pub(super) fn project(tile: &mut Tile<'_>) {
    let first = tile.first;
    let (from, to, how, plan, x, y) = tile.args::<ProjectParams>();
    let how = Projection::numbered(how).expect("the check refuses an unknown number");
    let to = RealType::known(to);
    let (start, count) = (first / to.size(), y.len() / to.size());
    let outputs = start as u64..(start + count) as u64;
    with_element!(RealType::known(from), A => match how {
        Projection::Max | Projection::Min => {
            let mut states: Vec<Option<A>> = vec![None; count];
            fold(&plan, x, &outputs, &mut states, |best, v: A| {
                *best = Some(best.map_or(v, |best| kept(how, best, v)));
            });
            let best = states.into_iter().flatten();
            if A::IS_INTEGER {
                write_whole(to, &best.map(A::whole).collect::<Vec<_>>(), y);
            } else {
                write(to, &best.map(A::real).collect::<Vec<_>>(), y);
            }
        }
        Projection::Sum if A::IS_INTEGER => {
            let mut sums = vec![0_i128; count];
            fold(&plan, x, &outputs, &mut sums, |sum, v: A| *sum += v.whole());
            write_whole(to, &sums, y);
        }
        Projection::Mean | Projection::Sum | Projection::Std => {
            write(to, &in_double::<A>(how, &plan, x, &outputs), y);
        }
    });
}
