//! The command line: its commands and options.
#![forbid(unsafe_code)]

mod bench;
mod lesson;
mod map;
mod replay;
mod shared;
mod trace;
mod what_if;

pub(crate) use self::bench::BenchArguments;
pub(crate) use self::lesson::LessonOptions;
pub(crate) use self::map::{Axis, Endian, KernelTemplate, MapOptions, is_stream};
pub(crate) use self::replay::{ModeName, ReplayOptions};
pub(crate) use self::shared::{Overwrite, has_extension};
pub(crate) use self::trace::{Assumption, CheckOptions, OnlyFindings, TraceOptions};
pub(crate) use self::what_if::WhatIfOptions;

pub(crate) use self::shared::dtype_of;
use self::shared::timeline_file;
use crate::report_words::named;
use crate::values::{ReportLength, bytes, radius};
use clap::builder::RangedU64ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind as Wrong};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;
use trijet::Bytes;
use trijet::trace::TimesFrom;
use trijet_io::{Dtype, is_plain, shown};
use trijet_tools::command::device::{DeviceName, LiveCheck, ONE, proposing};
use trijet_tools::command::usage::{parsed, version};

/// The first lines of `trijet -h`.
const ABOUT: &str = "\
Process arrays and image stacks that are larger than the GPU: reading, upload, kernels, download and \
writing overlap. Without a GPU the same commands run on the CPU.";

/// The first lines of `trijet --help`.
const LONG_ABOUT: &str = "\
Process arrays and image stacks that are larger than the GPU: reading, upload, kernels, download and \
writing overlap. Without a GPU the same commands run on the CPU.

Exit status: 0 on success, 1 on failure, 2 for a wrong command line, 3 if `map` has checked a kernel of yours and \
has no GPU to run it on, 4 if `map --skip-bad` has skipped damaged images and done all others, 75 if SIGTERM has stopped a run of `map` \
that `map --resume` or `map --claim` continues, and 128 plus its number after any other signal: 130 after Ctrl-C.";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "trijet", version = version(), max_term_width = 100, about = ABOUT, long_about = LONG_ABOUT)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Options {
    /// Parses a command line. Wrong usage prints a message and ends the process.
    pub(crate) fn of_arguments(args: impl IntoIterator<Item = OsString>) -> Command {
        parsed(without_help_of_help(args.into_iter()), Self::command_of)
    }

    /// Parses the arguments as a command. An error includes the usage of the command in which it
    /// occurred.
    fn command_of(args: &[OsString]) -> Result<Command, clap::Error> {
        let parsed = Self::command().try_get_matches_from(args);
        let matches = parsed.map_err(|error| with_hint(error, args))?;
        let map = matches.subcommand_matches("map");
        // `--kernel-template` needs neither the input nor the output that `MapOptions` requires.
        if let Some(template) = map.and_then(|map| map.get_one("kernel_template")) {
            return Ok(Command::KernelTemplate(*template));
        }
        let options = Self::from_arg_matches(&matches);
        let command = options.map_err(|error| with_usage(error, &matches))?.command;
        match command.wrong_usage() {
            Some(cause) => Err(with_usage(clap::Error::raw(Wrong::InvalidValue, cause), &matches)),
            None => Ok(command),
        }
    }
}

impl Command {
    /// Checks the options and the names on the command line, without reading a file. Returns a
    /// message about the first mistake; `None` without a mistake.
    fn wrong_usage(&self) -> Option<String> {
        match self {
            Self::Map(options) => options
                .wrong_report()
                .or_else(|| options.wrong_stream())
                .or_else(|| options.wrong_name()),
            Self::Overlap(options) => options.wrong_name(),
            Self::Trace(options) => options.wrong_page().or_else(|| options.wrong_records()),
            Self::Replay(options) => options.wrong_name(),
            Self::WhatIf(options) => options.wrong_name(),
            Self::Sample(options) => options.wrong_name(),
            Self::Explain(options) => options.wrong_word(),
            Self::Lesson(options) => options.wrong_name(),
            Self::Devices(_)
            | Self::Doctor(_)
            | Self::Check(_)
            | Self::Bench(_)
            | Self::KernelTemplate(_)
            | Self::Status(_)
            | Self::Completions { .. }
            | Self::Man(_) => None,
        }
    }
}

/// The options of `trijet map` that need an operation, each with the option that chooses this
/// operation.
const OF_OPERATION: [(&str, &str); 7] = [
    ("--radius", "--op median"),
    ("--edges", "--op median"),
    ("--scale", "--op affine"),
    ("--offset", "--op affine"),
    ("--entry", "--kernel FILE"),
    ("--arg", "--kernel FILE"),
    ("--halo", "--kernel FILE"),
];

