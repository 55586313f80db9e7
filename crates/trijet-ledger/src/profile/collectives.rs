//! The kernels of a device that communicate. Some of these kernels can be compared between ranks.
#![forbid(unsafe_code)]

use super::activities::{Cover, times};
use super::engine::ProgramEngine;
use super::names::readable;
use super::operations::Operations;
use crate::base::units::Nanos;
use crate::trace::Union;
use crate::trace::activity::{Activity, NameId, ProcessTrace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The prefixes of the names of NCCL's kernels. Kernels of symmetric memory are not included,
/// because they may start before the previous kernel has ended.
const NCCL: [&str; 2] = ["ncclDevKernel_", "ncclKernel_"];
/// The collectives in which each rank needs data of every other rank. So no rank's kernel ends
/// before the kernels of all ranks have started. In other collectives, such as a broadcast, a rank
/// may end early.
const NEED_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// The kernels with one name.
#[derive(Debug, Clone)]
pub struct Communicated {
    /// The name of the kernels, without parameters.
    pub name: String,
    /// The number of kernels with this name.
    pub count: usize,
    /// The part of the time of these kernels in which no other kernel ran on their device.
    pub exposed: Nanos,
}

/// A kernel of a collective that needs all ranks.
#[derive(Debug, Clone)]
pub(super) struct CollectiveKernel {
    pub(super) time: Range<u64>,
    /// The index of the kernel's name in `Communication::names`.
    name: usize,
}

/// The communication of one device.
#[derive(Debug, Default)]
pub(super) struct Communication {
    /// The number of kernels that communicate.
    pub(super) count: usize,
    /// The time in which at least one of these kernels ran.
    pub(super) ran: Union,
    /// The part of `ran` in which no kernel computed.
    pub(super) exposed: Union,
    /// The kernels by name, the most exposed first.
    pub(super) by_name: Vec<Communicated>,
    /// For each stream, the collectives that need all ranks, sorted by start.
    pub(super) streams: Vec<Vec<CollectiveKernel>>,
    /// The time of all kernels that are not in `streams`.
    pub(super) others: Union,
    /// The names of the collectives in `streams`, by the value of `CollectiveKernel::name`.
    names: Vec<String>,
}

impl Communication {
    pub(super) fn of(operations: &Operations<'_>, trace: &ProcessTrace) -> Self {
        let all: Vec<&Activity> = operations.on(ProgramEngine::Communication).collect();
        let ran = operations.ran(all.iter().copied());
        let exposed = ran.minus(&operations.kernels);
        let mut found = Self { count: all.len(), ran, exposed, ..Self::default() };
        let mut numbers: HashMap<Option<NameId>, usize> = HashMap::new();
        let mut by_text: HashMap<String, usize> = HashMap::new();
        let mut with_name: Vec<Vec<&Activity>> = Vec::new();
        for &one in &all {
            let number = *numbers.entry(one.name).or_insert_with(|| {
                let next = by_text.len();
                *by_text.entry(short(trace.name(one))).or_insert(next)
            });
            with_name.resize(by_text.len(), Vec::new());
            with_name[number].push(one);
        }
        found.names = vec![String::new(); by_text.len()];
        by_text.into_iter().for_each(|(name, number)| found.names[number] = name);
        let exposed = Cover::of(found.exposed.clone());
        let by_name = found.names.iter().zip(with_name).map(|(name, its)| Communicated {
            name: name.clone(),
            count: its.len(),
            exposed: Nanos(exposed.within_all(&times(its))),
        });
        found.by_name = by_name.collect();
        sort(&mut found.by_name);
        found.add_streams(&all, &numbers);
        found
    }

    fn add_streams(&mut self, all: &[&Activity], numbers: &HashMap<Option<NameId>, usize>) {
        let comparable: Vec<bool> = self.names.iter().map(|name| needs_all(name)).collect();
        let mut streams: BTreeMap<(u32, u32), Vec<CollectiveKernel>> = BTreeMap::new();
        let mut others: Vec<Range<u64>> = Vec::new();
        for one in all {
            let (time, name) = (one.begin.0..one.end.0, numbers[&one.name]);
            if comparable[name] && !time.is_empty() {
                let stream = streams.entry((one.context, one.stream)).or_default();
                stream.push(CollectiveKernel { time, name });
            } else {
                others.push(time);
            }
        }
        for mut stream in streams.into_values() {
            stream.sort_by_key(|one| (one.time.start, one.time.end));
            // The kernels of one communicator do not overlap.
            if stream.windows(2).all(|pair| pair[0].time.end <= pair[1].time.start) {
                self.streams.push(stream);
            } else {
                others.extend(stream.into_iter().map(|one| one.time));
            }
        }
        self.others = Union::of(others);
    }

    /// The communication of a device with one stream. `list` has the name and the time in
    /// nanoseconds of each collective.
    #[cfg(test)]
    pub(super) fn of_stream(list: &[(&str, Range<u64>)]) -> Self {
        let collective = |(name, (_, time)): (usize, &(&str, Range<u64>))| CollectiveKernel {
            time: time.clone(),
            name,
        };
        Self {
            streams: vec![list.iter().enumerate().map(collective).collect()],
            names: list.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..Self::default()
        }
    }

    /// The name of a collective of this device.
    pub(super) fn name(&self, one: &CollectiveKernel) -> &str {
        &self.names[one.name]
    }
}

/// Sorts by exposed time, the longest first.
pub(super) fn sort(list: &mut [Communicated]) {
    list.sort_by(|a, b| (Reverse(a.exposed), &a.name).cmp(&(Reverse(b.exposed), &b.name)));
}

/// The readable name without parameters, even if the name is not mangled.
fn short(name: &str) -> String {
    let name = readable(name);
    name.split_once('(').map_or(name.as_str(), |(name, _)| name).to_owned()
}

/// Whether a kernel with this name ends on a rank only after it has started on all ranks.
fn needs_all(name: &str) -> bool {
    let collective = NCCL.iter().find_map(|prefix| name.strip_prefix(prefix));
    let collective = collective.and_then(|rest| rest.split('_').next());
    collective.is_some_and(|word| NEED_ALL.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_collectives_that_need_all_ranks_are_compared() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "_Z39ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
            "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
            "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        ] {
            assert!(needs_all(&short(name)), "{name}");
        }
        for name in [
            "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclDevKernel_Reduce_Sum_f32_RING_LL",
            "ncclDevKernel_SendRecv",
            "ncclDevKernel_Generic",
            "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f32",
            "AllReduce",
            "",
        ] {
            assert!(!needs_all(&short(name)), "{name}");
        }
    }
}
