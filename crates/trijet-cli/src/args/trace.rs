//! The options of `trijet trace` and `trijet check`, which examine past runs.
#![forbid(unsafe_code)]

use super::shared::{Overwrite, has_extension};
use crate::against::{Condition, LedgerMetric, TraceMetric};
use crate::values::time;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use trijet::Nanos;
use trijet_cupti::choice::{CHOICES, RECORD, value_of};
use trijet_io::shown;

/// The text at the end of `trijet trace --help`.
const TRACE_HELP: &str = "\
Examples:
  trijet trace -- python3 train.py
  trijet trace -o run.trijet -- ./a.out --steps 100
  trijet trace --read run.trijet --json
  trijet trace --read run.trijet -o part.html --from 2s --to 3s
  trijet trace --read run.trijet --against base.json --fail-if \"step > +3 %\"

A condition of --fail-if is a metric, > or <, and an amount. The metrics are step (the median time of \
a step), kernels, idle and copies (times, for each step if both runs have steps), findings (the number \
of remarks), and kernel NAME. An amount with a sign is a change against the base, as +2 ms or +3 %; \
one without a sign is the value itself. A condition that cannot be answered fails. With several \
devices, a condition fails if it does for one of them.

The figures are about the steps of the program, which are found by the names of its kernels. The \
time before the steps is stated separately. With --whole, the figures are about the whole run.

The program may be written in any language: the CUDA driver loads the tracing library into it. The \
program keeps its standard input and output. The summary goes to standard error; JSON goes to standard \
output, after the output of the program. Signals from other processes are forwarded to the \
program. \
The command waits for processes in the background; Ctrl-C ends the wait.

The exit status is the status of the program. It is 128 plus the signal number if a signal ended \
the program, 127 if the program was not found, and 126 if it could not be started. If the program \
succeeded but nothing was traced, or a condition of --fail-if holds, the exit status is 1.";

/// The records of a trace beside operations and calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Recorded {
    /// Named ranges (NVTX).
    Ranges,
    /// Records of events, and waits for them.
    Events,
    /// Allocations and frees.
    Memory,
    /// Clocks, temperature and power of the GPU.
    Environment,
}

/// The records that are made without a choice.
fn default_records() -> Vec<Recorded> {
    let is_default = |one: &Recorded| {
        CHOICES.iter().any(|choice| choice.is_default && choice.word == word_of(one))
    };
    Recorded::value_variants().iter().copied().filter(is_default).collect()
}

/// The word for a value on the command line.
fn word_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The records of CUDA graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphRecords {
    /// A record of each operation.
    Nodes,
    /// A record of each launch.
    Launch,
}

/// The options of `trijet trace`.
#[derive(Debug, Args)]
#[command(after_long_help = TRACE_HELP)]
pub(crate) struct TraceOptions {
    /// Save the trace to this file. With the extension .html, write a page for a browser instead,
    /// with .json the events in the form of Chrome's traces (Perfetto, `chrome://tracing`), and
    /// with .csv a row for each.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Start the timeline of the page at this time of the trace, for example 12s or 500ms.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "output")]
    pub(crate) from: Option<Nanos>,
    /// End the timeline of the page at this time of the trace.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "output")]
    pub(crate) to: Option<Nanos>,
    /// Save the allocations of device memory to this file, as a trace for `trijet replay`. Each
    /// device of each process has a separate trace in the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,
    /// Record these beside operations and calls: ranges (NVTX), events (which streams wait for each
    /// other; they cost the program most), memory (allocations) and environment (clocks,
    /// temperature and power of the GPU).
    #[arg(
        long,
        value_name = "LIST",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "read",
        default_values_t = default_records()
    )]
    pub(crate) record: Vec<Recorded>,
    /// Record each node of a CUDA graph, or each launch of a graph as a whole, which costs the
    /// program less.
    #[arg(long, value_enum, conflicts_with = "read", default_value_t = GraphRecords::Nodes)]
    pub(crate) graphs: GraphRecords,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Compute the figures and remarks from the whole run. By default they come from the steps:
    /// the part of the run in which the names of the kernels repeat, without the start of the
    /// program. If the names do not repeat, the figures always come from the whole run.
    #[arg(long)]
    pub(crate) whole: bool,
    /// Compare with an earlier run: a trace in any form that --read takes, or the document that
    /// --json printed about one.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Fail if this holds, for example "step > +3 %". May be repeated.
    #[arg(long, value_name = "CONDITION", requires = "against", value_parser = Condition::<TraceMetric>::parse)]
    pub(crate) fail_if: Vec<Condition<TraceMetric>>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show a saved trace instead of running a program: one of this command, one of PyTorch's
    /// profiler (JSON, also compressed by gzip), or an SQLite export of Nsight Systems. May be
    /// repeated, for the ranks of one run.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) read: Vec<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "read", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl TraceOptions {
    /// The variable that chooses the records, and its value.
    pub(crate) fn recorded(&self) -> Vec<(&'static str, String)> {
        let words: Vec<String> = self.record.iter().map(word_of).collect();
        let value = value_of(Some(&words), &word_of(&self.graphs));
        let value = value.expect("the words of the options are words of records");
        value.into_iter().map(|value| (RECORD, value)).collect()
    }

    /// Returns an error text if the allocations that are to be saved are not recorded.
    pub(super) fn wrong_records(&self) -> Option<String> {
        let is_missing = self.memory.is_some() && !self.record.contains(&Recorded::Memory);
        is_missing.then(|| "--memory saves allocations: add memory to --record".to_owned())
    }

    /// Returns an error text if the other options need another kind of output than its name states.
    pub(super) fn wrong_page(&self) -> Option<String> {
        let output = self.output.as_deref().filter(|output| !has_extension(output, "html"))?;
        if self.from.is_some() || self.to.is_some() {
            let cause = "--from and --to need a page as the output; use a name with .html";
            return Some(format!("{}: {cause}", shown(output)));
        }
        let is_export = has_extension(output, "json") || has_extension(output, "csv");
        let cause = "a saved trace can be written as a page, as JSON or as CSV; use a name with .html, \
                     .json or .csv";
        (!self.read.is_empty() && !is_export).then(|| format!("{}: {cause}", shown(output)))
    }
}

