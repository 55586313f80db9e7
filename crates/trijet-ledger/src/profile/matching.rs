//! The collectives of a program, each with its kernel on every rank.
//!
//! A trace does not contain communicators, so they are found by time. In an all-reduce, an
//! all-gather and a reduce-scatter, each rank needs data of every other rank. So no rank ends
//! before all ranks have started, and all ranks end at nearly the same time. Two kernels are a pair
//! if their times fit this rule. Two streams of different devices belong to one communicator if
//! nearly all of their kernels form pairs. Only the time for which both streams have records
//! counts. If anything contradicts this result, nothing is matched.
#![forbid(unsafe_code)]

use super::collectives::{CollectiveKernel, Communication};
use std::ops::Range;

/// The assumed error between the clocks of two devices of one host, in nanoseconds.
pub(super) const CLOCKS_NS: u64 = 10_000;
/// Minimum number of collectives of a communicator.
const COLLECTIVES_MIN: usize = 4;
/// The maximum part of the kernels without a partner: one kernel in this many. A record may be
/// lost, or the ends of two kernels may be too far apart.
const MISSING_SHARE: usize = 20;
/// Maximum number of streams that are compared. The time of the comparison is quadratic in the
/// number of streams.
const STREAMS_MAX: usize = 256;

/// The first and the last start, and the first and the last end, of the kernels of a collective.
/// One kernel ran on each rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RankSpan {
    pub(super) first_begin: u64,
    pub(super) last_begin: u64,
    first_end: u64,
    last_end: u64,
}

impl RankSpan {
    /// The span of these kernels; `None` without a kernel.
    pub(super) fn of(times: &[Range<u64>]) -> Option<Self> {
        Some(Self {
            first_begin: times.iter().map(|time| time.start).min()?,
            last_begin: times.iter().map(|time| time.start).max()?,
            first_end: times.iter().map(|time| time.end).min()?,
            last_end: times.iter().map(|time| time.end).max()?,
        })
    }

    /// The time in nanoseconds from the last start to the last end.
    pub(super) fn transfer(&self) -> u64 {
        self.last_end - self.last_begin
    }

    /// The time in nanoseconds from the first start to the last start.
    pub(super) fn begins(&self) -> u64 {
        self.last_begin - self.first_begin
    }

    /// The time in nanoseconds from the first end to the last end.
    pub(super) fn ends(&self) -> u64 {
        self.last_end - self.first_end
    }

    /// Whether kernels with this span can be one collective: their ends differ by at most half of
    /// the transfer, plus the error of the clocks.
    fn is_one(&self) -> bool {
        self.ends() <= CLOCKS_NS.saturating_add(self.transfer() / 2)
    }
}

/// The collectives of one stream of a device.
#[derive(Clone, Copy)]
struct RankSequence<'a> {
    device: usize,
    stream: usize,
    communication: &'a Communication,
    list: &'a [CollectiveKernel],
}

/// A communicator: one stream of each of its devices, and the collectives that ran on all of these
/// streams.
#[derive(Debug)]
pub(super) struct RankCommunicator {
    /// For each device of the communicator: the index of the device, and the index of the stream in
    /// that device.
    pub(super) members: Vec<(usize, usize)>,
    times: Vec<Range<u64>>,
}

impl RankCommunicator {
    /// The times in nanoseconds of each collective on each rank, with the ranks in the order of
    /// `members`.
    pub(super) fn collectives(&self) -> impl Iterator<Item = &[Range<u64>]> {
        self.times.chunks_exact(self.members.len())
    }
}

/// The communicators of these devices.
pub(super) fn communicators(devices: &[&Communication]) -> Vec<RankCommunicator> {
    let mut streams = Vec::new();
    for (device, communication) in devices.iter().enumerate() {
        for (stream, list) in communication.streams.iter().enumerate() {
            if list.len() >= COLLECTIVES_MIN {
                streams.push(RankSequence { device, stream, communication, list });
            }
        }
    }
    if streams.len() > STREAMS_MAX {
        return Vec::new();
    }
    let count = streams.len();
    let mut agree = vec![vec![false; count]; count];
    for a in 0..count {
        for b in a + 1..count {
            if streams[a].device != streams[b].device && do_agree(&streams[a], &streams[b]) {
                (agree[a][b], agree[b][a]) = (true, true);
            }
        }
    }
    let groups = groups(&agree).into_iter();
    let groups = groups.map(|group| group.into_iter().map(|s| streams[s]).collect::<Vec<_>>());
    groups.filter_map(|members| collectives(&members)).collect()
}

/// The sets of at least two streams in which each stream agrees with every other stream of the set.
/// No stream of a set agrees with a stream outside the set.
fn groups(agree: &[Vec<bool>]) -> Vec<Vec<usize>> {
    let with = |stream: usize| -> Vec<usize> {
        (0..agree.len()).filter(|&other| other == stream || agree[stream][other]).collect()
    };
    let mut found = Vec::new();
    for stream in 0..agree.len() {
        let group = with(stream);
        let is_first = group.len() > 1 && group[0] == stream;
        if is_first && group.iter().all(|&other| with(other) == group) {
            found.push(group);
        }
    }
    found
}

/// For each kernel of `a`, by its index: the index of the kernel of `b` whose end is nearest to the
/// end of the kernel of `a`. `None` if two kernels of `b` are equally near.
fn nearest(a: &[CollectiveKernel], b: &[CollectiveKernel]) -> Vec<Option<usize>> {
    let mut after = 0;
    let nearest = a.iter().map(|one| {
        let end = one.time.end;
        while b.get(after).is_some_and(|other| other.time.end <= end) {
            after += 1;
        }
        let before = after.checked_sub(1).map(|at| (end - b[at].time.end, at));
        let next = b.get(after).map(|other| (other.time.end - end, after));
        match (before, next) {
            (Some(x), Some(y)) if x.0 == y.0 => None,
            (Some(x), Some(y)) => Some(x.min(y).1),
            (one, other) => one.or(other).map(|(_, at)| at),
        }
    });
    nearest.collect()
}

