//! The collectives that ranks have called, as rank 0 knows them. From these, rank 0 finds whether
//! all ranks call the same collectives in the same order, and which rank is late.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// Names ranks in a text: `ranks 2, 3 of 4`.
pub(super) fn named(ranks: &[usize], count: usize) -> String {
    let all: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    let noun = if let [_] = ranks { "rank" } else { "ranks" };
    format!("{noun} {} of {count}", all.join(", "))
}

/// The name of a type. Ranks compare elements and combinations by these names. A long name is cut
/// and ends with a hash, so that the name fits into a frame.
pub(crate) fn type_named<T: ?Sized>() -> String {
    const BYTES_MAX: usize = 200;
    let name = type_name::<T>();
    if name.len() <= BYTES_MAX {
        return name.strip_prefix("trijet::kernels::reduction::").unwrap_or(name).to_owned();
    }
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    let kept: String = name.chars().take(BYTES_MAX / 4).collect();
    format!("{kept}..#{:016x}", hash.finish())
}

/// A call of a collective by a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) what: String,
    /// The number of elements. `None` for messages, where the number differs between ranks, and for
    /// a call without elements.
    pub(crate) elements: Option<u64>,
    /// The name of the type of the elements.
    pub(crate) element: String,
    /// The number of bytes of an element.
    pub(crate) element_bytes: u32,
    /// The name of the type of the combination; `None` if the call combines nothing.
    pub(crate) by: Option<String>,
    /// The rank of the root, which sends or gets all elements; `None` for a call without a root.
    pub(crate) root: Option<u32>,
    /// The messages that this rank sends. Each entry has the rank of the receiver in the
    /// communicator and the number of elements.
    pub(crate) sends: Vec<(u32, u64)>,
    /// The messages that this rank receives. Each entry has the rank of the sender in the
    /// communicator and the number of elements.
    pub(crate) receives: Vec<(u32, u64)>,
    /// Whether the rank waits until all ranks have made the call.
    pub(crate) is_awaited: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, elements, element, by, root, .. } = self;
        write!(f, "`{what}`")?;
        match elements {
            Some(count) => write!(f, " of {count} elements of {element}")?,
            None if element.is_empty() => {}
            None => write!(f, " of {element}")?,
        }
        by.iter().try_for_each(|by| write!(f, " by {by}"))?;
        root.iter().try_for_each(|root| write!(f, " with root {root}"))
    }
}

impl Step {
    /// A call without elements, and without a root.
    pub(crate) fn new(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            elements: None,
            element: String::new(),
            element_bytes: 0,
            by: None,
            root: None,
            sends: Vec::new(),
            receives: Vec::new(),
            is_awaited: true,
        }
    }

    /// Whether two ranks can make these two calls of the same collective. Messages are not
    /// compared.
    fn fits(&self, other: &Self) -> bool {
        let without = |one: &Self| Self { sends: Vec::new(), receives: Vec::new(), ..one.clone() };
        without(self) == without(other)
    }
}

/// A collective that some but not all ranks of a communicator have called.
#[derive(Debug)]
struct PendingCalls {
    /// The call of each rank of the communicator; `None` for a rank that has not called.
    steps: Vec<Option<Step>>,
    /// The time of the first call.
    since: Instant,
}

/// A communicator, as rank 0 knows it.
#[derive(Debug)]
struct Channel {
    /// For each rank of the communicator, the rank of its process.
    processes: Vec<usize>,
    /// The collectives that some but not all ranks have called. The key is the number of the
    /// collective.
    pending: BTreeMap<u64, PendingCalls>,
    /// For each rank of the communicator, the number of collectives that its device has reached,
    /// and the time of the last change of this number.
    reached: Vec<(u64, Instant)>,
    /// For each rank of the communicator, whether its process has dropped the communicator.
    has_quit: Vec<bool>,
}

/// The communicators of the group. The key is the channel.
#[derive(Debug, Default)]
pub(super) struct Steps(BTreeMap<u64, Channel>);

impl Steps {
    /// Adds a communicator. `ranks` has the process of each rank of the communicator. Each rank
    /// announces the communicator, and only the first announcement counts.
    pub(super) fn open(&mut self, channel: u64, ranks: Vec<usize>, now: Instant) {
        let (reached, has_quit) = (vec![(0, now); ranks.len()], vec![false; ranks.len()]);
        let pending = BTreeMap::new();
        self.0.entry(channel).or_insert(Channel { processes: ranks, pending, reached, has_quit });
    }

