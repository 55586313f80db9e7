//! The verbs of the driver, as the host device performs them.
#![forbid(unsafe_code)]

mod actions;
mod calls;
pub(super) mod captured;
mod captures;
mod driver;
pub(super) mod graph;
mod graphs;
mod occupancy;
mod ranges;
