//! The command line: what can be said, and what it means.
#![forbid(unsafe_code)]

use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use trijet::{Bytes, TimesFrom};
use trijet_cli::format::Dtype;

/// Arrays and image stacks larger than the GPU: read, upload, run, download and write, all at
/// once. Works without a GPU too.
///
/// Exit codes: 0 done; 1 failed; 2 wrong usage; 130 interrupted, and --resume continues.
#[derive(Debug, Parser)]
#[command(name = "trijet", version, max_term_width = 100)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Options {
    /// What the command line says. Ends the process, with words, when it cannot be meant.
    pub(crate) fn of_this_process() -> Self {
        let options = Self::parse();
        if let Command::Map(map) = &options.command
            && let Some((option, operator)) = map.stray()
        {
            let words = format!("{option} belongs to {operator}, which is not asked for");
            Self::command().error(ErrorKind::ArgumentConflict, words).exit();
        }
        options
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the devices of this machine, and what is missing for more.
    Devices(DevicesOptions),
    /// Run an operator or a kernel of your own over an array.
    Map(MapOptions),
    /// See the same job under four schedules, and what overlap is worth.
    Overlap(OverlapOptions),
    /// Measure this machine: links, calls, what blocks what, limits; and what to make of it.
    Doctor(DoctorOptions),
    /// Run any CUDA program and say where its time went.
    Trace(TraceOptions),
    /// Say of a kept record whether every conflict in it is ordered, and what would be faster.
    Check(CheckOptions),
    /// Run a benchmark and print its results.
    Bench(BenchOptions),
}

/// A device by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceName {
    Auto,
    Cuda(u32),
    Host,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("`{text}` is no device; auto, cuda:N and host are")),
        }
    }
}

/// A number of bytes with an optional unit: 4194304, 64KiB, 16MiB, 4GiB.
pub(crate) fn bytes(text: &str) -> Result<Bytes, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        unit => return Err(format!("`{unit}` is no unit; KiB, MiB and GiB are")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no number of bytes"))?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes > 0 => Ok(Bytes(bytes)),
        _ => Err(format!("`{text}` is out of range")),
    }
}

/// A shape: `512x2048` or `10,512,2048`.
fn shape(text: &str) -> Result<Shape, String> {
    let dimension = |part: &str| part.trim().parse::<u64>().map_err(|_| text.to_owned());
    text.split([',', 'x'])
        .map(dimension)
        .collect::<Result<_, _>>()
        .map(Shape)
        .map_err(|text| format!("`{text}` is no shape; 512x2048 is one"))
}

/// The dimensions of an array, slowest first.
#[derive(Debug, Clone)]
pub(crate) struct Shape(pub(crate) Vec<u64>);

/// The element type of a raw file.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DtypeName {
    U8,
    U16,
    F32,
}

impl From<DtypeName> for Dtype {
    fn from(name: DtypeName) -> Self {
        match name {
            DtypeName::U8 => Self::U8,
            DtypeName::U16 => Self::U16,
            DtypeName::F32 => Self::F32,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DevicesOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A source of the times of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimesName {
    /// Pairs of events: from ready to end; time in the queue of an engine counts.
    Events,
    /// From begin to end on the engine, by CUPTI on a GPU; fails without it.
    Engines,
    /// The same where it can be had, else pairs of events.
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

/// An operator that comes with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Each pixel becomes the middle one of those around it; removes salt and pepper.
    Median,
    /// scale * x + offset, rounded and saturated.
    Affine,
}

/// An argument of a user's kernel: a name, for people, and a value with its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KernelArg {
    pub(crate) name: String,
    pub(crate) value: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar {
    F32(f32),
    F64(f64),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32(v) => write!(f, "{v}f32"),
            Self::F64(v) => write!(f, "{v}f64"),
            Self::I32(v) => write!(f, "{v}i32"),
            Self::I64(v) => write!(f, "{v}i64"),
            Self::U32(v) => write!(f, "{v}u32"),
            Self::U64(v) => write!(f, "{v}u64"),
        }
    }
}

impl FromStr for KernelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no argument; gain=2.5, n=3, n=3u64, x=1f64 are");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let kinds = ["f32", "f64", "i32", "i64", "u32", "u64"];
        let kind = kinds.into_iter().find(|kind| value.ends_with(kind));
        let number = &value[..value.len() - kind.map_or(0, str::len)];
        let plain = if number.contains(['.', 'e']) { "f32" } else { "i32" };
        let value = match kind.unwrap_or(plain) {
            "f32" => number.parse().ok().map(Scalar::F32),
            "f64" => number.parse().ok().map(Scalar::F64),
            "i32" => number.parse().ok().map(Scalar::I32),
            "i64" => number.parse().ok().map(Scalar::I64),
            "u32" => number.parse().ok().map(Scalar::U32),
            _ => number.parse().ok().map(Scalar::U64),
        };
        Ok(Self { name: name.to_owned(), value: value.ok_or_else(wrong)? })
    }
}

