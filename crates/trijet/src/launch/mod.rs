//! Kernels: typed declarations, argument blocks, launches.

pub mod args;
pub mod kernel;

pub use args::{Arg, Args, ArgsFor, Dynamic, In, InOut, Out};
pub use kernel::{Code, Exactness, Grid, Kernel, KernelSpec, Shape};
