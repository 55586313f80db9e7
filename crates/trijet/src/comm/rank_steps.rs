//! What rank 0 knows of the collectives of all ranks: whether they are the same ones in the same order, and which rank is late.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// A number of ranks in words: `ranks 2, 3 of 4`.
pub(super) fn named(ranks: &[usize], count: usize) -> String {
    let all: Vec<_> = ranks.iter().map(ToString::to_string).collect();
    let noun = if let [_] = ranks { "rank" } else { "ranks" };
    format!("{noun} {} of {count}", all.join(", "))
}

/// A collective as a rank calls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) what: String,
    pub(super) elements: u64,
    pub(super) element_bytes: u32,
    /// The place of the device that gives or gets all, if there is one.
    pub(super) root: Option<u32>,
    /// Messages to and from other places, with their elements. They differ between ranks.
    pub(super) sends: Vec<(u32, u64)>,
    pub(super) receives: Vec<(u32, u64)>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, elements, element_bytes, root, .. } = self;
        write!(f, "`{what}` of {elements} elements of {element_bytes} bytes")?;
        root.map_or(Ok(()), |root| write!(f, " with root {root}"))
    }
}

impl Step {
    /// Whether ranks can run these together, apart from messages.
    fn fits(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.what.clone(), one.elements, one.element_bytes, one.root);
        key(self) == key(other)
    }
}

/// The calls of one number, by place.
#[derive(Debug)]
struct Pending {
    steps: Vec<Option<Step>>,
    since: Instant,
}

/// A communicator.
#[derive(Debug)]
struct Channel {
    /// The rank of each place.
    ranks: Vec<usize>,
    pending: BTreeMap<u64, Pending>,
    /// The collectives that the device of each place has reached, and since when.
    reached: Vec<(u64, Instant)>,
    /// The places whose process has given the communicator up.
    has_quit: Vec<bool>,
}

/// The collectives of all communicators that not all ranks have called.
#[derive(Debug, Default)]
pub(super) struct Steps(BTreeMap<u64, Channel>);

impl Steps {
    /// A communicator of these ranks; each of them says so.
    pub(super) fn open(&mut self, channel: u64, ranks: Vec<usize>, now: Instant) {
        let (reached, has_quit) = (vec![(0, now); ranks.len()], vec![false; ranks.len()]);
        let pending = BTreeMap::new();
        self.0.entry(channel).or_insert(Channel { ranks, pending, reached, has_quit });
    }

    /// A rank has given a communicator up. When all have, it is forgotten.
    pub(super) fn quit(&mut self, rank: usize, number: u64) {
        let Some(channel) = self.0.get_mut(&number) else { return };
        if let Some(place) = channel.ranks.iter().position(|one| *one == rank) {
            channel.has_quit[place] = true;
        }
        if !channel.has_quit.contains(&false) {
            self.0.remove(&number);
        }
    }

    /// Whether some but not all ranks have given a communicator up.
    pub(super) fn has_quitters(&self) -> bool {
        self.0.values().any(|channel| channel.has_quit.contains(&true))
    }

    /// # Errors
    /// What differs from the call of another rank.
    pub(super) fn arrive(
        &mut self,
        rank: usize,
        (channel, number): (u64, u64),
        step: Step,
        now: Instant,
    ) -> Result<(), String> {
        let Some(channel) = self.0.get_mut(&channel) else { return Ok(()) };
        let Some(place) = channel.ranks.iter().position(|one| *one == rank) else { return Ok(()) };
        let pending = channel
            .pending
            .entry(number)
            .or_insert_with(|| Pending { steps: vec![None; channel.ranks.len()], since: now });
        let first =
            pending.steps.iter().enumerate().find_map(|(at, one)| Some((at, one.as_ref()?)));
        if let Some((at, first)) = first
            && !first.fits(&step)
        {
            let other = channel.ranks[at];
            return Err(format!(
                "collective {number} is {step} on rank {rank}, and {first} on rank {other}"
            ));
        }
        pending.steps[place] = Some(step);
        if pending.steps.iter().any(Option::is_none) {
            return Ok(());
        }
        let all: Vec<Step> = pending.steps.drain(..).flatten().collect();
        channel.pending.remove(&number);
        mismatch(&all, &channel.ranks)
            .map_or(Ok(()), |cause| Err(format!("collective {number}, `{}`: {cause}", all[0].what)))
    }

