//! The named ranges of a program: the parts of its run that it named with NVTX.
//!
//! An operation belongs to the ranges that were open in the thread that enqueued it, at the start
//! of the call that enqueued it. Some threads name nothing, such as the threads that compute
//! gradients for PyTorch. An operation of such a thread belongs to the ranges of the only other
//! thread that had an open range at that time.
//!
//! Programs number their ranges, so names that differ only in their digits are one name here:
//! `step 7` and `step 8` are `step #`.
#![forbid(unsafe_code)]

use super::activities::is_timed;
use super::names::readable;
use crate::base::units::Nanos;
use crate::trace::Union;
use crate::trace::activity::{Activity, ActivityKind, MarkKind, NameId, ProcessTrace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Maximum number of names in a profile: the names with the most time on the host.
const NAMES_MAX: usize = 24;
/// Maximum number of ranges around a call that are followed.
const DEPTH_MAX: usize = 64;

/// The ranges of one name.
#[derive(Debug)]
pub struct RangeTime {
    /// The name, after the name of its domain and a colon. `#` replaces digits if several names
    /// differ only in digits.
    pub name: String,
    /// The number of ranges.
    pub ranges: usize,
    /// The time in which at least one of the ranges was open.
    pub open: Nanos,
    /// The number of operations that belong to these ranges.
    pub operations: usize,
    /// The time in which at least one of these operations ran on a device.
    pub ran: Nanos,
}

/// A named range of a process.
#[derive(Debug)]
pub(super) struct TracedRange {
    /// The index of the name in [`NamedRanges::names`].
    pub(super) name: usize,
    /// The name with its digits.
    pub(super) own_name: Option<NameId>,
    /// The time of the range in nanoseconds. A range without an end lasts to the end of the trace.
    pub(super) time: Range<u64>,
    /// The thread that opened the range.
    pub(super) thread: u32,
    /// The index of the range that was open in the same thread when this range started.
    around: Option<usize>,
}

/// The named ranges of a process, and the operations that belong to them.
#[derive(Debug, Default)]
pub(super) struct NamedRanges {
    /// The ranges, sorted by start.
    pub(super) list: Vec<TracedRange>,
    /// The name of each group of ranges.
    pub(super) names: Vec<String>,
    /// For the correlation number of a call: its start in nanoseconds, and the index of the
    /// innermost range to which its operations belong.
    of_call: HashMap<u32, (u64, usize)>,
}

/// The names of ranges, without the numbers in them.
#[derive(Default)]
struct RangeNames {
    of: HashMap<Option<NameId>, usize>,
    numbers: HashMap<String, usize>,
    /// For each group: one of its names, and whether all of its names are equal.
    groups: Vec<(String, bool)>,
}

impl RangeNames {
    /// The index of the group of a name.
    fn group(&mut self, trace: &ProcessTrace, mark: &Activity) -> usize {
        if let Some(&known) = self.of.get(&mark.name) {
            return known;
        }
        let name = trace.name(mark);
        let next = self.groups.len();
        let group = *self.numbers.entry(without_digits(name)).or_insert(next);
        if group == next {
            self.groups.push((name.to_owned(), true));
        }
        let first = &mut self.groups[group];
        first.1 &= first.0 == name;
        self.of.insert(mark.name, group);
        group
    }

    fn texts(&self) -> Vec<String> {
        let text = |(name, is_only): &(String, bool)| {
            readable(&if *is_only { name.clone() } else { without_digits(name) })
        };
        self.groups.iter().map(text).collect()
    }
}

/// The text with `#` for each row of digits.
fn without_digits(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut was_digit = false;
    for letter in text.chars() {
        let is_digit = letter.is_ascii_digit();
        if !is_digit {
            result.push(letter);
        } else if !was_digit {
            result.push('#');
        }
        was_digit = is_digit;
    }
    result
}

impl NamedRanges {
    pub(super) fn of(trace: &ProcessTrace) -> Self {
        let ranges = Self::without_operations(trace);
        Self { of_call: enqueued(trace, &ranges.list), ..ranges }
    }

    /// The ranges alone. No operation belongs to them.
    pub(super) fn without_operations(trace: &ProcessTrace) -> Self {
        let mut marks: Vec<(usize, &Activity, MarkKind)> = Vec::new();
        let mut last = 0;
        for (place, one) in trace.activities.iter().enumerate() {
            last = last.max(one.end.0);
            if let ActivityKind::Mark(kind) = one.kind
                && is_timed(one)
            {
                marks.push((place, one, kind));
            }
        }
        if marks.is_empty() {
            return Self::default();
        }
        // A thread that sets two marks at the same time has set them in the order of the file.
        marks.sort_by_key(|(place, one, _)| (one.begin, *place));
        let mut names = RangeNames::default();
        let mut list: Vec<TracedRange> = Vec::new();
        let mut open: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut by_number: HashMap<u32, usize> = HashMap::new();
        for (_, mark, kind) in marks {
            match kind {
                MarkKind::Start => {
                    let its = open.entry(mark.thread).or_default();
                    let around = its.last().copied();
                    its.push(list.len());
                    by_number.insert(mark.correlation, list.len());
                    let name = names.group(trace, mark);
                    let time = mark.begin.0..last.max(mark.begin.0);
                    let (own_name, thread) = (mark.name, mark.thread);
                    list.push(TracedRange { name, own_name, time, thread, around });
                }
                MarkKind::End => {
                    let Some(range) = by_number.remove(&mark.correlation) else { continue };
                    list[range].time.end = mark.begin.0.max(list[range].time.start);
                    let its = open.entry(list[range].thread).or_default();
                    its.retain(|other| *other != range);
                }
                MarkKind::Moment => {}
            }
        }
        Self { list, names: names.texts(), of_call: HashMap::new() }
    }

    /// The indices of the ranges to which an operation belongs, the innermost first.
    pub(super) fn around(&self, operation: &Activity) -> impl Iterator<Item = usize> {
        let call = self.of_call.get(&operation.correlation);
        let (at, first) = call.map_or((0, None), |(at, range)| (*at, Some(*range)));
        let next = |range: &usize| self.list[*range].around;
        let around = std::iter::successors(first, next).take(DEPTH_MAX);
        // Ranges of a thread may overlap without being nested.
        around.filter(move |range| self.list[*range].time.end >= at)
    }

    /// The times of the names with the most time on the host.
    pub(super) fn times(&self, trace: &ProcessTrace) -> Vec<RangeTime> {
        let mut open: Vec<Vec<Range<u64>>> = vec![Vec::new(); self.names.len()];
        self.list.iter().for_each(|range| open[range.name].push(range.time.clone()));
        let counts: Vec<usize> = open.iter().map(Vec::len).collect();
        let open: Vec<Nanos> = open.into_iter().map(|its| Union::of(its).length()).collect();
        let mut longest: Vec<usize> = (0..self.names.len()).collect();
        longest.sort_by_key(|name| Reverse(open[*name]));
        longest.truncate(NAMES_MAX);
        let mut ran: BTreeMap<usize, Vec<Range<u64>>> =
            longest.iter().map(|name| (*name, Vec::new())).collect();
        let operations = trace.activities.iter().filter(|one| one.engine().is_some());
        for one in operations.filter(|one| is_timed(one)) {
            let mut seen = [usize::MAX; DEPTH_MAX];
            for (place, range) in self.around(one).enumerate() {
                let name = self.list[range].name;
                seen[place] = name;
                if !seen[..place].contains(&name)
                    && let Some(its) = ran.get_mut(&name)
                {
                    its.push(one.begin.0..one.end.0);
                }
            }
        }
        let time = |name: usize| {
            // Each of the longest names has an entry.
            let its: Vec<Range<u64>> = ran.remove(&name).into_iter().flatten().collect();
            let (ranges, open) = (counts[name], open[name]);
            let (operations, ran) = (its.len(), Union::of(its).length());
            RangeTime { name: self.names[name].clone(), ranges, open, operations, ran }
        };
        longest.into_iter().map(time).collect()
    }
}

/// For the correlation number of each call with ranges around it: its start, and the index of the
/// innermost of these ranges. `list` is sorted by start.
fn enqueued(trace: &ProcessTrace, list: &[TracedRange]) -> HashMap<u32, (u64, usize)> {
    if list.is_empty() {
        return HashMap::new();
    }
    let is_call = |one: &&Activity| matches!(one.kind, ActivityKind::Call(_)) && is_timed(one);
    let mut calls: Vec<&Activity> = trace.activities.iter().filter(is_call).collect();
    calls.sort_by_key(|one| one.begin);
    let (mut of_call, mut next) = (HashMap::new(), 0);
    // The open ranges of each thread that has any, the innermost last.
    let mut open: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for call in calls {
        while let Some(range) = list.get(next).filter(|range| range.time.start <= call.begin.0) {
            open.entry(range.thread).or_default().push(next);
            next += 1;
        }
        let is_open = |range: &usize| list[*range].time.end > call.begin.0;
        let mut inner = |its: &mut Vec<usize>| {
            while its.last().is_some_and(|range| !is_open(range)) {
                its.pop();
            }
            its.last().copied()
        };
        let own = open.get_mut(&call.thread).and_then(&mut inner);
        let range = own.or_else(|| {
            open.retain(|_, its| inner(its).is_some());
            let mut others = open.values().filter_map(|its| its.last());
            others.next().copied().filter(|_| others.next().is_none())
        });
        range.into_iter().for_each(|range| {
            of_call.insert(call.correlation, (call.begin.0, range));
        });
    }
    of_call
}
