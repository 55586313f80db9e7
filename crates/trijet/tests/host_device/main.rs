//! The host device: states that only it can have, the queues of its model, and what it shares with
//! a GPU.

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
