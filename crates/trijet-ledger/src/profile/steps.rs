//! The steps of a program: its named ranges that repeat, or the part of its run in which the names
//! of its kernels repeat.
#![forbid(unsafe_code)]

use super::activities::{is_kernel, times};
use super::named_steps::named_steps;
use super::names::readable;
use super::period::{Likeness, Period, period};
use super::ranges::NamedRanges;
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, NameId, ProcessTrace};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The part of a run that figures are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FiguresOf {
    /// The steps of the program. If the program has no steps, the whole run.
    Steps,
    /// The whole run.
    Whole,
}

/// The times from the start of one step to the start of the next, for steps with the usual kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepTimes {
    /// The shortest of the times.
    pub least: Nanos,
    /// A tenth of the times are at most this long.
    pub tenth: Nanos,
    /// Half of the times are at most this long.
    pub median: Nanos,
    /// Nine tenths of the times are at most this long.
    pub ninetieth: Nanos,
    /// The longest of the times.
    pub most: Nanos,
}

/// The steps of a program on one device.
#[derive(Debug, Clone)]
pub struct ProgramSteps {
    /// The name of the ranges that are the steps, with `#` for digits that differ. `None` if the
    /// steps were found by the names of the kernels.
    pub range: Option<String>,
    /// The number of steps.
    pub count: usize,
    /// The number of steps whose kernels differ from the kernels of most steps.
    pub different: usize,
    /// The total time of the steps that `different` counts.
    pub different_time: Nanos,
    /// The number of kernels in a step with the usual kernels.
    pub kernels: usize,
    /// The name of the kernel that starts a step.
    pub first_kernel: String,
    /// The number of the stream whose kernels repeat. `None` if the kernels of all streams repeat.
    pub stream: Option<u32>,
    /// The times from one step to the next.
    pub times: StepTimes,
    /// The start of the first step, on the clock of the trace.
    pub began: Nanos,
    /// The time from `began` to the end of the last step.
    pub elapsed: Nanos,
    /// The time from the first activity of the process to the first step.
    pub before: Nanos,
    /// The part of the time `before` in which the device worked.
    pub busy_before: Nanos,
    /// The time from the last step to the last activity of the process.
    pub after: Nanos,
}

impl StepTimes {
    fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |tenths: usize| {
            let rank = (times.len() * tenths).div_ceil(10).max(1) - 1;
            Nanos(times.get(rank).copied().unwrap_or(0))
        };
        Self { least: at(0), tenth: at(1), median: at(5), ninetieth: at(9), most: at(10) }
    }

    /// The longest time less the shortest, in percent of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        100.0 * (self.most.0 - self.least.0) as f64 / self.median.0.max(1) as f64
    }
}

impl ProgramSteps {
    /// The steps of the device that ran `operations`, in a process with these named ranges that
    /// lived for `life`; `None` if neither ranges nor kernels repeat.
    pub(super) fn of(
        operations: &[&Activity],
        trace: &ProcessTrace,
        ranges: &NamedRanges,
        life: &Range<u64>,
    ) -> Option<Self> {
        let all = sorted_kernels(operations);
        let (kernels, stream, range, found) = match named_steps(&all, ranges) {
            Some((found, name)) => (all, None, Some(name.to_owned()), found),
            None => {
                let (kernels, stream, found) = search(all)?;
                (kernels, stream, None, found)
            }
        };
        let first = kernels[found.steps.first()?.place.start];
        let last = found.steps.last()?;
        let end = kernels[last.place.clone()].iter().map(|one| one.end.0).max()?;
        let window = first.begin.0..end;
        if window.is_empty() {
            return None;
        }
        let begin = |step: usize| kernels[found.steps[step].place.start].begin.0;
        let (mut usual, mut different) = (Vec::new(), Vec::new());
        for (number, step) in found.steps.iter().enumerate().skip(1) {
            // The sequence is sorted by start times.
            let took = kernels[step.place.start].begin.0 - begin(number - 1);
            let is_regular = found.steps[number - 1].is_regular;
            if is_regular { &mut usual } else { &mut different }.push(took);
        }
        let before = life.start..window.start;
        Some(Self {
            range,
            count: found.steps.len(),
            different: different.len(),
            different_time: Nanos(different.iter().sum()),
            kernels: found.length,
            first_kernel: readable(trace.name(first)),
            stream,
            times: StepTimes::of(usual),
            began: Nanos(window.start),
            elapsed: Nanos(window.end - window.start),
            before: Nanos(before.end.saturating_sub(before.start)),
            busy_before: Nanos(times(operations.iter().copied()).overlap(&before)),
            after: Nanos(life.end.saturating_sub(window.end)),
        })
    }

    /// The time from the start of the first step to the end of the last.
    pub(super) fn window(&self) -> Range<u64> {
        self.began.0..self.began.0 + self.elapsed.0
    }
}

/// First the kernels that repeat, sorted by their starts. Second the number of their stream, if
/// only the kernels of one of several streams repeat. Third the steps of these kernels.
type RepeatedKernels<'a> = (Vec<&'a Activity>, Option<u32>, Period);

/// The kernels among the operations, sorted by their starts.
fn sorted_kernels<'a>(operations: &[&'a Activity]) -> Vec<&'a Activity> {
    let mut all: Vec<&Activity> = operations.iter().copied().filter(|one| is_kernel(one)).collect();
    all.sort_by_key(|one| (one.begin, one.end, one.context, one.stream, one.correlation));
    all
}

/// Looks for steps with equal kernels: first on all streams, and then on the stream with the most
/// kernels, because the order on one stream does not depend on other streams. After that, looks for
/// steps with similar kernels in the same way.
fn search(all: Vec<&Activity>) -> Option<RepeatedKernels<'_>> {
    let mut streams: BTreeMap<(u32, u32), Vec<&Activity>> = BTreeMap::new();
    for &one in &all {
        streams.entry((one.context, one.stream)).or_default().push(one);
    }
    let is_alone = streams.len() < 2;
    let longest = streams.into_iter().rev().max_by_key(|(_, its)| its.len());
    let longest = longest.filter(|_| !is_alone);
    for likeness in [Likeness::Equal, Likeness::Similar] {
        if let Some(found) = repeated(&all, likeness) {
            return Some((all, None, found));
        }
        if let Some(((_, stream), its)) = &longest
            && let Some(found) = repeated(its, likeness)
        {
            return Some((its.clone(), Some(*stream), found));
        }
    }
    None
}

fn repeated(kernels: &[&Activity], likeness: Likeness) -> Option<Period> {
    let mut numbers: HashMap<Option<NameId>, u32> = HashMap::new();
    let mut names = Vec::with_capacity(kernels.len());
    for one in kernels {
        // The reader of a trace refuses more names than a u32 can count.
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        names.push(*numbers.entry(one.name).or_insert(next));
    }
    period(&names, numbers.len(), likeness)
}
