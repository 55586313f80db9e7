//! Benchmarks of trijet.
//!
//! A definition has the sizes of a benchmark and the number of repeats. Each benchmark warms up and
//! verifies its results. The programs that a benchmark compares take turns. The results have the
//! median and the spread of every figure.

mod allreduce;
pub mod benchmarks;
mod beside;
mod chains;
mod check;
mod claims;
pub mod command;
mod definition;
mod devices;
mod enqueue;
mod files;
mod gemm;
mod gradients;
mod growth;
mod latency;
mod layers;
mod manual;
mod mapping;
mod memory;
mod overlap;
mod peer;
mod pitfalls;
mod process;
mod repeated;
pub mod results;
mod rounds;
mod setting;
mod simulate;
mod soak;
mod staging;
mod streams;
mod tasks;
mod training;
mod tuner;
mod turns;
mod workers;
mod workload;

pub use setting::Setting;
