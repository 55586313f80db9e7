//! Exports of Nsight Systems (`nsys export --type sqlite`): an SQLite file with a table for each
//! kind of activity.
//!
//! Versions of the tool differ in tables and columns, and a table exists only if it has rows. So
//! each table and column is looked up, and what the file lacks becomes a note: the report cannot
//! answer questions about it. Rows are read one after another, and a name is read when an activity
//! has it first, so the memory grows with the activities alone.

mod codes;
mod database;
mod processes;
mod tables;

use self::database::{Database, MAGIC};
use self::processes::Processes;
use crate::TraceError;
use std::path::Path;
use trijet_ledger::trace::activity::ProcessTrace;

/// Whether a file that begins with these bytes is an SQLite file.
#[must_use]
pub fn is_sqlite(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Reads the traces of the processes in an export.
///
/// ```no_run
/// for trace in trijet_traces::nsys::read("report.sqlite".as_ref())? {
///     println!("process {}: {} activities", trace.process, trace.activities.len());
/// }
/// # Ok::<(), trijet_traces::TraceError>(())
/// ```
///
/// # Errors
/// The file cannot be read, is no SQLite file or a damaged one, or has no operations of a GPU and
/// no calls of CUDA.
pub fn read(path: &Path) -> Result<Vec<ProcessTrace>, TraceError> {
    let database = Database::open(path)?;
    let mut processes = Processes::new(&database);
    // The calls come first: they state which processes there are.
    tables::calls(&mut processes)?;
    tables::kernels(&mut processes)?;
    tables::graphs(&mut processes)?;
    tables::copies(&mut processes)?;
    tables::fills(&mut processes)?;
    tables::waits(&mut processes)?;
    tables::overheads(&mut processes)?;
    tables::marks(&mut processes)?;
    tables::allocations(&mut processes)?;
    tables::contexts(&mut processes)?;
    tables::streams(&mut processes)?;
    tables::commands(&mut processes)?;
    tables::threads(&mut processes)?;
    tables::ranks(&mut processes)?;
    let start = tables::session_start(&database)?;
    let warnings = tables::warnings(&database)?;
    processes.traces(start, &warnings)
}
