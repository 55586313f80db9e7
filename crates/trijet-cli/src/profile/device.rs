//! The profile of one device: its engines, its idle time, its findings and its longest kernels.
#![forbid(unsafe_code)]

use super::activities::{bytes, is_kernel, times};
use super::calls::Calls;
use super::findings::{self, Finding};
use super::idle::Idle;
use super::names::readable;
use super::operations::{Operations, goes};
use std::collections::{BTreeSet, HashMap};
use trijet::trace::activity::{Activity, ActivityKind, Direction, NameId, Recording};
use trijet::{Bytes, Nanos};

/// Kernels that are listed.
const KERNELS: usize = 10;

/// How long an engine was busy.
#[derive(Debug)]
pub struct EngineTime {
    /// Which one, in words.
    pub name: &'static str,
    /// The union of its operations' times.
    pub busy: Nanos,
    /// How many operations it executed.
    pub operations: usize,
    /// How much it moved or set.
    pub bytes: Bytes,
}

/// How long a kernel took, all launches together.
#[derive(Debug)]
pub struct KernelTime {
    /// Its name, as a person would write it.
    pub name: String,
    /// The sum of its durations.
    pub total: Nanos,
    /// How often it ran.
    pub launches: usize,
}

/// What is to be said about one device.
#[derive(Debug)]
pub struct Device {
    /// Its number in the process.
    pub device: u32,
    /// From its first operation to the end of the last one.
    pub elapsed: Nanos,
    /// When each engine was busy, and when any was.
    pub engines: Vec<EngineTime>,
    /// When anything ran.
    pub busy: Nanos,
    /// When nothing ran, and what the host did then.
    pub idle: Idle,
    /// Streams with operations.
    pub streams: usize,
    /// What costs time, the dearest first.
    pub findings: Vec<Finding>,
    /// The kernels that took longest.
    pub kernels: Vec<KernelTime>,
}

impl Device {
    /// The profile of the device that `operations` shows.
    pub(super) fn of(operations: &Operations<'_>, recording: &Recording, calls: &Calls) -> Self {
        let streams: BTreeSet<_> =
            operations.all.iter().map(|one| (one.context, one.stream)).collect();
        let idle = Idle::of(&operations.idle, calls);
        Self {
            device: operations.device,
            elapsed: operations.elapsed(),
            engines: engines(operations),
            busy: Nanos(operations.elapsed().0 - idle.total.0),
            idle,
            streams: streams.len(),
            findings: findings::all(operations, recording, calls),
            kernels: longest(operations, recording),
        }
    }

    /// The engine that was busy longest: nothing can be faster than it, with the same work.
    #[must_use]
    pub fn limiting(&self) -> Option<&EngineTime> {
        self.engines.iter().max_by_key(|engine| engine.busy)
    }
}

fn engines(operations: &Operations<'_>) -> Vec<EngineTime> {
    let engine = |name, is_its: &dyn Fn(&Activity) -> bool| {
        let its = operations.all.iter().copied().filter(|one| is_its(one));
        let its: Vec<&Activity> = its.collect();
        EngineTime {
            name,
            busy: times(its.iter().copied()).length(),
            operations: its.len(),
            bytes: bytes(its.iter().copied()),
        }
    };
    let mut engines = vec![
        engine("kernels", &is_kernel),
        engine("upload", &|one| goes(one, Direction::Upload)),
        engine("download", &|one| goes(one, Direction::Download)),
        engine("peer copies", &|one| goes(one, Direction::Peer)),
        engine("copies within", &|one| {
            goes(one, Direction::Within) || goes(one, Direction::Unknown)
        }),
        engine("fills", &|one| one.kind == ActivityKind::Fill),
    ];
    engines.retain(|engine| engine.operations > 0);
    engines
}

fn longest(operations: &Operations<'_>, recording: &Recording) -> Vec<KernelTime> {
    let mut by_name: HashMap<Option<NameId>, (u64, usize, &Activity)> = HashMap::new();
    for &one in operations.all.iter().filter(|one| is_kernel(one)) {
        let entry = by_name.entry(one.name).or_insert((0, 0, one));
        entry.0 += one.end.0 - one.begin.0;
        entry.1 += 1;
    }
    let mut list: Vec<_> = by_name.into_values().collect();
    list.sort_by_key(|(total, _, one)| (std::cmp::Reverse(*total), one.name.map(|n| n.0)));
    list.truncate(KERNELS);
    let kernel = |(total, launches, one)| KernelTime {
        name: readable(recording.name(one)),
        total: Nanos(total),
        launches,
    };
    list.into_iter().map(kernel).collect()
}