    /// Notes that a rank has dropped the communicator with the channel `number`. After all ranks
    /// have dropped the communicator, this removes the communicator.
    pub(super) fn quit(&mut self, process: usize, number: u64) {
        let Some(channel) = self.0.get_mut(&number) else { return };
        if let Some(rank) = channel.processes.iter().position(|one| *one == process) {
            channel.has_quit[rank] = true;
        }
        if !channel.has_quit.contains(&false) {
            self.0.remove(&number);
        }
    }

    /// Whether some but not all ranks have dropped a communicator.
    pub(super) fn has_quitters(&self) -> bool {
        self.0.values().any(|channel| channel.has_quit.contains(&true))
    }

    /// Notes a call of a rank. If all ranks have made the call and wait for it, returns the
    /// processes of these ranks. Otherwise returns an empty list.
    ///
    /// # Errors
    /// The difference between this call and the call of another rank.
    pub(super) fn arrive(
        &mut self,
        process: usize,
        (channel, number): (u64, u64),
        step: Step,
        now: Instant,
    ) -> Result<Vec<usize>, String> {
        let Some(channel) = self.0.get_mut(&channel) else { return Ok(Vec::new()) };
        let Some(rank) = channel.processes.iter().position(|one| *one == process) else {
            return Ok(Vec::new());
        };
        let pending = channel.pending.entry(number).or_insert_with(|| PendingCalls {
            steps: vec![None; channel.processes.len()],
            since: now,
        });
        let first =
            pending.steps.iter().enumerate().find_map(|(at, one)| Some((at, one.as_ref()?)));
        if let Some((at, first)) = first
            && !first.fits(&step)
        {
            let other = channel.processes[at];
            return Err(format!(
                "collective {number} is {step} on rank {process}, and {first} on rank {other}"
            ));
        }
        pending.steps[rank] = Some(step);
        if pending.steps.iter().any(Option::is_none) {
            return Ok(Vec::new());
        }
        let all: Vec<Step> = pending.steps.drain(..).flatten().collect();
        channel.pending.remove(&number);
        match mismatch(&all, &channel.processes) {
            Some(cause) => Err(format!("collective {number}, `{}`: {cause}", all[0].what)),
            None if all[0].is_awaited => Ok(channel.processes.clone()),
            None => Ok(Vec::new()),
        }
    }

    /// Notes the number of collectives that the device of a rank has reached.
    pub(super) fn reach(&mut self, process: usize, channel: u64, number: u64, now: Instant) {
        let Some(channel) = self.0.get_mut(&channel) else { return };
        let Some(rank) = channel.processes.iter().position(|one| *one == process) else { return };
        if channel.reached[rank].0 != number {
            channel.reached[rank] = (number, now);
        }
    }

    /// Describes ranks that are missing in a collective. Such a rank has left the group or dropped
    /// the communicator before the collective, has not called the collective within the timeout, or
    /// has a device that has not reached the collective within the timeout. `None` if no rank is
    /// missing.
    pub(super) fn missing(
        &self,
        has_left: &[bool],
        timeout: Duration,
        now: Instant,
    ) -> Option<String> {
        let is_over = |since: Instant| now.saturating_duration_since(since) > timeout;
        for channel in self.0.values() {
            let count = has_left.len();
            for (number, pending) in &channel.pending {
                let of = |rank: &usize| pending.steps[*rank].is_none();
                let ranks = (0..channel.processes.len()).filter(of);
                let late: Vec<usize> = ranks.map(|rank| channel.processes[rank]).collect();
                let what = pending.steps.iter().flatten().next().map_or("", |step| &step.what);
                let gone: Vec<usize> = late.iter().copied().filter(|one| has_left[*one]).collect();
                if !gone.is_empty() {
                    let gone = named(&gone, count);
                    return Some(format!("{gone} has left before collective {number}, `{what}`"));
                }
                let has_quit = |rank: &usize| of(rank) && channel.has_quit[*rank];
                let ranks = (0..channel.processes.len()).filter(has_quit);
                let quit: Vec<usize> = ranks.map(|rank| channel.processes[rank]).collect();
                if !quit.is_empty() {
                    let quit = named(&quit, count);
                    return Some(format!(
                        "{quit} has dropped its communicator before collective {number}, `{what}`"
                    ));
                }
                if is_over(pending.since) {
                    let late = named(&late, count);
                    return Some(format!(
                        "{late} did not call collective {number}, `{what}`, within {timeout:?}"
                    ));
                }
            }
            // After a rank has dropped the communicator, the rank no longer reports which
            // collective its device has reached. So such a rank does not count as late.
            let last = channel.reached.iter().map(|one| one.0).max().unwrap_or(0);
            let began = channel.reached.iter().filter(|one| one.0 == last).map(|one| one.1).min();
            let is_behind =
                |rank: &usize| channel.reached[*rank].0 < last && !channel.has_quit[*rank];
            let behind: Vec<usize> = (0..channel.processes.len())
                .filter(|rank| is_behind(rank) && is_over(channel.reached[*rank].1))
                .map(|rank| channel.processes[rank])
                .collect();
            if !behind.is_empty() && began.is_some_and(is_over) {
                let late = named(&behind, count);
                return Some(format!(
                    "the device of {late} has not reached collective {} within {timeout:?}; other \
                     devices wait in this collective",
                    last - 1
                ));
            }
        }
        None
    }
}

