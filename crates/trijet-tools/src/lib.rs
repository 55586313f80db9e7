//! Tools that measure a machine and its memory: the measurements of `trijet doctor`, and traces of
//! allocations with their replay. The module `command` has the code with which the commands print
//! their results. The benchmarks use the other modules as well.

pub mod allocations;
pub mod bare;
pub mod command;
pub mod doctor;
pub mod origin;
pub mod progress;
pub mod stats;
pub mod work;
