//! Lessons about kernels that run at the same time, graphs, dependent launches and clusters.
#![forbid(unsafe_code)]

pub(crate) mod branches;
pub(crate) mod cluster_batches;
pub(crate) mod clusters;
pub(crate) mod concurrent;
pub(crate) mod conditional;
pub(crate) mod dependent;
pub(crate) mod full_device;
pub(crate) mod graph;
pub(crate) mod one_multiprocessor;
pub(crate) mod warp_roles;
