//! Tools that measure a machine and its memory: the measurements of `trijet doctor`, and traces of
//! allocations with their replay. The commands and the benchmarks share their parts.

pub mod allocations;
pub mod bare;
pub mod doctor;
pub mod origin;
pub mod progress;
pub mod stats;
