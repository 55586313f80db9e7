//! The options of `trijet what-if`.
#![forbid(unsafe_code)]

use super::shared::{Overwrite, has_extension};
use clap::Args;
use std::path::PathBuf;
use trijet_io::shown;

/// The text at the end of `trijet what-if --help`.
const WHAT_IF_HELP: &str = "\
Examples:
  trijet trace -o run.trijet -- python3 train.py
  trijet what-if run.trijet -o run.html

  trijet overlap --trace run.ledger
  trijet what-if run.ledger -o run.html

The page needs no network and no server. It replays the run after each change: a fix of the whole run, a \
deleted wait, page-locked memory, or an operation in another stream. It shows the timeline and the time \
before and after, and the error of its model: the difference of the replay without a change from the \
measured time.

The page of a ledger also has the conflicts of the changed run: the pairs of accesses that no order of CUDA \
keeps apart any more, each with the wait that mends it. If the run has chunks, a model states the time with \
another chunk size or number of slots.";

/// The options of `trijet what-if`.
#[derive(Debug, Args)]
#[command(after_long_help = WHAT_IF_HELP)]
pub(crate) struct WhatIfOptions {
    /// A trace that `trijet trace --read` reads, or a ledger. Of several processes or devices, the
    /// page shows the one with the most operations.
    pub(crate) file: PathBuf,
    /// Write the page to this file.
    #[arg(short, long, value_name = "FILE.html")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Take the time of the whole run, not of its steps. A ledger has no steps.
    #[arg(long)]
    pub(crate) whole: bool,
}

impl WhatIfOptions {
    /// Returns an error text if the name of the page is wrong.
    pub(super) fn wrong_name(&self) -> Option<String> {
        let cause = "the output is a page for a browser; use a name with .html";
        (!has_extension(&self.output, "html")).then(|| format!("{}: {cause}", shown(&self.output)))
    }
}
