//! `trijet what-if`: a page that replays a traced run, or the run of a ledger, with the changes of
//! its reader.
#![forbid(unsafe_code)]

use super::print;
use super::trace::load;
use crate::args::WhatIfOptions;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::file::Reader;
use trijet::trace::{Op, TimeSource};
use trijet::{Error, ErrorKind, Result};
use trijet_io::{NewFile, file_error, shown};
use trijet_ledger::profile::{FiguresOf, LedgerRun, what_if, what_if_ledger};
use trijet_ledger::trace::activity::ProcessTrace;

/// The first bytes of a ledger of any version.
const LEDGER: &[u8] = b"TRIJETL";
/// Maximum number of entries of a ledger whose page a browser can hold.
const ENTRIES_MAX: usize = 1 << 22;

pub(crate) fn run(options: &WhatIfOptions) -> Result<()> {
    let existing = options.overwrite.existing();
    let output = NewFile::new("what-if", &options.output, existing, &[&options.file])?;
    let io = |error| file_error::io("what-if", &options.file, error);
    let mut open = BufReader::new(File::open(&options.file).map_err(io)?);
    let is_ledger = open.fill_buf().map_err(io)?.starts_with(LEDGER);
    let page = if is_ledger { of_ledger(open, options)? } else { of_trace(options)? };
    let Some(page) = page else {
        let cause = "the trace has no operation of a GPU with known times, or its times contradict \
                     each other";
        return Err(refused(&options.file, cause));
    };
    output.write(|file| file.write_all(page.as_bytes()))?;
    print(format_args!("page: {}", shown(&options.output)))
}

fn refused(file: &Path, cause: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, "replay trace", format!("{}: {cause}", shown(file)))
}

/// The page of the process with the most operations. `None` if none has known times.
fn of_trace(options: &WhatIfOptions) -> Result<Option<String>> {
    let extent = if options.whole { FiguresOf::Whole } else { FiguresOf::Steps };
    let mut traces = load(&options.file)?;
    let operations =
        |trace: &ProcessTrace| trace.activities.iter().filter(|one| one.engine().is_some()).count();
    let largest = traces.iter_mut().max_by_key(|trace| operations(trace));
    Ok(largest.and_then(|trace| what_if(trace, extent, &options.file.to_string_lossy())))
}

/// The page of a ledger. `None` if no operation has known times.
fn of_ledger(open: BufReader<File>, options: &WhatIfOptions) -> Result<Option<String>> {
    let in_file = |error: Error| error.context(shown(&options.file).to_string());
    let mut reader = Reader::new(open).map_err(in_file)?;
    let about = reader.about().clone();
    if about.times == TimeSource::Missing {
        return Err(refused(&options.file, "the ledger has no times"));
    }
    let mut ops: Vec<Op> = Vec::new();
    for op in &mut reader {
        if ops.len() == ENTRIES_MAX {
            let cause = format!("the ledger has more than {ENTRIES_MAX} entries");
            return Err(refused(&options.file, &cause));
        }
        ops.push(op.map_err(in_file)?);
    }
    let kernels = match about.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    let dag = Dag::with_times(&ops, kernels, about.times);
    let title = &about.program;
    Ok(what_if_ledger(&LedgerRun { ops: &ops, dag: &dag, title, dropped: about.dropped }))
}
