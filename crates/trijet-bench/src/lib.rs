//! Benchmarks of trijet.
//!
//! A definition gives the sizes and repeats of a benchmark. Each benchmark verifies its result,
//! warms up, runs the programs that it compares in turn, and prints the median and the spread of
//! every figure.

pub mod allreduce;
pub mod benchmarks;
mod beside;
pub mod chains;
mod changed;
pub mod check;
mod clusters;
pub mod command;
mod decode;
mod definition;
pub mod devices;
pub mod enqueue;
pub mod files;
pub mod gemm;
pub mod gradients;
pub mod growth;
pub mod latency;
pub mod layers;
mod manual;
mod mapping;
pub mod memory;
pub mod overlap;
mod peer;
pub mod pitfalls;
mod process;
mod repeated;
mod replayed;
pub mod results;
mod rounds;
mod setting;
pub mod simulate;
pub mod soak;
pub mod staging;
pub mod tasks;
pub mod training;
pub mod tuner;
mod turns;
pub mod workers;
mod workload;

pub use setting::Setting;