/// Adds a hint to an error about a missing operation. The hint names, for each option of
/// [`OF_OPERATION`] among `args`, the operation that the option needs.
fn with_hint(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let is_given = |option: &str| {
        let named =
            |arg: &OsString| arg.to_str().is_some_and(|arg| arg.split('=').next() == Some(option));
        args.iter().any(named)
    };
    let is_missing = error.kind() == Wrong::MissingRequiredArgument
        && !is_given("--op")
        && !is_given("--kernel");
    let options = OF_OPERATION.into_iter().filter(|(option, _)| is_missing && is_given(option));
    let hints: Vec<_> =
        options.map(|(option, of)| format!("{option} belongs to {of}").into()).collect();
    if !hints.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    }
    error
}

/// Adds the usage of a command to an error. The command is the subcommand that `matches` names.
fn with_usage(error: clap::Error, matches: &ArgMatches) -> clap::Error {
    let mut root = Options::command();
    root.build();
    match matches.subcommand_name().and_then(|name| root.find_subcommand_mut(name)) {
        Some(command) => error.format(command),
        None => error,
    }
}

/// Removes `-h` and `--help` from the arguments of the command `help`.
fn without_help_of_help(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|command| command == "help") {
        args.retain(|arg| arg != "--help" && arg != "-h");
    }
    args
}

/// A command with its options.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the devices of this machine and the libraries that were found.
    Devices(DevicesOptions),
    /// Apply an operation or your own kernel to an array.
    Map(Box<MapOptions>),
    /// Run one job under four schedules and compare their times.
    Overlap(OverlapOptions),
    /// Measure this machine and give advice for pipelines on it.
    Doctor(DoctorOptions),
    /// Run a CUDA program and report where its time went.
    Trace(TraceOptions),
    /// Write a page that replays a traced run with your changes.
    WhatIf(WhatIfOptions),
    /// Check a ledger file for races, and list what would be faster.
    Check(CheckOptions),
    /// Replay a trace of allocations, and show where memory lay.
    Replay(ReplayOptions),
    /// Run a benchmark: starts the program `trijet-bench`.
    Bench(BenchArguments),
    /// Run a lesson about streams, and judge its claim by the measured times.
    Lesson(LessonOptions),
    /// Explain a word of a report.
    Explain(ExplainOptions),
    /// Show the state of a job of `map`: who works on what, how far, how long, what failed.
    Status(StatusOptions),
    /// Write a stack of images to try the other commands with.
    Sample(SampleOptions),
    /// Print the completions of this command for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write manual pages, one for each command.
    Man(ManOptions),
    /// Print a kernel to start from: `trijet map --kernel-template`.
    #[command(skip)]
    KernelTemplate(KernelTemplate),
}

/// The options of `trijet explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The word, or a part of it. Without one, all words are listed.
    pub(crate) word: Vec<String>,
}

impl ExplainOptions {
    /// Returns an error text if no report has the word.
    fn wrong_word(&self) -> Option<String> {
        let text = self.word.join(" ");
        let is_wrong = !self.word.is_empty() && named(&text).is_empty();
        is_wrong
            .then(|| format!("no report has the word `{text}`; `trijet explain` lists all words"))
    }
}

/// The options of `trijet status`.
#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    /// The output of the job.
    pub(crate) output: PathBuf,
    /// The folder of the state of the job, if `map` has one.
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The options of `trijet sample`.
#[derive(Debug, Args)]
pub(crate) struct SampleOptions {
    /// The file: a name that ends with .npy.
    pub(crate) file: PathBuf,
    /// The number of images.
    #[arg(long, default_value = "64", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) images: u64,
    /// The width and the height of an image, in pixels.
    #[arg(long, default_value = "512", value_parser = RangedU64ValueParser::<u32>::new().range(1..=65_536))]
    pub(crate) side: u32,
    /// The type of a pixel.
    #[arg(long, value_parser = dtype_of(&[Dtype::U8, Dtype::U16]), default_value = "u16")]
    pub(crate) dtype: Dtype,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}

impl SampleOptions {
    /// Returns an error text if the name of the file is wrong.
    fn wrong_name(&self) -> Option<String> {
        let cause = "a sample is an .npy file; `trijet map` makes a folder of PNG images of it";
        (!has_extension(&self.file, "npy")).then(|| format!("{}: {cause}", shown(&self.file)))
    }
}

/// The options of `trijet man`.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The folder for the pages. It is created if it does not exist.
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}

