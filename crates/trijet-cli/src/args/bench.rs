//! The arguments of `trijet bench`, which the program `trijet-bench` reads.
#![forbid(unsafe_code)]

use clap::Args;
use std::ffi::OsString;

/// The text at the end of `trijet bench --help`.
const BENCH_HELP: &str = "\
Examples:
  trijet bench
  trijet bench virtual --help
  trijet bench gemm --device host
  trijet bench gemm --device host --csv > gemm.csv

The benchmarks are a program of their own, which `cargo build --release -p trijet-bench` builds. \
This command starts the `trijet-bench` in the folder of `trijet`, or otherwise the `trijet-bench` \
in PATH, with the same arguments. Without arguments it lists the benchmarks, and \
`trijet-bench --help` prints its options.";

/// The arguments of `trijet bench`.
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_HELP)]
pub(crate) struct BenchArguments {
    /// The arguments for `trijet-bench`: the name of a benchmark, and options.
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
