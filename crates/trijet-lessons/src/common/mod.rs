//! The parts that lessons share: the device with calibrated kernels, and the memory of their
//! programs.
#![forbid(unsafe_code)]

pub(crate) mod batches;
pub(crate) mod boards;
pub(crate) mod both;
pub(crate) mod cache;
pub(crate) mod chain;
pub(crate) mod dealt;
pub(crate) mod desk;
pub(crate) mod ground;
pub(crate) mod halves;
pub(crate) mod job;
pub(crate) mod latency;
pub(crate) mod loads;
pub(crate) mod pieces;
pub(crate) mod pooled;
pub(crate) mod product;
pub(crate) mod race;
pub(crate) mod shares;
pub(crate) mod stays;
pub(crate) mod towers;