/// Describes two ranks whose messages do not match: the messages that one rank sends differ from
/// the messages that the other rank receives from this rank. `None` if all messages match.
fn mismatch(all: &[Step], ranks: &[usize]) -> Option<String> {
    let of = |list: &[(u32, u64)], rank: usize| -> Vec<u64> {
        let is_his = |one: &&(u32, u64)| usize::try_from(one.0) == Ok(rank);
        list.iter().filter(is_his).map(|one| one.1).collect()
    };
    for (from, sender) in all.iter().enumerate() {
        for (to, receiver) in all.iter().enumerate() {
            let (sent, received) = (of(&sender.sends, to), of(&receiver.receives, from));
            if sent != received {
                let (from, to) = (ranks[from], ranks[to]);
                return Some(format!(
                    "rank {from} sends messages of {sent:?} elements to rank {to}, which receives {received:?}"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn step(what: &str, elements: u64) -> Step {
        Step {
            elements: Some(elements),
            element: "f32".into(),
            element_bytes: 4,
            ..Step::new(what)
        }
    }

    fn open(now: Instant) -> Steps {
        let mut steps = Steps::default();
        steps.open(1, vec![0, 2, 3], now);
        steps
    }

    #[test]
    fn a_call_that_differs_is_named_with_both_ranks() {
        let now = Instant::now();
        let mut steps = open(now);
        steps.arrive(2, (1, 5), step("all_reduce", 100), now).unwrap();
        let told = steps.arrive(3, (1, 5), step("all_reduce", 101), now).unwrap_err();
        let expected = "collective 5 is `all_reduce` of 101 elements of f32 on rank 3, and `all_reduce` of 100 elements of f32 on rank 2";
        assert_eq!(told, expected);
    }

    /// A difference in any one part makes two calls different, and the error names this part.
    #[test]
    fn each_part_of_a_call_is_compared_and_named() {
        let right = Step { by: Some("Sum".into()), root: Some(1), ..step("reduce", 7) };
        for (other, told) in [
            (Step { what: "reduce_scatter".into(), ..right.clone() }, "`reduce_scatter` of"),
            (Step { elements: Some(8), ..right.clone() }, "of 8 elements"),
            (Step { element: "u32".into(), ..right.clone() }, "elements of u32"),
            (Step { by: Some("Max".into()), ..right.clone() }, "by Max"),
            (Step { root: Some(2), ..right.clone() }, "with root 2"),
        ] {
            assert!(other.to_string().contains(told), "{other}");
            let now = Instant::now();
            let mut steps = open(now);
            steps.arrive(2, (1, 0), right.clone(), now).unwrap();
            let cause = steps.arrive(3, (1, 0), other.clone(), now).unwrap_err();
            let expected = format!("collective 0 is {other} on rank 3, and {right} on rank 2");
            assert_eq!(cause, expected);
        }
    }

    /// Two long names with the same start stay different when the names are cut.
    #[test]
    fn a_long_name_of_a_type_is_cut_and_stays_its_own() {
        type Ten<T> = (T, T, T, T, T, T, T, T, T, T);
        let (a, b) = (type_named::<Ten<Ten<u8>>>(), type_named::<(Ten<Ten<u8>>, u8)>());
        assert!(a.len() < 100 && b.len() < 100, "{a} {b}");
        assert_ne!(type_named::<(Ten<Ten<u8>>, u16)>(), b);
        assert_eq!(type_named::<f32>(), "f32");
    }

    #[test]
    fn ranks_that_wait_are_told_when_all_have_made_the_call() {
        let now = Instant::now();
        let mut steps = open(now);
        for (rank, told) in [(3, vec![]), (0, vec![]), (2, vec![0, 2, 3])] {
            assert_eq!(steps.arrive(rank, (1, 0), step("all_reduce", 7), now), Ok(told));
        }
        let unheard = Step { is_awaited: false, ..step("all_reduce", 7) };
        for rank in [0, 2, 3] {
            assert_eq!(steps.arrive(rank, (1, 1), unheard.clone(), now), Ok(vec![]));
        }
    }

    #[test]
    fn calls_of_all_ranks_are_forgotten_and_others_are_late() {
        let now = Instant::now();
        let (mut steps, left) = (open(now), [false; 4]);
        let later = now + LIMIT + LIMIT;
        for rank in [0, 2, 3] {
            steps.arrive(rank, (1, 0), step("all_reduce", 7), now).unwrap();
        }
        assert_eq!(steps.missing(&left, LIMIT, later), None);
        steps.arrive(0, (1, 1), step("broadcast", 7), now).unwrap();
        assert_eq!(steps.missing(&left, LIMIT, now), None);
        let told = steps.missing(&left, LIMIT, later).unwrap();
        assert_eq!(told, "ranks 2, 3 of 4 did not call collective 1, `broadcast`, within 10s");
        let told = steps.missing(&[false, false, false, true], LIMIT, now).unwrap();
        assert_eq!(told, "rank 3 of 4 has left before collective 1, `broadcast`");
    }

    #[test]
    fn a_device_that_others_wait_for_is_named() {
        let now = Instant::now();
        let (mut steps, left) = (open(now), [false; 4]);
        steps.reach(0, 1, 3, now);
        steps.reach(3, 1, 3, now);
        assert_eq!(steps.missing(&left, LIMIT, now + LIMIT), None);
        let later = now + LIMIT + Duration::from_secs(1);
        let told = steps.missing(&left, LIMIT, later).unwrap();
        assert!(
            told.starts_with("the device of rank 2 of 4 has not reached collective 2"),
            "{told}"
        );
        // The device of rank 2 has reached two collectives in the meantime, so it is not late yet.
        steps.reach(2, 1, 2, later);
        assert_eq!(steps.missing(&left, LIMIT, later), None);
    }

    /// The drop of a communicator does not make a rank late. The rank is late if other ranks then
    /// call a collective of this communicator.
    #[test]
    fn a_communicator_that_is_given_up_is_missed_only_by_later_collectives() {
        let now = Instant::now();
        let (mut steps, left) = (open(now), [false; 4]);
        steps.reach(0, 1, 3, now);
        steps.reach(3, 1, 3, now);
        steps.quit(2, 1);
        let later = now + LIMIT + LIMIT;
        assert_eq!(steps.missing(&left, LIMIT, later), None);
        steps.arrive(0, (1, 3), step("all_reduce", 7), now).unwrap();
        let told = steps.missing(&left, LIMIT, now).unwrap();
        assert_eq!(
            told,
            "rank 2 of 4 has dropped its communicator before collective 3, `all_reduce`"
        );
        steps.quit(0, 1);
        steps.quit(3, 1);
        assert_eq!(steps.missing(&left, LIMIT, later), None);
    }

    #[test]
    fn messages_match_in_their_order_and_lengths() {
        let now = Instant::now();
        let with = |sends: &[(u32, u64)], receives: &[(u32, u64)]| Step {
            sends: sends.to_vec(),
            receives: receives.to_vec(),
            ..step("exchange", 0)
        };
        let run = |last: Step| {
            let mut steps = open(now);
            steps.arrive(0, (1, 0), with(&[(1, 5), (1, 6)], &[]), now).unwrap();
            steps.arrive(3, (1, 0), with(&[], &[]), now).unwrap();
            steps.arrive(2, (1, 0), last, now)
        };
        run(with(&[], &[(0, 5), (0, 6)])).unwrap();
        let told = run(with(&[], &[(0, 6), (0, 5)])).unwrap_err();
        assert!(
            told.contains(
                "rank 0 sends messages of [5, 6] elements to rank 2, which receives [6, 5]"
            ),
            "{told}"
        );
    }
}
