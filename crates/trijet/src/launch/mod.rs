//! Kernels: typed declarations, argument blocks, launches.

mod args;
mod kernel;
mod params;
mod spec;

pub use args::Args;
pub use kernel::Kernel;
pub use params::{Arg, ArgsFor, Dynamic, In, InOut, Out, Ptr};
pub use spec::{CheckArgs, Code, Exactness, KernelSpec, Shape, any_lengths, equal_lengths};
