//! The graph of the run of a process, with the facts that fixes need.
#![forbid(unsafe_code)]

use super::edges::{EdgeKind, Moments, RunEdge};
use crate::trace::activity::{Activity, CopyDirection};
use std::collections::HashMap;
use std::ops::Range;

/// The time and the device of an operation of the graph, and its moments.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) device: u32,
    pub(super) time: Range<u64>,
    /// The moment of the start. The moment of the end has the next number.
    pub(super) begin: u32,
}

/// The graph of the run of one process.
#[derive(Debug)]
pub(in crate::profile) struct RunModel {
    pub(super) moments: Moments,
    /// The operations, sorted by start.
    pub(super) operations: Vec<Placed>,
    /// The part of a call in nanoseconds in which kernels or modules were loaded, by the moment of
    /// the end of the call and by the moments of the starts of its operations.
    pub(super) loading: HashMap<u32, u64>,
    /// The part of a collective in nanoseconds in which its rank waited for a later rank, by the
    /// moment of the end of the kernel.
    pub(super) waiting: HashMap<u32, u64>,
    /// The rates of copies from or to page-locked memory, for uploads and downloads.
    pub(super) rates: [Option<CopyRate>; 2],
}

/// The index of a direction in `RunModel::rates`.
fn of_link(direction: CopyDirection) -> Option<usize> {
    match direction {
        CopyDirection::Upload => Some(0),
        CopyDirection::Download => Some(1),
        _ => None,
    }
}

impl RunModel {
    /// Sets the part of the kernel with this start in which the rank waited for a later rank.
    pub(in crate::profile) fn set_waiting(&mut self, device: u32, begin: u64, wait: u64) {
        let from = self.operations.partition_point(|one| one.time.start < begin);
        let same = self.operations[from..].iter().take_while(|one| one.time.start == begin);
        if let Some(one) = { same }.find(|one| one.device == device) {
            self.waiting.insert(one.begin + 1, wait);
        }
    }

    /// The delay of an edge with its fix, if this depends on the operation or the call: without the
    /// loading of kernels, without the wait for a late rank, and for a staged copy, at the rate of
    /// page-locked memory.
    pub(super) fn cut(&self, moment: u32, edge: &RunEdge) -> Option<u64> {
        let without = |part: Option<&u64>| part.map(|part| edge.delay - (*part).min(edge.delay));
        match edge.kind {
            EdgeKind::StagedCopy { direction, bytes, .. } => {
                let rate = of_link(direction).and_then(|at| self.rates[at]);
                rate.map(|rate| rate.time_of(bytes).min(edge.delay))
            }
            EdgeKind::Call(_) | EdgeKind::Launch => without(self.loading.get(&moment)),
            EdgeKind::Run => without(self.waiting.get(&moment)),
            _ => None,
        }
    }

    /// The operations of a device inside `window`.
    pub(super) fn inside(&self, device: u32, window: &Range<u64>) -> Vec<&Placed> {
        let is_inside = |one: &&Placed| {
            one.device == device && one.time.start >= window.start && one.time.end <= window.end
        };
        self.operations.iter().filter(is_inside).collect()
    }
}

/// The time from the first start to the last end.
pub(super) fn length(times: impl Iterator<Item = [u64; 2]>) -> u64 {
    let hull = times.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
    hull.map_or(0, |[first, last]| last.saturating_sub(first))
}

/// The bytes and the nanoseconds of a copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyRate {
    bytes: u64,
    time: u64,
}

impl CopyRate {
    /// The fastest of the copies of at least 256 KiB.
    pub(super) fn fastest<'a>(copies: impl Iterator<Item = &'a Activity>) -> Option<Self> {
        Self::fastest_of(copies.map(|one| (one.bytes, one.end.0.saturating_sub(one.begin.0))))
    }

    /// The fastest of the copies of at least 256 KiB, by their bytes and nanoseconds.
    pub(super) fn fastest_of(copies: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        const BYTES_MIN: u64 = 256 << 10;
        let long = copies.filter(|(bytes, time)| *bytes >= BYTES_MIN && *time > 0);
        let rates = long.map(|(bytes, time)| Self { bytes, time });
        rates.min_by_key(|one| one.time_of(1 << 40))
    }

    /// The time in nanoseconds of a copy of this many bytes.
    pub(super) fn time_of(self, bytes: u64) -> u64 {
        let time = u128::from(bytes) * u128::from(self.time) / u128::from(self.bytes.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}
