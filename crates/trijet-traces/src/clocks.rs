//! The clocks of several files, compared by collectives.
//!
//! A collective ends on all of its ranks at nearly the same time, so the ends of the collectives of
//! two files tell how far their clocks are apart, whichever rank began later. Each file is moved to
//! the clock of the first one, and the error that remains is stated.

use std::collections::{BTreeMap, HashMap};
use trijet_ledger::base::units::Nanos;
use trijet_ledger::profile::communicates;
use trijet_ledger::trace::activity::{Activity, ActivityKind, ProcessTrace};

/// Minimum number of collectives by which two clocks are compared.
const COLLECTIVES_MIN: usize = 4;

/// Moves the times of each file to the clock of the first, by their collectives. The notes of a
/// file state by how much, and the error.
///
/// ```
/// let mut files = vec![Vec::new(), Vec::new()];
/// trijet_traces::clocks::align(&mut files);
/// assert!(files.iter().all(Vec::is_empty));
/// ```
pub fn align(files: &mut [Vec<ProcessTrace>]) {
    let Some((first, others)) = files.split_first_mut() else { return };
    let base = collectives(first);
    for (file, number) in others.iter_mut().zip(2_u32..) {
        let note = match ClockOffset::of(&base, &collectives(file)) {
            None => format!(
                "the clock of file {number} was not compared with that of file 1: they have no \
                 {COLLECTIVES_MIN} collectives of a name in the same number"
            ),
            Some(found) => {
                file.iter_mut().for_each(|trace| shift(trace, found.moved));
                found.note(number)
            }
        };
        file.iter_mut().for_each(|trace| trace.notes.push(note.clone()));
    }
}

/// The ends of the kernels that communicate, by name, in their order.
fn collectives(file: &[ProcessTrace]) -> BTreeMap<String, Vec<i64>> {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for trace in file {
        let mut known: HashMap<&str, bool> = HashMap::new();
        let kernels = trace.activities.iter().filter(|one| one.kind == ActivityKind::Kernel);
        for one in kernels.filter(|one| one.end.0 > 0) {
            let name = trace.name(one);
            if *known.entry(name).or_insert_with(|| communicates(name)) {
                found.entry(name.to_owned()).or_default().push(one.end.0.cast_signed());
            }
        }
    }
    found.values_mut().for_each(|ends| ends.sort_unstable());
    found
}

/// The difference of a clock from another one.
#[derive(Debug, PartialEq, Eq)]
struct ClockOffset {
    /// The nanoseconds that are added to the times of the file.
    moved: i64,
    /// Nine in ten of the collectives end within this many nanoseconds of each other.
    error: i64,
    collectives: usize,
}

impl ClockOffset {
    /// Compares the collectives of each name, the first with the first, and so on. Leaves out names
    /// with different numbers of collectives. `None` if too few remain.
    fn of(base: &BTreeMap<String, Vec<i64>>, file: &BTreeMap<String, Vec<i64>>) -> Option<Self> {
        let both = file.iter().filter_map(|(name, ends)| Some((base.get(name)?, ends)));
        let both = both.filter(|(base, ends)| base.len() == ends.len());
        let mut apart: Vec<i64> = both
            .flat_map(|(base, ends)| base.iter().zip(ends).map(|(a, b)| a.saturating_sub(*b)))
            .collect();
        if apart.len() < COLLECTIVES_MIN {
            return None;
        }
        apart.sort_unstable();
        let median = apart[apart.len() / 2];
        let mut errors: Vec<i64> =
            apart.iter().map(|one| one.saturating_sub(median).saturating_abs()).collect();
        errors.sort_unstable();
        let error = errors[(errors.len() * 9 / 10).min(errors.len() - 1)];
        Some(Self { moved: median, error, collectives: apart.len() })
    }

    fn note(&self, number: u32) -> String {
        let (moved, error) = (Nanos(self.moved.unsigned_abs()), Nanos(self.error.unsigned_abs()));
        let way = if self.moved < 0 { "back" } else { "forward" };
        format!(
            "the clock of file {number} was moved {way} by {moved} to that of file 1, by the ends \
             of {} collectives; nine in ten of them then end within {error} of each other, which is \
             the error of comparisons between the files",
            self.collectives
        )
    }
}

/// Moves all times of a trace. 0 stands for an unknown time and stays.
fn shift(trace: &mut ProcessTrace, by: i64) {
    let moved = |time: Nanos| match time.0 {
        0 => time,
        known => Nanos(known.saturating_add_signed(by).max(1)),
    };
    trace.began = moved(trace.began);
    trace.moved = trace.moved.saturating_add(by);
    for one in &mut trace.activities {
        let Activity { begin, end, .. } = *one;
        (one.begin, one.end) = (moved(begin), moved(end));
    }
    trace.allocations.iter_mut().for_each(|one| one.at = moved(one.at));
    trace.events.iter_mut().for_each(|one| one.at = moved(one.at));
    trace.samples.iter_mut().for_each(|one| one.at = moved(one.at));
    if let Some(end) = &mut trace.end {
        end.at = moved(end.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet_ledger::trace::activity::NameId;

    /// The collectives of a rank, each of which ends at the times.
    fn rank(ends: &[u64]) -> Vec<ProcessTrace> {
        let kernel = |end: &u64| Activity {
            kind: ActivityKind::Kernel,
            begin: Nanos(end - 40),
            end: Nanos(*end),
            bytes: 0,
            name: Some(NameId(0)),
            device: 0,
            context: 1,
            stream: 7,
            thread: 0,
            correlation: 0,
            node: None,
        };
        vec![ProcessTrace {
            began: Nanos(ends[0] - 40),
            names: vec!["ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)".to_owned()],
            activities: ends.iter().map(kernel).collect(),
            ..ProcessTrace::default()
        }]
    }

    fn ends(file: &[ProcessTrace]) -> Vec<u64> {
        file[0].activities.iter().map(|one| one.end.0).collect()
    }

    #[test]
    fn clocks_are_compared_by_the_ends_of_collectives() {
        let base = [1000, 2000, 3500, 4000, 5200];
        // One end is late by 90 ns, and the others are on a clock that is ahead by 100 s.
        let mut late = base.map(|end| end + 100_000_000_000);
        late[2] += 90;
        let mut files = [rank(&base), rank(&late), rank(&base[..3])];
        align(&mut files);
        assert_eq!(ends(&files[1]), [1000, 2000, 3590, 4000, 5200]);
        assert_eq!(files[1][0].began, Nanos(960));
        let note = files[1][0].notes.join("");
        for part in ["moved back by 100.000 s", "of 5 collectives", "within 90 ns"] {
            assert!(note.contains(part), "{note}");
        }
        assert!(files[0][0].notes.is_empty());
        assert_eq!(ends(&files[2]), base[..3], "too few to compare");
        assert!(files[2][0].notes[0].contains("file 3 was not compared"));
    }

    #[test]
    fn a_time_that_is_unknown_is_not_moved() {
        let mut trace = rank(&[1000]).remove(0);
        trace.activities[0].end = Nanos(0);
        shift(&mut trace, -5000);
        assert_eq!((trace.activities[0].begin, trace.activities[0].end), (Nanos(1), Nanos(0)));
    }
}
