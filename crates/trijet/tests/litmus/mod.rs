//! Litmus programs. Each program shows one outcome where the laws leave a choice (rows marked MAY),
//! and returns the name of this outcome. The outcomes of a real GPU are stored with the tests. Each
//! of them must be possible on the host device.

mod programs;

use std::collections::BTreeMap;
use trijet::explore::{Strategy, explore};
use trijet::sim::{CostModel, HostConfig};
use trijet::{Device, Nanos, Result};

/// One program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Litmus {
    pub(crate) name: &'static str,
    /// The number of runs on a GPU.
    pub(crate) runs: u64,
    /// The number of orders that are drawn on the host device.
    seeds: u64,
    /// Maximum number of runs of the exhaustive search.
    searched: u64,
    pub(crate) program: fn(&Device) -> Result<&'static str>,
}

impl Litmus {
    const fn new(name: &'static str, program: fn(&Device) -> Result<&'static str>) -> Self {
        Self { name, runs: 10_000, seeds: 1_000, searched: 300, program }
    }
}

use programs as p;

/// Each run needs a device that has not loaded the kernel.
pub(crate) const FIRST_USE: &str = "first-use-of-a-kernel";

pub(crate) const ALL: &[Litmus] = &[
    Litmus::new("streams-without-an-edge", p::streams_without_an_edge),
    Litmus::new("bare-record-on-the-legacy-stream", p::bare_record_on_the_legacy_stream),
    Litmus::new("pageable-upload", p::pageable_upload),
    Litmus::new("pageable-download", p::pageable_download),
    Litmus::new("sync-pageable-upload", p::sync_pageable_upload),
    Litmus::new("sync-copy-within-the-device", p::sync_copy_within_the_device),
    Litmus::new("sync-fill", p::sync_fill),
    Litmus::new("order-inside-a-batch", p::order_inside_a_batch),
    Litmus::new("batch-of-any-order", p::batch_of_any_order),
    Litmus::new("finished-free-of-another-stream", p::finished_free_of_another_stream),
    Litmus {
        runs: 300,
        seeds: 40,
        searched: 10,
        ..Litmus::new("trim-of-an-unseen-free", p::trim_of_an_unseen_free)
    },
    Litmus::new("host-functions-of-two-streams", p::host_functions_of_two_streams),
    Litmus {
        runs: 20,
        seeds: 20,
        searched: 0,
        ..Litmus::new("many-operations-behind-a-busy-stream", p::many_operations)
    },
    Litmus { runs: 300, ..Litmus::new(FIRST_USE, p::first_use_of_a_kernel) },
];

/// The outcomes of a program by name, each with its count.
pub(crate) type Seen = BTreeMap<&'static str, u64>;

/// The outcomes of a program on the host device, in drawn orders and in a search.
pub(crate) fn possible(litmus: &Litmus) -> Seen {
    // A host function takes long enough to hold back a stream during all calls of a program.
    let cost = CostModel { host_fn: Nanos(20_000_000), ..CostModel::default() };
    // The programs about pools allocate from one.
    let config = HostConfig::new().cost(cost).without_ranges();
    let run =
        |devices: &[Device]| (litmus.program)(&devices[0]).expect("a litmus program sees no error");
    let mut seen = Seen::new();
    let drawn = Strategy::Seeded { runs: litmus.seeds, seed: 0 };
    let searched = Strategy::Exhaustive { runs_max: litmus.searched };
    for strategy in [drawn, searched] {
        let found = explore(&config, strategy, run).expect("the machine starts a few threads");
        for outcome in found.outcomes {
            *seen.entry(outcome.value).or_default() += outcome.runs;
        }
    }
    seen
}

/// Fails if a GPU had an outcome that the host device cannot have.
pub(crate) fn demand_among<'a>(
    litmus: &Litmus,
    on_gpu: impl Iterator<Item = &'a str>,
    possible: &Seen,
) {
    for outcome in on_gpu {
        let name = litmus.name;
        assert!(
            possible.contains_key(outcome),
            "{name}: `{outcome}` on a GPU, {possible:?} on the host"
        );
    }
}
