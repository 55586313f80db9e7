//! The ranks of a program: the exposed communication, and the ranks for which other ranks waited.
#![forbid(unsafe_code)]

use super::activities::Cover;
use super::collectives::{Communicated, Communication, sort};
use super::device::DeviceProfile;
use super::findings::Habit;
use super::matching::{RankCommunicator, communicators};
use super::process::ProcessProfile;
use super::waits::{Arrival, ExposedParts, Split};
use crate::base::lint::Rule;
use crate::base::units::Nanos;
use crate::trace::Union;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of ranks that a finding names.
const NAMED_MAX: usize = 3;

/// Ranks that communicate with each other.
#[derive(Debug)]
pub struct RankJob {
    /// The ranks, sorted by their numbers if the numbers are known.
    pub ranks: Vec<Rank>,
    /// The number of communicators whose collectives were matched.
    pub communicators: usize,
    /// The number of matched collectives.
    pub collectives: usize,
    /// The number of these collectives in which a rank waited.
    pub late: usize,
    /// The number of kernels that communicate, on all ranks.
    pub kernels: usize,
    /// The number of these kernels that belong to no matched collective.
    pub unmatched: usize,
    /// The kernels by name, on all ranks, the most exposed first.
    pub by_name: Vec<Communicated>,
}

/// One rank: a device of a process.
#[derive(Debug)]
pub struct Rank {
    /// The name, such as `rank 0`, or `process 17, GPU 0` if the number is unknown.
    pub name: String,
    /// The number of the rank. `None` unless every process of the job has a different number.
    pub number: Option<u32>,
    /// The number of the process.
    pub process: u32,
    /// The number of the device in the process.
    pub device: u32,
    /// The time in which a kernel communicated.
    pub communication: Nanos,
    /// The part of `communication` in which no kernel computed. The next three fields sum to this
    /// part.
    pub exposed: Nanos,
    /// The part of `exposed` in which all running communication kernels waited for a later rank.
    pub waiting: Nanos,
    /// The part of `exposed` in which a collective had started on all ranks.
    pub transfer: Nanos,
    /// The part of `exposed` that is neither in `waiting` nor in `transfer`. Its cause is unknown.
    pub unknown: Nanos,
    /// The number of collectives in which this rank alone was the last to start.
    pub last: usize,
    /// The total lateness of this rank in the collectives that `last` counts. The lateness in a
    /// collective is the time from the last start of another rank to the start of this rank.
    pub late: Nanos,
    /// The total exposed time for which the other ranks waited for this rank alone.
    pub awaited: Nanos,
    /// The exposed waits of this rank for one other rank alone, added up for each other rank. The
    /// longest time is first.
    pub waited: Vec<AwaitedRank>,
    /// The exposed time for which this rank waited for several other ranks at the same time.
    pub several: Nanos,
}

/// The waits of a rank for one other rank alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwaitedRank {
    /// The index of the other rank in the job.
    pub rank: usize,
    /// The number of collectives in which the rank had an exposed wait for the other rank alone.
    pub collectives: usize,
    /// The exposed time of these waits.
    pub time: Nanos,
}

/// The position of a device in the profile of a program: the index of its process, and the index of
/// the device in that process.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceIndex {
    pub(super) process: usize,
    pub(super) device: usize,
}

/// A device that communicates.
#[derive(Clone, Copy)]
struct CommunicatingDevice<'a> {
    place: DeviceIndex,
    process: &'a ProcessProfile,
    device: &'a DeviceProfile,
}

impl CommunicatingDevice<'_> {
    fn communication(&self) -> &Communication {
        &self.device.communication
    }
}

/// The result of the comparison of the ranks for one device.
pub(super) struct LateRanks {
    pub(super) place: DeviceIndex,
    /// The finding, if the device waited for a late rank.
    pub(super) finding: Option<Habit>,
    /// The times in nanoseconds in which a kernel waited for a later rank. Each begins with the
    /// kernel.
    pub(super) waits: Vec<Range<u64>>,
}

/// The jobs of a program, and the waits of each device for late ranks.
pub(super) fn jobs(processes: &[ProcessProfile]) -> (Vec<RankJob>, Vec<LateRanks>) {
    let mut workers = Vec::new();
    for (at, process) in processes.iter().enumerate() {
        for (number, device) in process.devices.iter().enumerate() {
            if device.communication.count > 0 {
                let place = DeviceIndex { process: at, device: number };
                workers.push(CommunicatingDevice { place, process, device });
            }
        }
    }
    let all: Vec<&Communication> = workers.iter().map(|w| &w.device.communication).collect();
    let communicators = communicators(&all);
    let (mut jobs, mut findings) = (Vec::new(), Vec::new());
    for group in connected(workers.len(), &communicators) {
        let group: BTreeSet<usize> = group.into_iter().collect();
        let is_its = |one: &&RankCommunicator| group.contains(&one.members[0].0);
        let its: Vec<&RankCommunicator> = communicators.iter().filter(is_its).collect();
        let numbered = are_numbered(&workers, &group);
        let mut order: Vec<usize> = group.into_iter().collect();
        order.sort_by_key(|&at| numbered.then(|| workers[at].process.rank));
        let (job, found) = job(&workers, &order, &its, numbered);
        jobs.push(job);
        findings.extend(found);
    }
    (jobs, findings)
}

