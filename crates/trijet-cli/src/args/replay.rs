//! The options of `trijet replay`.
#![forbid(unsafe_code)]

use super::shared::{Overwrite, has_extension};
use crate::values::bytes;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use trijet::{Bytes, HeapMode};
use trijet_io::shown;
use trijet_tools::command::device::{DeviceName, LiveCheck, ONE, proposing};

/// The text at the end of `trijet replay --help`.
const REPLAY_HELP: &str = "\
Examples:
  trijet trace --memory train.csv -- python3 train.py
  trijet replay train.csv --limit 16GiB -o train.html

A trace is a text with one line for each call. Its first line names the columns: Action, Pointer, \
Size and Stream, and optionally Thread, Nanos, Other and Device. The log of RAPIDS rmm is such a \
text. Cells may be quoted. Calls that failed in the program, and a last line that is cut off, are \
reported but not replayed. The rows of each device are replayed separately: each device has its \
own heap, limit, pointers, streams and threads. The actions are

  allocate     Pointer, Size, Stream   memory for work of the stream
  free         Pointer, Stream         freed after the work in the stream
  use          Pointer, Stream, Nanos  a kernel uses the memory for that long
  follow       Stream, Other           later work waits for the other stream
  synchronize  Stream                  the host waits for the stream

Each kernel compares a tag in its memory, so memory with two owners at once ends the replay with \
an error. For comparison, the trace is also replayed over a model of an allocator that caches \
segments, as PyTorch's allocator does by default. The model has sizes and addresses, but no \
times.";

/// The mode of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Take new memory of the device before memory that other streams still use.
    Speed,
    /// Take memory that other streams still use before new memory, which is taken in small pieces.
    Footprint,
    /// Give each allocation the same memory in each run.
    Deterministic,
    /// Never take memory that other streams use: refuse the allocation instead.
    NeverWait,
}

impl From<ModeName> for HeapMode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Speed => Self::Speed,
            ModeName::Footprint => Self::Footprint,
            ModeName::Deterministic => Self::Deterministic,
            ModeName::NeverWait => Self::NeverWait,
        }
    }
}

/// The options of `trijet replay`.
#[derive(Debug, Args)]
#[command(after_long_help = REPLAY_HELP)]
pub(crate) struct ReplayOptions {
    /// The trace of allocations.
    pub(crate) file: PathBuf,
    /// Write a page for a browser that shows the address space over time.
    #[arg(short, long, value_name = "FILE.html")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Maximum memory that may be held from the device, for example 512MiB.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) limit: Option<Bytes>,
    /// The mode of the heap [default: speed].
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// The device: auto, cuda:N or host.
    #[arg(long, default_value = "auto", hide_possible_values = true, value_parser = proposing::<DeviceName>(ONE))]
    pub(crate) device: DeviceName,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) check: LiveCheck,
}

impl ReplayOptions {
    /// Returns an error text if the name of the page is wrong.
    pub(super) fn wrong_name(&self) -> Option<String> {
        let output = self.output.as_deref()?;
        let cause = "the output is a page for a browser; use a name with .html";
        (!has_extension(output, "html")).then(|| format!("{}: {cause}", shown(output)))
    }
}
