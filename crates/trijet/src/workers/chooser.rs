//! The choice of a policy by measurement.
#![forbid(unsafe_code)]

use super::options::{Policy, RunOptions};
use super::program::Program;
use super::run::{Run, Work};
use super::run_report::RunReport;
use super::twin::Kinds;
use crate::base::error::Result;
use crate::launch::ArgsFor;
use crate::stream::{Device, Stream, TimedEvent};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The number of runs of each policy before the choice. The first run warms up. The time of the
/// second run replaces the time of the first run.
const TRIES: usize = 4;
/// After the choice, one run of every [`EVERY`] runs is measured. Not every run is measured,
/// because the events around a short run take a tenth of the time of the run.
const EVERY: usize = 16;
/// Minimum weight of the duration of the latest run in the mean over all runs of a policy.
const LAST: f64 = 1.0 / (TRIES - 1) as f64;

/// The key of a choice: the program, whether it runs a graph, and the base-2 logarithm of the
/// number of initial tasks, rounded down. The number of tasks that other tasks make is not known in
/// advance.
type Key = (&'static str, bool, u32);

/// The trials of one key.
#[derive(Debug, Default)]
struct Trials {
    /// For each policy: the number of measured runs, and the weighted mean of their durations in
    /// seconds.
    measured: BTreeMap<Policy, (usize, f64)>,
    /// The number of all runs, including runs that were not measured.
    runs: usize,
}

impl Trials {
    /// Returns the policy for the next run, and whether to measure the run. Each policy is measured
    /// [`TRIES`] times, in turn with the others. After that, the fastest policy is returned.
    fn next(&mut self, allowed: &[Policy]) -> (Policy, bool) {
        self.runs += 1;
        let of = |policy: &Policy| self.measured.get(policy).copied().unwrap_or((0, f64::INFINITY));
        let open = allowed.iter().filter(|policy| of(policy).0 < TRIES);
        if let Some(policy) = open.min_by_key(|policy| of(policy).0) {
            return (*policy, true);
        }
        let fastest = allowed.iter().min_by(|a, b| of(a).1.total_cmp(&of(b).1));
        let fastest = *fastest.expect("every kind of work allows a policy");
        (fastest, self.runs.is_multiple_of(EVERY))
    }

    fn note(&mut self, policy: Policy, time: f64) {
        let (runs, mean) = self.measured.entry(policy).or_insert((0, 0.0));
        *mean = match *runs {
            0 | 1 => time,
            // After a run with an error, the mean is infinite. The duration of the next run
            // replaces the mean.
            _ if mean.is_infinite() => time,
            measured => *mean + (time - *mean) * LAST.max(1.0 / measured as f64),
        };
        *runs += 1;
    }
}

/// Chooses the policy of runs by measurement. The first runs of a program try each policy that the
/// work allows. Later runs use the fastest policy. All policies compute the same results, so the
/// results of the measured runs are valid. Runs with twice as many initial tasks, or with a graph,
/// are measured separately, because the fastest policy depends on the number of tasks.
///
/// ```
/// use trijet::workers::queens::{self, QUEENS};
/// use trijet::workers::{Chooser, RunOptions, Work};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Auto)?;
/// let s = device.stream()?;
/// let (chooser, root) = (Chooser::new(), [queens::root(7)]);
/// for _ in 0..20 {
///     let mut total = s.alloc_zeroed::<u64>(1)?;
///     let args = (&mut total, 2u32);
///     let run = chooser.run(&s, &QUEENS, Work::Tasks(&root), &RunOptions::default(), args)?;
///     run.wait()?;
///     assert_eq!(s.download(&total)?, [40]);
/// }
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Chooser {
    trials: Mutex<BTreeMap<Key, Trials>>,
}

/// A run with a policy that a [`Chooser`] has chosen.
#[derive(Debug)]
#[must_use = "`wait` returns the errors of the run, and notes its time"]
pub struct Chosen<'a> {
    chooser: &'a Chooser,
    key: Key,
    policy: Policy,
    /// Events before and after the run; `None` if the run is not measured.
    between: Option<[TimedEvent; 2]>,
    run: Run,
}

