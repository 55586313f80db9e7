//! The command `trijet-bench`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    trijet_bench::command::main()
}
