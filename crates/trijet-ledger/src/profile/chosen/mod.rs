//! Figures of the records that the user of a trace chooses: CUDA graphs and the environment of a
//! device.
#![forbid(unsafe_code)]

pub(super) mod environment;
pub(super) mod graphs;
