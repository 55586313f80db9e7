//! Common mistakes. For each mistake, a pair of programs take turns: one with the mistake, and one
//! without. The figures are the factor between their times, and the remark or finding that only the
//! bad program gets.
//!
//! After every run of a good program, its result is compared with the result that the host
//! computes. The results of a bad program are compared as well if its mistake only costs time. A
//! bad program with a race may compute the right result, so its wrong results are counted. The
//! factor of a pair with a race is the price of the correction. Times come from runs without a
//! trace. Remarks and findings come from one more run of each program, with a trace. On a host
//! device the programs run in the virtual executor, and the times come from its model.
#![forbid(unsafe_code)]

mod concurrent;
mod edited;
mod pair;
#[cfg(test)]
mod tests;

use crate::results::Results;
use crate::setting::pooled;
use serde::Deserialize;
use std::slice;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Device, Result};
use trijet_lessons::{Flag, Ground, Lesson, Size, named};
use trijet_tools::progress::Steps;

/// The lessons that show a mistake, each with the name of its pair in the results.
const PAIRS: [(&str, &str); 18] = [
    ("one-stream", "everything in one stream"),
    ("wait-after-each", "a wait for the device after each chunk"),
    ("waits-in-turn", "a wait for each stream in turn"),
    ("item", "a value fetched at once for each chunk"),
    ("stray-kernel", "a stray kernel in the legacy stream"),
    ("pageable", "pageable memory"),
    ("too-many-streams", "a stream for each kernel"),
    ("pool-keeps-nothing", "a pool that keeps nothing"),
    ("allocate-each", "cuMemAlloc and cuMemFree for each chunk"),
    ("small-copies", "small copies instead of one"),
    ("batched-copies", "small copies instead of batches"),
    ("stages-without-events", "stages without events between them"),
    ("slot-used-again", "a slot used again without a way back"),
    ("overtaken-copy", "a batch that overtakes a copy"),
    ("fetched-too-early", "a value fetched too early on the default stream"),
    ("one-event-for-two", "one event for two readers"),
    ("download-into-flight", "a download into memory in flight"),
    ("landing-read-early", "a landing read before it has landed"),
];

/// The lessons of [`PAIRS`], each with its name in the results.
fn pairs() -> impl Iterator<Item = (Lesson, &'static str)> {
    PAIRS.into_iter().filter_map(|(lesson, pair)| named(lesson).map(|lesson| (lesson, pair)))
}

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
    let ground = Ground::new(slice::from_ref(device), size)?;
    let mut results = Results::of_device(device);
    let (mut failed, mut count) = (Vec::new(), 0);
    for (lesson, name) in pairs() {
        steps.begin(name);
        if let (Some(lacks), Flag::None(_), true) =
            (lesson.unmodelled, lesson.flag, ground.is_modelled())
        {
            results.note(name, format!("not run: {lacks}"));
            continue;
        }
        let outcome = lesson.measure(&ground).map_err(|error| error.context(name))?;
        count += 1;
        if !outcome.is_as_expected() {
            failed.push(name);
        }
        pair::add(&outcome, name, &mut results);
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