/// For each kernel of `a`, by its index: the index of the kernel of `b` that can be the same
/// collective. The two kernels have the same name, and each of them has the end that is nearest to
/// the end of the other.
fn partners(a: &RankSequence<'_>, b: &RankSequence<'_>) -> Vec<Option<usize>> {
    let back = nearest(b.list, a.list);
    let mut found = nearest(a.list, b.list);
    for (at, partner) in found.iter_mut().enumerate() {
        *partner = partner.filter(|&other| {
            let (one, two) = (&a.list[at], &b.list[other]);
            back[other] == Some(at)
                && a.communication.name(one) == b.communication.name(two)
                && RankSpan::of(&[one.time.clone(), two.time.clone()]).is_some_and(|s| s.is_one())
        });
    }
    found
}

/// Whether nearly all kernels of two streams are pairs, in the time for which both streams have
/// records.
fn do_agree(a: &RankSequence<'_>, b: &RankSequence<'_>) -> bool {
    let partners = partners(a, b);
    let mut has_partner = vec![false; b.list.len()];
    partners.iter().flatten().for_each(|&at| has_partner[at] = true);
    let pairs = partners.iter().flatten().count();
    let is_paired: Vec<bool> = partners.iter().map(Option::is_some).collect();
    pairs >= COLLECTIVES_MIN
        && misses_few(a.list, &is_paired, b.list)
        && misses_few(b.list, &has_partner, a.list)
}

/// Whether nearly all kernels of `list` within the time of `other` have a partner in `other`.
fn misses_few(list: &[CollectiveKernel], is_paired: &[bool], other: &[CollectiveKernel]) -> bool {
    let (Some(first), Some(last)) = (other.first(), other.last()) else { return false };
    let is_within = |one: &CollectiveKernel| {
        one.time.start >= first.time.start && one.time.end <= last.time.end
    };
    let within = list.iter().zip(is_paired).filter(|(one, _)| is_within(one));
    let missing = within.clone().filter(|(_, is_paired)| !**is_paired).count();
    missing <= within.count() / MISSING_SHARE
}

/// The collectives that ran on all of these streams; `None` if there are too few.
fn collectives(members: &[RankSequence<'_>]) -> Option<RankCommunicator> {
    let (first, others) = members.split_first()?;
    let partners: Vec<_> = others.iter().map(|other| partners(first, other)).collect();
    let mut times = Vec::new();
    for (at, one) in first.list.iter().enumerate() {
        let theirs = partners
            .iter()
            .zip(others)
            .map(|(partners, other)| partners[at].map(|partner| other.list[partner].time.clone()));
        let all: Option<Vec<_>> = std::iter::once(Some(one.time.clone())).chain(theirs).collect();
        let all = all.filter(|all| RankSpan::of(all).is_some_and(|span| span.is_one()));
        times.extend(all.into_iter().flatten());
    }
    let is_enough = times.len() >= COLLECTIVES_MIN * members.len();
    is_enough.then(|| RankCommunicator {
        members: members.iter().map(|member| (member.device, member.stream)).collect(),
        times,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Kernels = Vec<(&'static str, Range<u64>)>;

    /// Kernels of one stream: gaps, lengths and names.
    fn kernels() -> impl Strategy<Value = Kernels> {
        vec((0_u64..30, 1_u64..60, 0_usize..4), 0..12).prop_map(|drawn| {
            let mut at = 0;
            let kernel = |(gap, length, name): (u64, u64, usize)| {
                let begin = at + gap * 1000;
                at = begin + length * 1000;
                (["reduce", "reduce", "reduce", "gather"][name], begin..at)
            };
            drawn.into_iter().map(kernel).collect()
        })
    }

    /// Whether no other kernel of `list` has an end as near to `end` as the kernel `at`.
    fn is_nearest(list: &Kernels, at: usize, end: u64) -> bool {
        let others = list.iter().enumerate().filter(|(other, _)| *other != at);
        let distance = list[at].1.end.abs_diff(end);
        { others }.all(|(_, (_, time))| time.end.abs_diff(end) > distance)
    }

    proptest! {
        /// A pair is defined as in docs/tracing.md, and computed here without any order.
        #[test]
        fn partners_are_the_pairs_that_each_prefer_the_other(a in kernels(), b in kernels()) {
            let (one, two) = (Communication::of_stream(&a), Communication::of_stream(&b));
            let sequence = |device, communication| -> RankSequence<'_> {
                let communication: &Communication = communication;
                RankSequence { device, stream: 0, communication, list: &communication.streams[0] }
            };
            let found = partners(&sequence(0, &one), &sequence(1, &two));
            for (at, (name, time)) in a.iter().enumerate() {
                let is_pair = |other: &usize| {
                    let (other_name, theirs) = &b[*other];
                    let transfer = time.end.max(theirs.end) - time.start.max(theirs.start);
                    name == other_name
                        && is_nearest(&b, *other, time.end)
                        && is_nearest(&a, at, theirs.end)
                        && time.end.abs_diff(theirs.end) <= 10_000 + transfer / 2
                };
                prop_assert_eq!(found[at], (0..b.len()).find(is_pair), "kernel {}", at);
            }
        }
    }
}