/// The groups of devices that communicators connect.
fn connected(devices: usize, communicators: &[RankCommunicator]) -> Vec<Vec<usize>> {
    let mut group: Vec<usize> = (0..devices).collect();
    for one in communicators {
        let its: BTreeSet<usize> = one.members.iter().map(|(device, _)| group[*device]).collect();
        let first = its.first().copied().unwrap_or(0);
        group.iter_mut().filter(|of| its.contains(*of)).for_each(|of| *of = first);
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (device, of) in group.into_iter().enumerate() {
        groups.entry(of).or_default().push(device);
    }
    groups.into_values().filter(|group| group.len() > 1).collect()
}

/// Whether each process of a group has a rank, and all ranks differ.
fn are_numbered(workers: &[CommunicatingDevice<'_>], group: &BTreeSet<usize>) -> bool {
    let processes: BTreeMap<usize, Option<u32>> =
        group.iter().map(|&at| (workers[at].place.process, workers[at].process.rank)).collect();
    let numbers: BTreeSet<u32> = processes.values().copied().flatten().collect();
    numbers.len() == processes.len()
}

/// Collects the waits of all ranks of a job.
struct Waits {
    parts: Vec<ExposedParts>,
    /// For each rank, by its index: the times in nanoseconds of the matched kernels, by the index
    /// of the stream.
    matched: Vec<BTreeMap<usize, Vec<Range<u64>>>>,
    /// For each rank, by its index: the number of collectives in which this rank alone was the last
    /// to start, and the sum of its lateness in nanoseconds.
    last: Vec<(usize, u64)>,
    collectives: usize,
    late: usize,
}

impl Waits {
    fn of(order: &[usize], communicators: &[&RankCommunicator]) -> Self {
        let mut waits = Self {
            parts: order.iter().map(|_| ExposedParts::default()).collect(),
            matched: vec![BTreeMap::new(); order.len()],
            last: vec![(0, 0); order.len()],
            collectives: 0,
            late: 0,
        };
        let index: BTreeMap<usize, usize> = order.iter().copied().zip(0..).collect();
        for communicator in communicators {
            let ranks: Vec<usize> = communicator.members.iter().map(|(at, _)| index[at]).collect();
            for times in communicator.collectives() {
                waits.add(&ranks, &communicator.members, times);
            }
        }
        waits
    }

    /// Adds a collective. `ranks` has the indices of its ranks, `members` their devices and
    /// streams, and `times` the times of their kernels.
    fn add(&mut self, ranks: &[usize], members: &[(usize, usize)], times: &[Range<u64>]) {
        let arrival = Arrival::of(times);
        self.collectives += 1;
        self.late += usize::from(matches!(arrival, Arrival::Late { .. }));
        if let Arrival::Late { alone: Some((last, from)), begun } = arrival {
            let (count, late) = &mut self.last[ranks[last]];
            *count += 1;
            *late = late.saturating_add(begun - from);
        }
        for ((&rank, &(_, stream)), time) in ranks.iter().zip(members).zip(times) {
            self.parts[rank].add(time, &arrival, |late| ranks[late]);
            self.matched[rank].entry(stream).or_default().push(time.clone());
        }
    }

    /// The split of the exposed communication of each rank.
    fn splits(&mut self, workers: &[CommunicatingDevice<'_>], order: &[usize]) -> Vec<Split> {
        let ranks = self.parts.iter_mut().zip(&mut self.matched).zip(order);
        let split = ranks.map(|((parts, matched), &at)| {
            let communication = workers[at].communication();
            for (number, stream) in communication.streams.iter().enumerate() {
                let all = Union::of(stream.iter().map(|one| one.time.clone()));
                let known = matched.remove(&number).map_or_else(Union::default, Union::of);
                parts.add_unmatched(&all, &known);
            }
            parts.split(communication)
        });
        split.collect()
    }
}

/// The figures of a job, and its findings.
fn job(
    workers: &[CommunicatingDevice<'_>],
    order: &[usize],
    communicators: &[&RankCommunicator],
    numbered: bool,
) -> (RankJob, Vec<LateRanks>) {
    let mut waits = Waits::of(order, communicators);
    let splits = waits.splits(workers, order);
    let mut ranks: Vec<Rank> = Vec::new();
    for (&at, split) in order.iter().zip(&splits) {
        let rank = Rank::of(&workers[at], split, numbered);
        ranks.push(rank);
    }
    for (rank, (count, late)) in waits.last.iter().enumerate() {
        (ranks[rank].last, ranks[rank].late) = (*count, Nanos(*late));
    }
    let mut exposed = Vec::new();
    for (rank, (parts, split)) in waits.parts.iter().zip(&splits).enumerate() {
        let found = Exposed::of(parts, split);
        for one in &found.waited {
            ranks[one.rank].awaited.0 = ranks[one.rank].awaited.0.saturating_add(one.time.0);
        }
        ranks[rank].waited.clone_from(&found.waited);
        ranks[rank].several = found.several;
        exposed.push(found.collectives);
    }
    let findings = order.iter().zip(&splits).enumerate().map(|(rank, (&at, split))| LateRanks {
        place: workers[at].place,
        finding: finding(rank, &ranks, split, exposed[rank]),
        waits: waits.parts[rank].waits.iter().map(|wait| wait.time.clone()).collect(),
    });
    let findings = findings.collect();
    let kernels = order.iter().map(|&at| workers[at].communication().count).sum();
    let collectives = communicators.iter().map(|one| one.members.len() * one.collectives().count());
    let job = RankJob {
        communicators: communicators.len(),
        collectives: waits.collectives,
        late: waits.late,
        kernels,
        unmatched: kernels - collectives.sum::<usize>(),
        by_name: by_name(order.iter().map(|&at| workers[at].communication())),
        ranks,
    };
    (job, findings)
}

impl Rank {
    /// The rank of a device, without the figures that depend on other ranks.
    fn of(worker: &CommunicatingDevice<'_>, split: &Split, numbered: bool) -> Self {
        let (process, device) = (worker.process, worker.device);
        let number = process.rank.filter(|_| numbered);
        let sharing = process.devices.iter().filter(|one| one.communication.count > 0).count();
        let name = match number {
            Some(number) if sharing == 1 => format!("rank {number}"),
            Some(number) => format!("rank {number}, GPU {}", device.device),
            None => format!("process {}, GPU {}", process.process, device.device),
        };
        Self {
            name,
            number,
            process: process.process,
            device: device.device,
            communication: device.communication.ran.length(),
            exposed: device.communication.exposed.length(),
            waiting: split.waiting.length(),
            transfer: split.transfer.length(),
            unknown: split.unknown.length(),
            last: 0,
            late: Nanos(0),
            awaited: Nanos(0),
            waited: Vec::new(),
            several: Nanos(0),
        }
    }
}

/// The exposed waits of a rank.
struct Exposed {
    waited: Vec<AwaitedRank>,
    several: Nanos,
    /// The number of collectives in which the rank waited while its communication was exposed.
    collectives: usize,
}

impl Exposed {
    fn of(parts: &ExposedParts, split: &Split) -> Self {
        let cover = Cover::of(split.waiting.clone());
        let mut alone: BTreeMap<usize, AwaitedRank> = BTreeMap::new();
        let (mut several, mut collectives) = (0_u64, 0);
        for wait in &parts.waits {
            collectives += usize::from(cover.within(&wait.time) > 0);
            several = several.saturating_add(cover.within(&(wait.time.start..wait.alone_from)));
            let Some(rank) = wait.awaited else { continue };
            let time = cover.within(&(wait.alone_from..wait.time.end));
            if time > 0 {
                let entry = alone.entry(rank).or_insert(AwaitedRank {
                    rank,
                    collectives: 0,
                    time: Nanos(0),
                });
                entry.collectives += 1;
                entry.time.0 = entry.time.0.saturating_add(time);
            }
        }
        let mut waited: Vec<AwaitedRank> = alone.into_values().collect();
        waited.sort_by_key(|one| (Reverse(one.time), one.rank));
        Self { waited, several: Nanos(several), collectives }
    }
}

/// The kernels of all ranks, added up by name.
fn by_name<'a>(ranks: impl Iterator<Item = &'a Communication>) -> Vec<Communicated> {
    let mut all: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for one in ranks.flat_map(|rank| &rank.by_name) {
        let (count, exposed) = all.entry(&one.name).or_default();
        *count += one.count;
        *exposed = exposed.saturating_add(one.exposed.0);
    }
    let named = all.into_iter().map(|(name, (count, exposed))| Communicated {
        name: name.to_owned(),
        count,
        exposed: Nanos(exposed),
    });
    let mut list: Vec<Communicated> = named.collect();
    sort(&mut list);
    list
}

/// The finding about a rank that waited for other ranks.
fn finding(rank: usize, ranks: &[Rank], split: &Split, collectives: usize) -> Option<Habit> {
    let one = &ranks[rank];
    let mut reasons: Vec<String> = Vec::new();
    for waited in one.waited.iter().take(NAMED_MAX) {
        let AwaitedRank { rank, collectives, time } = waited;
        reasons.push(format!("{time} for {} in {collectives} of them", ranks[*rank].name));
    }
    if let Some(others @ [_, ..]) = one.waited.get(NAMED_MAX..) {
        let time = others.iter().fold(0_u64, |sum, waited| sum.saturating_add(waited.time.0));
        reasons.push(format!("{} for {} other ranks", Nanos(time), others.len()));
    }
    if one.several.0 > 0 {
        reasons.push(format!("{} for several ranks at once", one.several));
    }
    let seen = format!(
        "{} waited {}; the transfers took {} more while no other kernel ran",
        one.name,
        reasons.join(", "),
        one.transfer
    );
    let found = Habit::new(Rule::LateRank, collectives, &split.waiting, seen);
    (found.cost.0 > 0).then_some(found)
}
