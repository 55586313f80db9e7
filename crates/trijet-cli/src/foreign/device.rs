//! What one device did.
#![forbid(unsafe_code)]

use super::calls::Calls;
use super::names::readable;
use super::{Device, Idle, findings, is_timed};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use trijet::base::span::Union;
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

/// The operations of a device, and when they ran.
pub(super) struct View<'a> {
    pub(super) device: u32,
    /// Those with times.
    pub(super) operations: Vec<&'a Activity>,
    pub(super) window: Range<u64>,
    /// When kernels ran.
    pub(super) kernels: Union,
    /// When nothing ran, within the window.
    pub(super) idle: Union,
}

impl<'a> View<'a> {
    /// The view of a device; `None` when nothing with times ran on it.
    pub(super) fn of(operations: &[&'a Activity], device: u32) -> Option<Self> {
        let mine = operations.iter().filter(|one| one.device == device && is_timed(one));
        let operations: Vec<&Activity> = mine.copied().collect();
        let busy = times(operations.iter().copied());
        let window = busy.hull()?;
        let idle = Union::of([window.clone()]).minus(&busy);
        let kernels = times(operations.iter().copied().filter(|one| is_kernel(one)));
        Some(Self { device, operations, window, kernels, idle })
    }

    pub(super) fn elapsed(&self) -> Nanos {
        Nanos(self.window.end - self.window.start)
    }

    pub(super) fn summary(&self, recording: &Recording, calls: &Calls) -> Device {
        let streams: BTreeSet<_> =
            self.operations.iter().map(|one| (one.context, one.stream)).collect();
        let idle = Idle::of(&self.idle, calls);
        Device {
            device: self.device,
            elapsed: self.elapsed(),
            engines: self.engines(),
            busy: Nanos(self.elapsed().0 - idle.total.0),
            idle,
            streams: streams.len(),
            findings: findings::all(self, recording, calls),
            kernels: self.longest(recording),
        }
    }

    /// The operations that copy this way.
    pub(super) fn copies(&self, way: Direction) -> impl Iterator<Item = &'a Activity> {
        self.operations.iter().copied().filter(move |one| goes(one, way))
    }

    fn engines(&self) -> Vec<EngineTime> {
        let engine = |name, is_its: &dyn Fn(&Activity) -> bool| {
            let its = self.operations.iter().copied().filter(|one| is_its(one));
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

    fn longest(&self, recording: &Recording) -> Vec<KernelTime> {
        let mut by_name: HashMap<Option<NameId>, (u64, usize, &Activity)> = HashMap::new();
        for &one in self.operations.iter().filter(|one| is_kernel(one)) {
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
}

pub(super) fn is_kernel(one: &Activity) -> bool {
    one.kind == ActivityKind::Kernel
}

fn goes(one: &Activity, way: Direction) -> bool {
    matches!(one.kind, ActivityKind::Copy { direction, .. } if direction == way)
}

/// When any of these went on.
pub(super) fn times<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Union {
    Union::of(list.into_iter().map(|one| one.begin.0..one.end.0))
}

/// How much they moved.
pub(super) fn bytes<'a>(list: impl IntoIterator<Item = &'a Activity>) -> Bytes {
    // Counts out of a file may be absurd.
    Bytes(list.into_iter().fold(0, |sum, one| sum.saturating_add(one.bytes)))
}
