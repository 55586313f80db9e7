//! Tools that measure a machine and its memory: the measurements of `trijet doctor`, and traces of
//! allocations with their replay. The commands share what prints their results, and the benchmarks
//! share the rest.

pub mod allocations;
pub mod bare;
pub mod command;
pub mod doctor;
pub mod origin;
pub mod progress;
pub mod stats;