    /// The device of a rank has reached this collective.
    pub(super) fn reach(&mut self, rank: usize, channel: u64, number: u64, now: Instant) {
        let Some(channel) = self.0.get_mut(&channel) else { return };
        let Some(place) = channel.ranks.iter().position(|one| *one == rank) else { return };
        if channel.reached[place].0 != number {
            channel.reached[place] = (number, now);
        }
    }

    /// The ranks that have left or not come to a collective within the timeout, or whose device has not.
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
                let of = |place: &usize| pending.steps[*place].is_none();
                let places = (0..channel.ranks.len()).filter(of);
                let ranks: Vec<usize> = places.map(|place| channel.ranks[place]).collect();
                let what = pending.steps.iter().flatten().next().map_or("", |step| &step.what);
                let gone: Vec<usize> = ranks.iter().copied().filter(|one| has_left[*one]).collect();
                if !gone.is_empty() {
                    let gone = named(&gone, count);
                    return Some(format!("{gone} has left before collective {number}, `{what}`"));
                }
                let has_quit = |place: &usize| of(place) && channel.has_quit[*place];
                let places = (0..channel.ranks.len()).filter(has_quit);
                let quit: Vec<usize> = places.map(|place| channel.ranks[place]).collect();
                if !quit.is_empty() {
                    let quit = named(&quit, count);
                    return Some(format!(
                        "{quit} has dropped its communicator before collective {number}, `{what}`"
                    ));
                }
                if is_over(pending.since) {
                    let late = named(&ranks, count);
                    return Some(format!(
                        "{late} did not call collective {number}, `{what}`, within {timeout:?}"
                    ));
                }
            }
            // What a rank that has given the communicator up came to last is not known.
            let last = channel.reached.iter().map(|one| one.0).max().unwrap_or(0);
            let began = channel.reached.iter().filter(|one| one.0 == last).map(|one| one.1).min();
            let is_behind =
                |place: &usize| channel.reached[*place].0 < last && !channel.has_quit[*place];
            let behind: Vec<usize> = (0..channel.ranks.len())
                .filter(|place| is_behind(place) && is_over(channel.reached[*place].1))
                .map(|place| channel.ranks[place])
                .collect();
            if !behind.is_empty() && began.is_some_and(is_over) {
                let late = named(&behind, count);
                return Some(format!(
                    "the device of {late} has not come to collective {} within {timeout:?}; others wait for it there",
                    last - 1
                ));
            }
        }
        None
    }
}

/// A message that no receive matches, or one of another length.
fn mismatch(all: &[Step], ranks: &[usize]) -> Option<String> {
    let of = |list: &[(u32, u64)], place: usize| -> Vec<u64> {
        let is_his = |one: &&(u32, u64)| usize::try_from(one.0) == Ok(place);
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
            what: what.into(),
            elements,
            element_bytes: 4,
            root: None,
            sends: vec![],
            receives: vec![],
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
        let expected = "collective 5 is `all_reduce` of 101 elements of 4 bytes on rank 3, and `all_reduce` of 100 elements of 4 bytes on rank 2";
        assert_eq!(told, expected);
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
            told.starts_with("the device of rank 2 of 4 has not come to collective 2"),
            "{told}"
        );
        // It has come to something else meanwhile.
        steps.reach(2, 1, 2, later);
        assert_eq!(steps.missing(&left, LIMIT, later), None);
    }

    /// A rank may give a communicator up without being late, but not before a collective that others call.
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
