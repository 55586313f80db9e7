//! The lines of a journal that follow its header.

use crate::fingerprint::Fingerprint;
use crate::verify::Written;
use serde_json::Value;
use std::ops::Range;

/// A line of a journal that follows the header.
pub(super) enum Entry {
    /// The inode number of the partial output.
    Root(u64),
    /// The index of a file of the input, and the state of this file.
    Item(usize, Value),
    Rows(Written),
    Lost(Range<u64>),
    /// All lines before this byte of the journal have their rows on the disk.
    Synced(u64),
    /// The time at which the partial output was created. Only journals of an output that several
    /// processes write have this line.
    Created(u64),
    /// The process of this journal has written all of its rows. If the run waits for the disk, the
    /// rows are on the disk as well.
    Finished,
}

/// Parses a line. `None` if the line is damaged, or if it names rows that the output does not have.
pub(super) fn entry_of(line: &[u8], fingerprint: &Fingerprint) -> Option<Entry> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    let item = value.get_mut("item").and_then(Value::as_array_mut);
    if let Some([index, stamp]) = item.map(Vec::as_mut_slice) {
        return Some(Entry::Item(usize::try_from(index.as_u64()?).ok()?, stamp.take()));
    }
    let range = |name| {
        let [start, end] = value.get(name)?.as_array()?.as_slice() else { return None };
        let (start, end) = (start.as_u64()?, end.as_u64()?);
        fingerprint.has(&(start..end)).then_some(start..end)
    };
    let number = |name| value.get(name)?.as_u64();
    if let Some(root) = number("root") {
        return Some(Entry::Root(root));
    }
    if let Some(time) = number("created") {
        return Some(Entry::Created(time));
    }
    if let Some(end) = number("synced") {
        return Some(Entry::Synced(end));
    }
    if value.get("finished").is_some() {
        return Some(Entry::Finished);
    }
    if let Some(rows) = range("lost") {
        return Some(Entry::Lost(rows));
    }
    let hash = u64::from_str_radix(value.get("xxh3")?.as_str()?, 16).ok()?;
    Some(Entry::Rows(Written { rows: range("rows")?, hash }))
}
