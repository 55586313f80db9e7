//! The table: each verb, how to call it, and the row of its answers.

mod comm;
mod device;
mod graph;
mod memory;
mod pipeline;
mod stream;
mod task;
pub(crate) mod verb;
mod workers;

use verb::Verb;

/// The parts of the table.
const PARTS: [&[Verb]; 8] = [
    device::VERBS,
    stream::VERBS,
    memory::VERBS,
    graph::VERBS,
    pipeline::VERBS,
    task::VERBS,
    workers::VERBS,
    comm::VERBS,
];

/// The table.
pub(crate) fn all() -> Vec<&'static Verb> {
    PARTS.into_iter().flatten().collect()
}