/// The options of `trijet devices`.
#[derive(Debug, Args)]
pub(crate) struct DevicesOptions {
    /// Show where the libraries were searched.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The source of the times of single operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimesName {
    /// Pairs of events: from ready to end, including the time in an engine's queue.
    Events,
    /// The engine's own times, from start to end. On a GPU this needs CUPTI.
    Engines,
    /// The engine's own times where they are available, otherwise pairs of events.
    Auto,
}

impl From<TimesName> for TimesFrom {
    fn from(name: TimesName) -> Self {
        match name {
            TimesName::Events => Self::Events,
            TimesName::Engines => Self::Activity,
            TimesName::Auto => Self::ActivityIfThere,
        }
    }
}

/// The text at the end of `trijet overlap --help`.
const OVERLAP_HELP: &str = "\
Examples:
  trijet overlap
  trijet overlap stack.npy --radius 7
  trijet overlap --drop-wait 1 --overwrite";

/// The options of `trijet overlap`.
#[derive(Debug, Args)]
#[command(after_long_help = OVERLAP_HELP)]
pub(crate) struct OverlapOptions {
    /// A stack of images (u8 or u16). Without it, a noisy micrograph is generated.
    pub(crate) input: Option<PathBuf>,
    /// The radius of the median filter, 1 to 7. A larger radius means more work per byte.
    #[arg(long, default_value_t = 3, value_parser = radius)]
    pub(crate) radius: u32,
    /// The device: auto, cuda:N or host. Without a GPU the times come from a model of one.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<DeviceName>(ONE))]
    pub(crate) device: DeviceName,
    /// The size of the generated stack, in whole images of 8MiB, at least one [default: 4GiB on a
    /// GPU, 16MiB without one].
    #[arg(long, value_parser = bytes, conflicts_with = "input")]
    pub(crate) size: Option<Bytes>,
    /// The chunk size of the first three schedules; the tuned schedule, which is drawn and
    /// explained, chooses its own.
    #[arg(long, value_parser = bytes)]
    pub(crate) chunk: Option<Bytes>,
    /// The number of chunks in flight.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) depth: Option<usize>,
    /// The number of timed runs of each schedule; their median is reported. Without a GPU, one run
    /// suffices, because modelled times do not vary.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// Leave out wait number N between streams, counted from 1, and save the damaged result as a
    /// picture.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) drop_wait: Option<u64>,
    /// The file of the picture that --drop-wait saves.
    #[arg(long, value_name = "FILE", default_value = "damaged.png")]
    pub(crate) picture: PathBuf,
    /// Save a trace of the tuned schedule, or of the run that leaves out a wait. Its extension sets
    /// the format: .html is a page for a browser, .pftrace is for Perfetto, .json for tools that
    /// read PyTorch's traces, .ledger for `trijet check`.
    #[arg(long, value_name = "FILE", value_parser = timeline_file())]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// The report: the drawing, the table and what limits, or every figure.
    #[arg(long, value_enum, default_value = "short")]
    pub(crate) report: ReportLength,
    /// The source of the times of single operations in the traced runs.
    #[arg(long, value_enum, default_value_t = TimesName::Events)]
    pub(crate) times: TimesName,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) check: LiveCheck,
}

impl OverlapOptions {
    /// Returns an error text if the name of the input shows that the command cannot read the input.
    fn wrong_name(&self) -> Option<String> {
        let input = self.input.as_deref()?;
        let cause = "a file of plain bytes does not state its shape; `trijet map` converts it to \
                     an .npy file";
        (is_plain(input) && !input.is_dir()).then(|| format!("{}: {cause}", shown(input)))
    }
}

/// The text at the end of `trijet doctor --help`.
const DOCTOR_HELP: &str = "\
In under a minute and without a CUDA toolkit, measures the rates of copies by size, the cost of each \
call, which calls block the host or other streams, the default streams, limits, and ways to allocate \
and to launch. Then gives advice for pipelines on this machine. The results describe this machine \
today and guarantee nothing. Without a GPU the host device is measured; the first line says so.

Examples:
  trijet doctor
  trijet doctor --device cuda:1
  trijet doctor --json > machine.json";

/// The options of `trijet doctor`.
#[derive(Debug, Args)]
#[command(after_long_help = DOCTOR_HELP)]
pub(crate) struct DoctorOptions {
    /// The device: auto, cuda:N or host.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<DeviceName>(ONE))]
    pub(crate) device: DeviceName,
    /// Print everything that was measured as JSON, with units in the names.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) check: LiveCheck,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_the_commit_if_it_is_known() {
        let shown = Options::command().get_version().map(str::to_owned);
        assert_eq!(shown, Some(version().to_owned()));
    }
}
