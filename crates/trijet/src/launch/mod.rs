//! Kernels: typed declarations, argument blocks, launches.

mod args;
mod compiled;
mod kernel;
mod params;
mod spec;
mod typed;

pub use crate::device::code::Code;
pub use args::Args;
pub use kernel::Kernel;
pub use params::{Arg, ArgsFor, Dynamic, Ptr, Read, Tiled, Update, Write};
pub use spec::{CheckArgs, Exactness, KernelSpec, Shape, any_lengths, equal_lengths};
pub use typed::TwinParams;
