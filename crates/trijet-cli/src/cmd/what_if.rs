//! `trijet what-if`: a page that replays a traced run with the changes of its reader.
#![forbid(unsafe_code)]

use super::print;
use super::trace::load;
use crate::args::WhatIfOptions;
use std::io::Write;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{NewFile, shown};
use trijet_ledger::profile::{FiguresOf, what_if};
use trijet_ledger::trace::activity::ProcessTrace;

pub(crate) fn run(options: &WhatIfOptions) -> Result<()> {
    let existing = options.overwrite.existing();
    let output = NewFile::new("what-if", &options.output, existing, &[&options.file])?;
    let extent = if options.whole { FiguresOf::Whole } else { FiguresOf::Steps };
    let mut traces = load(&options.file)?;
    let operations =
        |trace: &ProcessTrace| trace.activities.iter().filter(|one| one.engine().is_some()).count();
    let largest = traces.iter_mut().max_by_key(|trace| operations(trace));
    let file = options.file.to_string_lossy();
    let page = largest.and_then(|trace| what_if(trace, extent, &file));
    let Some(page) = page else {
        let cause = "the trace has no operation of a GPU with known times, or its times contradict \
                     each other";
        let cause = format!("{}: {cause}", shown(&options.file));
        return Err(Error::new(ErrorKind::InvalidValue, "replay trace", cause));
    };
    output.write(|file| file.write_all(page.as_bytes()))?;
    print(format_args!("page: {}", shown(&options.output)))
}
