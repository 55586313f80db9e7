//! Common mistakes. For each mistake, a pair of programs take turns: one with the mistake, and one
//! without. The figures are the factor between their times, and the remark or finding that only the
//! bad program gets.
//!
//! After every run of a good program, its result is compared with the result that the host
//! computes. The results of a bad program are compared as well if its mistake only costs time. A
//! bad program with a race may compute the right result, so its wrong results are counted. The
//! factor of such a pair is the price of the correction. Times come from runs without a trace.
//! Remarks and findings come from one more run of each program, with a trace. On a host device the
//! programs run in the virtual executor, and the times come from its model.
#![forbid(unsafe_code)]

mod chunks;
mod concurrent;
mod edited;
mod ground;
mod pair;
mod pieces;
mod races;
#[cfg(test)]
mod tests;

use crate::results::Results;
use crate::setting::pooled;
use ground::{Ground, Size};
use pair::{Flag, Pair};
use serde::Deserialize;
use trijet::check::lint::Rule;
use trijet::check::{Conflict, FindingClass};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Device, ErrorKind, Result};
use trijet_tools::progress::Steps;

const RAW: Flag = Flag::Finding(FindingClass::Race(Conflict::Raw));
const WAR: Flag = Flag::Finding(FindingClass::Race(Conflict::War));
const UNSEEN: Flag =
    Flag::None("the library does not trace the program's own driver calls; `trijet trace` does");

const fn remark(rule: Rule) -> Flag {
    Flag::Remark(rule)
}

const PAIRS: [Pair; 18] = [
    Pair {
        name: "everything in one stream",
        flag: remark(Rule::NoOverlap),
        make: chunks::in_one_stream,
    },
    Pair {
        name: "a wait for the device after each chunk",
        flag: remark(Rule::OverSync),
        make: chunks::synchronized,
    },
    Pair {
        name: "a wait for each stream in turn",
        flag: remark(Rule::OverSync),
        make: pieces::waits_in_turn,
    },
    Pair {
        name: "a value fetched at once for each chunk",
        flag: remark(Rule::SyncCopy),
        make: chunks::fetched_at_once,
    },
    Pair {
        name: "a stray kernel in the legacy stream",
        flag: remark(Rule::LegacyBarrier),
        make: chunks::strays,
    },
    Pair { name: "pageable memory", flag: remark(Rule::Pageable), make: chunks::pageable },
    Pair {
        name: "a stream for each kernel",
        flag: remark(Rule::TooManyStreams),
        make: pieces::many_streams,
    },
    Pair {
        name: "a pool that keeps nothing",
        flag: remark(Rule::PoolThrash),
        make: pieces::pool_keeps_nothing,
    },
    Pair {
        name: "cuMemAlloc and cuMemFree for each chunk",
        flag: UNSEEN,
        make: chunks::allocating,
    },
    Pair {
        name: "small copies instead of one",
        flag: remark(Rule::SmallCopy),
        make: pieces::packed,
    },
    Pair {
        name: "small copies instead of batches",
        flag: remark(Rule::SmallCopy),
        make: pieces::batched,
    },
    Pair {
        name: "stages without events between them",
        flag: RAW,
        make: races::stages_without_events,
    },
    Pair {
        name: "a slot used again without a way back",
        flag: WAR,
        make: races::slot_without_a_way_back,
    },
    Pair { name: "a batch that overtakes a copy", flag: WAR, make: races::overtaken_copy },
    Pair {
        name: "a value fetched too early on the default stream",
        flag: RAW,
        make: races::default_stream_too_early,
    },
    Pair { name: "one event for two readers", flag: WAR, make: races::one_event_for_two },
    Pair { name: "a download into memory in flight", flag: WAR, make: races::buffer_in_flight },
    Pair {
        name: "a landing read before it has landed",
        flag: RAW,
        make: races::landing_read_early,
    },
];

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    gpu: Size,
    model: Size,
}

/// Opens a host device with modelled times that allocates from a pool.
fn modelled() -> Result<Device> {
    let executor = Executor::Virtual(Order::Greedy);
    Ok(Device::host(HostConfig::new().executor(executor).without_ranges())?.remove(0))
}

/// Runs the benchmark on a GPU, or else on a modelled device. The device allocates from a pool of
/// the driver, because some of the mistakes concern such pools.
///
/// # Errors
/// `InvalidValue` for a wrong result of a program that should be right; every error of the device.
/// A wrong remark or finding is not an error, but a note in the results.
pub(crate) fn run(
    device: &Device,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let Definition { gpu, model } = *definition;
    if device.info().compute.0 > 0 {
        return with(&pooled(device)?, gpu, steps);
    }
    with(&modelled()?, model, steps)
}

fn with(device: &Device, size: Size, steps: &mut Steps<'_>) -> Result<Results> {
    steps.expect(PAIRS.len() as u64 + 2);
    let ground = Ground::new(device, size)?;
    let mut results = Results::of_device(device);
    let (mut failed, mut count) = (Vec::new(), 0);
    for pair in PAIRS {
        steps.begin(pair.name);
        match pair.measure(&ground) {
            Ok(outcome) => {
                count += 1;
                if !outcome.is_as_expected() {
                    failed.push(outcome.name);
                }
                outcome.add_to(&mut results);
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                results.note(pair.name, format!("not run: {error}"));
            }
            Err(error) => return Err(error.context(pair.name)),
        }
    }
    steps.begin("edited ledgers");
    for edited in edited::measure(&ground)? {
        count += 1;
        if !edited.is_as_expected() {
            failed.push("an edited ledger");
        }
        edited.notes().into_iter().for_each(|(what, note)| results.note(what, note));
    }
    steps.begin("verdicts on concurrency");
    let concurrent = concurrent::measure(&ground)?;
    let right = concurrent.iter().filter(|found| found.is_right()).count();
    let asked = concurrent.len();
    concurrent.into_iter().for_each(|found| found.add_to(&mut results));
    let not =
        if failed.is_empty() { String::new() } else { format!(", not in {}", failed.join(", ")) };
    let verified = format!(
        "the results of all runs that should be right; in {} of {count} pairs only the bad program \
         is flagged{not}; {right} of {asked} verdicts on concurrency are right",
        count - failed.len()
    );
    results.note("verified", verified);
    Ok(results)
}