/// Examples:
///   trijet map stack.npy -o clean.npy --op median --radius 3
///   trijet map scans/ -o scans-clean --op median
///   trijet map in.raw -o out.raw --shape 4096x4096 --dtype u16 --op affine --scale 0.5
///   trijet map in.npy -o out.npy --kernel gain.cu --entry gain --arg factor=2.5
///
/// A kernel of yours has the parameters (const T* x, unsigned long long x_len, T* y, unsigned long
/// long y_len, then each --arg in order), and computes element i of y for i < y_len, in blocks of 256 threads.
/// With --halo R it gets (unsigned long long row_len, unsigned long long rows_before) after y_len:
/// x then has rows_before rows in front of those of y, R or as many as there are.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct MapOptions {
    /// The input: a .npy file, a raw file, or a folder of PNG images of one size.
    pub(crate) input: PathBuf,
    /// The output: NAME.npy, a raw file, or a folder of images for a name without extension.
    #[arg(short, long)]
    pub(crate) output: PathBuf,
    /// The operator.
    #[arg(long, value_enum, conflicts_with = "kernel", required_unless_present = "kernel")]
    pub(crate) op: Option<Op>,
    /// The radius of the median filter, 1 to 7; 1 by default.
    #[arg(long)]
    pub(crate) radius: Option<u32>,
    /// The factor of affine; 1 by default.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) scale: Option<f32>,
    /// The summand of affine; 0 by default.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) offset: Option<f32>,
    /// A kernel of your own: CUDA C++ (.cu), PTX (.ptx) or a cubin (.cubin).
    #[arg(long, requires = "entry")]
    pub(crate) kernel: Option<PathBuf>,
    /// The name of your kernel.
    #[arg(long, requires = "kernel", conflicts_with = "op")]
    pub(crate) entry: Option<String>,
    /// An argument of your kernel, in order: NAME=VALUE; 2.5 is a float, 3 an int, 3u64 as it says.
    #[arg(long = "arg", requires = "kernel", conflicts_with = "op")]
    pub(crate) args: Vec<KernelArg>,
    /// Rows around each chunk that your kernel reads.
    #[arg(long, requires = "kernel", conflicts_with = "op")]
    pub(crate) halo: Option<u64>,
    /// The shape of a raw input, slowest dimension first: 100x512x512.
    #[arg(long, value_parser = shape, requires = "dtype")]
    pub(crate) shape: Option<Shape>,
    /// The element type of a raw input.
    #[arg(long, value_enum, requires = "shape")]
    pub(crate) dtype: Option<DtypeName>,
    /// auto, cuda:N or host.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceName,
    /// The size of a chunk, as 16MiB; tuned by default.
    #[arg(long, value_parser = bytes)]
    pub(crate) chunk: Option<Bytes>,
    /// Chunks in flight.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) depth: Option<usize>,
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on where an interrupted run stopped. The output is the same byte for byte.
    #[arg(long)]
    pub(crate) resume: bool,
}

impl MapOptions {
    /// An option that the run would not read, and the operator that reads it.
    fn stray(&self) -> Option<(&'static str, &'static str)> {
        let (median, affine) = ("--op median", "--op affine");
        let given = [
            ("--radius", median, self.radius.is_some() && self.op != Some(Op::Median)),
            ("--scale", affine, self.scale.is_some() && self.op != Some(Op::Affine)),
            ("--offset", affine, self.offset.is_some() && self.op != Some(Op::Affine)),
        ];
        given.into_iter().find(|given| given.2).map(|(option, operator, _)| (option, operator))
    }
}

