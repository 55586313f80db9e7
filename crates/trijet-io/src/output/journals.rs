//! The progress of an output with journals, as a user asks for it: what the journals beside an
//! output state, without the input of their job.

use super::place::Place;
use crate::file_error;
use crate::format::NOFOLLOW;
use crate::rows::Rows;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use trijet::Result;

/// The progress of one process of an output with journals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStatus {
    /// The operation of the job.
    pub operation: String,
    /// The number of the process, and the number of processes. `None` if one process writes the
    /// output.
    pub shard: Option<(u64, u64)>,
    /// The number of rows that are written.
    pub rows_done: u64,
    /// Whether the process has written all of its rows.
    pub is_finished: bool,
    /// Whether a process writes at present. `None` if the file system has no locks.
    pub is_running: Option<bool>,
}

impl JournalStatus {
    /// Reads the journals of the output `out`, in the order of the processes. Empty if it has none.
    /// `state` is the folder of the files of the job, if it is not the folder of the output.
    ///
    /// # Errors
    /// `Io` for a file that cannot be read, and for a file with the name of a journal that is none.
    pub fn read(out: &Path, state: Option<&Path>) -> Result<Vec<Self>> {
        let place = Place::new(out)?.in_state(state)?;
        let folder = crate::names::folder_of(&place.journal);
        let io = |error| file_error::io("journal", folder, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            if let Some(shard) = shard_of(&place, &name) {
                found.extend(of_file(&folder.join(name), shard)?);
            }
        }
        found.sort_by_key(|one| one.shard);
        Ok(found)
    }
}

/// The process whose journal the file `name` is. `None` for another file. The journal that the
/// processes of an output share has no rows, and is left out where there are others.
fn shard_of(place: &Place, name: &OsStr) -> Option<Option<(u64, u64)>> {
    if place.journal.file_name() == Some(name) {
        return Some(None);
    }
    let out = place.out.file_name()?.to_str()?;
    let middle = name.to_str()?.strip_prefix(out)?.strip_prefix('.')?.strip_suffix(".journal")?;
    let (index, count) = middle.split_once("-of-")?;
    Some(Some((index.parse().ok()?, count.parse().ok()?)))
}

/// The progress that a journal states. `None` if its header is incomplete, or if it has no rows and
/// belongs to several processes.
fn of_file(path: &Path, shard: Option<(u64, u64)>) -> Result<Option<JournalStatus>> {
    let io = |error| file_error::io("journal", path, error);
    let file = File::options().read(true).custom_flags(NOFOLLOW).open(path).map_err(io)?;
    let is_running = match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    };
    let mut lines = BufReader::new(file).split(b'\n');
    let Some(header) = lines.next().transpose().map_err(io)? else { return Ok(None) };
    let damaged = || file_error::damaged("journal", path, "is not a journal of this program");
    let header: Value = serde_json::from_slice(&header).map_err(|_| damaged())?;
    let fields = header.get(2).ok_or_else(damaged)?;
    let operation = fields.get("operation").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_shared = fields.get("shards").and_then(Value::as_u64).is_some_and(|count| count > 1);
    if is_shared && shard.is_none() {
        return Ok(None);
    }
    let (mut rows, mut is_finished) = (Rows::default(), false);
    for line in lines {
        // The last line may be incomplete.
        let Ok(line) = serde_json::from_slice::<Value>(&line.map_err(io)?) else { break };
        let range = |name: &str| {
            let pair = line.get(name)?.as_array()?;
            Some(pair.first()?.as_u64()?..pair.get(1)?.as_u64()?)
        };
        range("rows").into_iter().for_each(|range| rows.insert(range));
        range("lost").into_iter().for_each(|range| rows.remove(range));
        is_finished |= line.get("finished").is_some();
    }
    Ok(Some(JournalStatus { operation, shard, rows_done: rows.count(), is_finished, is_running }))
}
