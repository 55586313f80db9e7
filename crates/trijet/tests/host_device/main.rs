//! The host device: states that only a host device can have, the queues of its model, and the
//! behaviour that it has in common with a GPU.

mod conformance;
mod dependent;
#[path = "../cases/executor.rs"]
mod executor;
mod futures;
mod hardware_queues;
#[path = "../peers/mod.rs"]
mod peers;
mod states;
#[path = "../transcripts/mod.rs"]
mod transcripts;
mod twins;