/// Examples:
///   trijet overlap
///   trijet overlap stack.npy --radius 7
///   trijet overlap --drop-wait 5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct OverlapOptions {
    /// A stack of images (u8 or u16); without it a noisy micrograph is made.
    pub(crate) input: Option<PathBuf>,
    /// The radius of the median filter, 1 to 7: the work per byte.
    #[arg(long, default_value_t = 3)]
    pub(crate) radius: u32,
    /// auto, cuda:N or host. Without a GPU the times are a model's.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceName,
    /// How much to generate, in whole images of 8MiB: 4GiB on a GPU by default, 32MiB without one.
    #[arg(long, value_parser = bytes, conflicts_with = "input")]
    pub(crate) size: Option<Bytes>,
    /// The chunk size of the first three schedules; the fourth chooses its own.
    #[arg(long, value_parser = bytes)]
    pub(crate) chunk: Option<Bytes>,
    /// Chunks in flight.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) depth: Option<usize>,
    /// Runs of each schedule; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// Leave out one wait between streams, counted from 1, and keep the damaged result as a
    /// picture.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) drop_wait: Option<u64>,
    /// Where to keep that picture.
    #[arg(long, default_value = "damaged.png")]
    pub(crate) picture: PathBuf,
    /// Keep the timeline of the tuned schedule: .html is a page for a browser, .pftrace is for
    /// Perfetto, .json for tools that read PyTorch's traces, .ledger for `trijet check`.
    #[arg(long, value_name = "FILE", conflicts_with = "drop_wait")]
    pub(crate) trace: Option<PathBuf>,
    /// Where the times of single operations come from, in the runs that are recorded.
    #[arg(long, value_enum, default_value_t = TimesName::Events)]
    pub(crate) times: TimesName,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures, in under a minute and without a CUDA toolkit: rates of copies by size, the cost of each
/// call, which calls hold the host or other streams up, default streams, limits, ways to allocate and
/// ways to launch; then says what follows for a pipeline on this machine. What was measured here is
/// no guarantee. Without a GPU the host device is measured, and the first line says so.
///
/// Examples:
///   trijet doctor
///   trijet doctor --device cuda:1
///   trijet doctor --json > machine.json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorOptions {
    /// auto, cuda:N or host.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceName,
    /// Print JSON: everything that was measured, with units in the names.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Examples:
///   trijet trace -- python3 train.py
///   trijet trace -o run.trijet -- ./a.out --steps 100
///   trijet trace --read run.trijet --json
///
/// The program may be in any language: the CUDA driver itself loads the library that records.
/// Its input and output stay its own; the summary goes to standard error, JSON to standard output
/// after whatever the program printed. The exit code is the program's: 128 and the number for a
/// signal, 127 when there is no such program, 126 when it cannot be started.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TraceOptions {
    /// Keep the recording in this file.
    #[arg(short, long, conflicts_with = "read")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show a recording that was kept, and run nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) read: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "read", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Which edges order anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Assumption {
    /// Those that CUDA documents.
    Documented,
    /// Besides, what a driver was seen to keep and does not promise.
    DriverObserved,
}

/// Examples:
///   trijet overlap --trace run.ledger && trijet check run.ledger
///   trijet check --json run.ledger
///
/// Exit codes: 0 when nothing is wrong, warnings and remarks aside; 1 when something is, or the
/// file cannot be read.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckOptions {
    /// The record, as `overlap --trace FILE.ledger` and programs keep it.
    pub(crate) file: PathBuf,
    /// Which edges count.
    #[arg(long, value_enum, default_value = "documented")]
    pub(crate) assume: Assumption,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// The benchmark: overlap, enqueue, virtual, check or pitfalls.
    pub(crate) name: String,
    /// auto, cuda:N or host.
    #[arg(long, default_value = "auto")]
    pub(crate) device: DeviceName,
}
