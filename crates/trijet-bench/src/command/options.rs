//! The options of `trijet-bench`.
#![forbid(unsafe_code)]

use crate::benchmarks::{BENCHMARKS, Runs, named};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind as Wrong;
use clap::{CommandFactory, Parser};
use trijet_tools::command::device::{DeviceName, LiveCheck, ONE, proposing};
use trijet_tools::command::usage::{parsed, version};

/// The text at the end of `trijet-bench --help`.
const HELP: &str = "\
Examples:
  trijet-bench
  trijet-bench virtual --help
  trijet-bench gemm --device host
  trijet-bench gemm --device host --csv > gemm.csv

`trijet bench` starts this program with its arguments.

The parameters of a benchmark are fixed, so that results can be compared: its --help prints them. \
If a benchmark needs a GPU, a second GPU or another program that is missing, it prints \"not run\" \
with the reason, and the exit status is 0.";

/// Run a benchmark and print its results.
#[derive(Debug, Parser)]
#[command(name = "trijet-bench", version = version(), max_term_width = 100, disable_help_flag = true, after_long_help = HELP)]
pub(super) struct BenchOptions {
    /// The benchmark. Without one, all are listed with what they measure.
    #[arg(value_parser = PossibleValuesParser::new(BENCHMARKS.map(|one| one.name)))]
    pub(super) name: Option<String>,
    /// Print the rows as CSV, in the form of the files of results.
    #[arg(long, conflicts_with = "json", requires = "name")]
    pub(super) csv: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(super) json: bool,
    /// Print help; with a benchmark, print what it measures, its parameters and its columns.
    #[arg(short, long)]
    pub(super) help: bool,
    /// The device: auto, cuda:N or host.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<DeviceName>(ONE))]
    pub(super) device: DeviceName,
    #[command(flatten)]
    pub(super) check: LiveCheck,
}

impl BenchOptions {
    /// Parses the command line. Wrong usage prints a message and ends the process.
    pub(super) fn of_this_process() -> Self {
        parsed(std::env::args_os().collect(), |args| {
            let options = Self::try_parse_from(args)?;
            match options.wrong_check() {
                Some(cause) => {
                    Err(clap::Error::raw(Wrong::InvalidValue, cause).format(&mut Self::command()))
                }
                None => Ok(options),
            }
        })
    }

    /// The help of the command.
    pub(super) fn help_text() -> String {
        Self::command().render_long_help().to_string().trim_end().to_owned()
    }

    /// Returns why the benchmark cannot be checked, if a check is requested.
    fn wrong_check(&self) -> Option<String> {
        let name = self.name.as_deref().filter(|_| self.check.check)?;
        let uses_device = named(name).is_none_or(|benchmark| benchmark.runs == Runs::Device);
        (!uses_device).then(|| {
            format!(
                "`{name}` opens its own devices, which `--check` cannot check; leave out `--check`"
            )
        })
    }
}