/// The edges on which the checker relies. An edge is an order between two operations of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Assumption {
    /// The edges that CUDA documents.
    Documented,
    /// The documented edges, and those that a driver was observed to keep but that CUDA does not
    /// promise: two of streams, and that a free of a program waits for the device.
    DriverObserved,
}

/// The findings that are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnlyFindings {
    /// Findings that are not in the baseline.
    New,
}

/// The text at the end of `trijet check --help`.
const CHECK_HELP: &str = "\
Examples:
  trijet overlap --trace run.ledger && trijet check run.ledger
  trijet check --json run.ledger
  trijet check -- python3 train.py
  trijet check -o run.calls -- ./a.out && trijet check run.calls
  trijet check run.ledger --against base.ledger --fail-if \"waits > +0\"

With a ledger, the command checks what a run of trijet declared. With a program in any language, the \
CUDA driver loads a library into it that records its calls. Copies, fills and frees declare what \
they read and write, so a conflict between them is an error. What a kernel reads and writes is not \
recorded: a conflict with an address among its arguments is possible, and no error. The calls of \
all host threads count as one sequence.

A condition of --fail-if is a metric (operations, waits, bytes or findings), > or <, and an amount. An \
amount with a sign is a change against the base, as +0 or +3 %; one without a sign is the value itself.

The program keeps its standard input and output. The verdict goes to standard error; JSON goes to \
standard output, after the output of the program. Ctrl-C and signals work as for trijet trace.

Exit status: 0 if there is no error (there may be warnings and remarks), 1 if there is an error, if a \
condition of --fail-if holds, or if a file cannot be read. For a program that fails, its own status; 1 if nothing was recorded.";

/// The options of `trijet check`.
#[derive(Debug, Args)]
#[command(after_long_help = CHECK_HELP)]
pub(crate) struct CheckOptions {
    /// The ledger file, as `trijet map` and `trijet overlap` write it with `--trace FILE.ledger`,
    /// or the calls of a program, as `trijet check -o FILE -- PROGRAM` writes them.
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    pub(crate) file: Option<PathBuf>,
    /// Also record which memory each kernel of the program reads and writes, so that conflicts
    /// between kernels are errors. Needs the Compute Sanitizer API of the CUDA toolkit or of the
    /// package nvidia-cuda-sanitizer-api, and makes kernels take many times as long.
    #[arg(long, requires = "command")]
    pub(crate) kernels: bool,
    /// Save the calls of the program to this file, to check them again without the program. A file
    /// named `.html` becomes a page with the findings and the calls around them.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// The edges that count as an order. [default: documented for a file, driver-observed for a
    /// program]
    #[arg(long, value_enum)]
    pub(crate) assume: Option<Assumption>,
    /// Findings of a program that do not fail the check: each has a line with its reason, until its
    /// last day. `--write-baseline` writes such a file, and reasons and days are added by hand.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write a baseline with all findings of this check, and the findings of `--baseline`.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_baseline: Option<PathBuf>,
    /// List new findings only, which are not in the baseline.
    #[arg(long, value_enum, ignore_case = true, requires = "baseline")]
    pub(crate) only: Option<OnlyFindings>,
    /// Compare with an earlier ledger: which findings are new and which are gone, and which
    /// operations, waits and bytes changed.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) against: Option<PathBuf>,
    /// Fail if this holds, for example "waits > +0". May be repeated.
    #[arg(long, value_name = "CONDITION", requires = "against", value_parser = Condition::<LedgerMetric>::parse)]
    pub(crate) fail_if: Vec<Condition<LedgerMetric>>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
