//! The lines of a journal after its header.

use crate::fingerprint::Fingerprint;
use crate::verify::Written;
use serde_json::Value;
use std::ops::Range;

/// A line of the journal after the header.
pub(super) enum Entry {
    /// The inode number of the partial output.
    Root(u64),
    Item(usize, Value),
    Rows(Written),
    Lost(Range<u64>),
    /// The rows of all lines before this byte of the journal are on the disk.
    Synced(u64),
    /// The time at which the partial output that several processes share was created.
    Created(u64),
    /// All rows of this process are written. If the run waits for the disk, they are also on the
    /// disk.
    Finished,
}

/// Parses a line. `None` when the line is damaged, or names rows that the output does not have.
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
