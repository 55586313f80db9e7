//! Queues of operations, the edges between them, and the work of each operation, for all executors.
#![forbid(unsafe_code)]

pub(super) mod activity;
pub(super) mod events;
pub(super) mod exec;
pub(super) mod ids;
pub(super) mod node;
pub(super) mod queues;
pub(super) mod refuse;
pub(super) mod sharing;
pub(super) mod slot;
mod snapshot;
mod streams;
pub(super) mod table;
pub(super) mod touches;
pub(super) mod trail;
pub(super) mod work;
