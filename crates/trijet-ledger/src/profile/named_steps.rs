//! The steps of a program that names them: ranges of one name, one after another, to which most of
//! its kernels belong.
//!
//! Ranges may be nested: an epoch contains steps, and a step contains layers. The steps are the
//! outermost ranges of a name with enough ranges.
#![forbid(unsafe_code)]

use super::period::{Period, PeriodStep, mixed};
use super::ranges::NamedRanges;
use crate::trace::activity::Activity;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The number of ranges that is enough. Ranges of a name with fewer are steps only if no name has
/// enough ranges.
const ENOUGH: usize = 8;
/// Minimum number of ranges that are steps.
const STEPS_MIN: usize = 3;

/// The kernels that belong to a range.
#[derive(Clone)]
struct StepKernels {
    /// The time of the range in nanoseconds.
    open: Range<u64>,
    /// From the index of the first kernel to the index after the last one, in the list of kernels.
    place: Range<usize>,
    /// The number of the kernels between these indices that belong to the range.
    count: usize,
}

/// The steps in `kernels`, which are sorted by start, and the name of their ranges. `None` if no
/// name has ranges that are steps.
pub(super) fn named_steps<'a>(
    kernels: &[&Activity],
    ranges: &'a NamedRanges,
) -> Option<(Period, &'a str)> {
    let mut of_range: BTreeMap<usize, StepKernels> = BTreeMap::new();
    for (place, one) in kernels.iter().enumerate() {
        for range in ranges.around(one) {
            let its = of_range.entry(range).or_insert_with(|| StepKernels {
                open: ranges.list[range].time.clone(),
                place: place..place,
                count: 0,
            });
            its.place.end = place + 1;
            its.count += 1;
        }
    }
    let mut by_name: BTreeMap<usize, Vec<StepKernels>> = BTreeMap::new();
    for (range, its) in of_range {
        by_name.entry(ranges.list[range].name).or_default().push(its);
    }
    let found = by_name.into_iter().filter(|(_, steps)| are_steps(steps, kernels.len()));
    let (name, steps) = found.min_by_key(|(_, steps)| (steps.len() < ENOUGH, steps.len()))?;
    Some((period(&steps, kernels), &ranges.names[name]))
}

/// Whether the ranges follow one another, and have three quarters of the kernels from the first to
/// the last of them, and a third of all kernels.
fn are_steps(steps: &[StepKernels], kernels: usize) -> bool {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
    let follows = |pair: &[StepKernels]| {
        pair[0].open.end <= pair[1].open.start && pair[0].place.start < pair[1].place.start
    };
    let count: usize = steps.iter().map(|one| one.count).sum();
    let stretch = last.place.end.saturating_sub(first.place.start);
    steps.len() >= STEPS_MIN
        && steps.windows(2).all(follows)
        && count * 4 >= stretch * 3
        && count * 3 >= kernels
}

/// The steps as parts of the list of kernels. A kernel that belongs to no step counts for the step
/// before it. The kernels of a regular step have the names that most often occur together.
fn period(steps: &[StepKernels], kernels: &[&Activity]) -> Period {
    let ends = steps.iter().skip(1).map(|next| next.place.start);
    let ends = ends.chain(steps.last().map(|last| last.place.end));
    let places: Vec<Range<usize>> =
        steps.iter().zip(ends).map(|(one, end)| one.place.start..end).collect();
    // A sum does not depend on the order of the kernels.
    let key = |place: &Range<usize>| {
        let names =
            kernels[place.clone()].iter().map(|one| one.name.map_or(u64::MAX, |n| n.0.into()));
        names.fold(0_u64, |sum, name| sum.wrapping_add(mixed(name)))
    };
    let keys: Vec<u64> = places.iter().map(key).collect();
    let mut counts: HashMap<u64, usize> = HashMap::new();
    keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
    // Of several keys that occur equally often, the first one counts.
    let usual = (0..keys.len()).rev().max_by_key(|step| counts[&keys[*step]]).unwrap_or(0);
    let length = places[usual].len();
    let steps = places
        .into_iter()
        .zip(&keys)
        .map(|(place, key)| PeriodStep { place, is_regular: *key == keys[usual] });
    Period { steps: steps.collect(), length }
}