impl Chooser {
    /// A chooser that has measured nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs tasks as [`Stream::run_workers`] does. The measurements determine the policy, and the
    /// policy in `options` is not used.
    ///
    /// # Errors
    /// As for [`Stream::run_workers`].
    #[track_caller]
    pub fn run<'a, K: Kinds, P, A: ArgsFor<'a, P>>(
        &self,
        stream: &Stream,
        program: &Program<K, P>,
        work: Work<'_>,
        options: &RunOptions,
        args: A,
    ) -> Result<Chosen<'_>> {
        let is_graph = matches!(work, Work::Graph(_));
        let key = (program.name(), is_graph, work.initial_count().max(1).ilog2());
        let allowed: &[Policy] = if is_graph {
            &[Policy::Stealing, Policy::Levels, Policy::Hybrid, Policy::Sharing]
        } else {
            &[Policy::Stealing, Policy::Sharing, Policy::Hybrid, Policy::Static]
        };
        let (policy, is_measured) = self.lock().entry(key).or_default().next(allowed);
        let device = Device::of_shared(stream.device());
        let event = || device.timed_event();
        let between = if is_measured { Some([event()?, event()?]) } else { None };
        let record_event = |at: usize| {
            between.as_ref().map_or(Ok(()), |between: &[TimedEvent; 2]| between[at].record(stream))
        };
        record_event(0)?;
        let run = stream.run_workers(program, work, &options.policy(policy), args)?;
        record_event(1)?;
        Ok(Chosen { chooser: self, key, policy, between, run })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Trials>> {
        self.trials.lock().expect("no thread panicked while it held this lock")
    }
}

impl Chosen<'_> {
    /// The policy of this run.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Asks the workers to leave; see [`Run::cancel`].
    pub fn cancel(&self) {
        self.run.cancel();
    }

    /// Waits for the end of the run, and notes its duration. A run with an error counts as
    /// infinitely slow, so that the next runs use another policy. For example, the queues may be
    /// too small with one policy, and large enough with another policy.
    ///
    /// # Errors
    /// As for [`Run::wait`].
    #[track_caller]
    pub fn wait(self) -> Result<RunReport> {
        let Self { chooser, key, policy, between, run } = self;
        let report = run.wait();
        let time = match (&report, &between) {
            (Ok(_), Some([begin, end])) => {
                // The run is complete, but the event after it may not be.
                end.synchronize()?;
                end.elapsed_since(begin)?.seconds()
            }
            (Ok(_), None) => return report,
            (Err(_), _) => f64::INFINITY,
        };
        chooser.lock().entry(key).or_default().note(policy, time);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_measured_and_then_the_fastest_one_runs() {
        let allowed = [Policy::Stealing, Policy::Sharing, Policy::Static];
        let mut trials = Trials::default();
        let mut seen = Vec::new();
        for number in 0..3 * TRIES {
            let (policy, is_measured) = trials.next(&allowed);
            assert!(is_measured);
            seen.push(policy);
            let warm = if policy == Policy::Sharing { 1.0 } else { 2.0 };
            trials.note(policy, if number < 3 { 100.0 } else { warm });
        }
        assert_eq!(seen, [allowed; TRIES].concat());
        let chosen: Vec<_> = (0..EVERY).map(|_| trials.next(&allowed)).collect();
        let is_right = chosen.iter().all(|(policy, _)| *policy == Policy::Sharing);
        assert!(is_right, "the first runs do not count: {chosen:?}");
        assert_eq!(chosen.iter().filter(|(_, is_measured)| *is_measured).count(), 1);
        (0..10).for_each(|_| trials.note(Policy::Sharing, 9.0));
        assert_ne!(trials.next(&allowed).0, Policy::Sharing, "it became slower");
    }

    #[test]
    fn a_policy_that_failed_once_and_is_the_fastest_otherwise_is_chosen() {
        let allowed = [Policy::Stealing, Policy::Sharing];
        let mut trials = Trials::default();
        for number in 0..allowed.len() * TRIES {
            let (policy, _) = trials.next(&allowed);
            let is_failed = policy == Policy::Stealing && number == 2 * allowed.len();
            let time = if policy == Policy::Stealing { 1.0 } else { 2.0 };
            trials.note(policy, if is_failed { f64::INFINITY } else { time });
        }
        assert_eq!(trials.next(&allowed).0, Policy::Stealing);
        trials.note(Policy::Stealing, f64::INFINITY);
        assert_eq!(trials.next(&allowed).0, Policy::Sharing, "its newest run failed");
    }
}
