//! The identity of a run.

use crate::input::Input;
use crate::item::Item;
use crate::output::shard::Shard;
use crate::output::target::Target;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use trijet::Source;
use trijet::pipeline::Layout;
use xxhash_rust::xxh3::xxh3_128;

/// The most files that a message names.
const NAMES_MAX: usize = 3;

/// The fields that identify a job. The others describe its circumstances, which may change.
const JOB: [&str; 4] = ["input", "operation", "output_format", "shards"];

/// The identity of a run: its job, and the circumstances on which the output depends. The partial
/// output of a job belongs to that job alone. It is continued only if the circumstances are the
/// same, and the files on which its rows depend have not changed. Other files may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    operation: String,
    rows: u64,
    path: PathBuf,
    items: Vec<Item>,
    item_rows: u64,
    granule: u64,
    halo: u64,
}

impl Fingerprint {
    /// The run that applies `operation` to `input` and writes `target`. `operation` describes
    /// everything else that the output depends on: the operation and its parameters.
    #[must_use]
    pub fn new(input: &Input, operation: &str, target: &Target) -> Self {
        let Layout { rows, row_bytes, granule, .. } = input.layout();
        let items = input.items().to_vec();
        let fields = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("input", json!(input.canonical_path().to_string_lossy())),
            ("input_form", json!(format!("{} {}", input.format().name(), input.array()))),
            ("input_layout", json!([rows, row_bytes, granule])),
            ("operation", json!(operation)),
            ("output_format", json!(target.format().name())),
            ("output_array", json!(target.array().to_string())),
            ("shards", json!(target.shard().map_or(1, Shard::count))),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let item_rows = (rows / items.len() as u64).max(1);
        let (operation, rows) = (operation.to_owned(), target.layout().rows);
        let (path, granule) = (input.canonical_path().to_owned(), target.granule());
        Self { fields, operation, rows, path, items, item_rows, granule, halo: 0 }
    }

    /// Says that a row of the output depends on `rows` rows of the input before it and after it.
    #[must_use]
    pub fn halo(mut self, rows: u64) -> Self {
        self.halo = rows;
        self
    }

    /// The name of a file of the input, for messages.
    fn item_name(&self, index: usize) -> String {
        match self.items.get(index) {
            Some(item) if !item.name.is_empty() => item.name.display().to_string(),
            _ => self.path.display().to_string(),
        }
    }

    /// The names of these files of the input, for messages, which name the first few.
    pub(crate) fn names_of(&self, indices: BTreeSet<usize>) -> String {
        let more = indices.len().saturating_sub(NAMES_MAX);
        let named = indices.into_iter().take(NAMES_MAX).map(|index| self.item_name(index));
        let names = named.collect::<Vec<_>>().join(", ");
        if more == 0 { names } else { format!("{names} and {more} more") }
    }

    /// The state of a file of the input.
    pub(crate) fn stamp(&self, index: usize) -> Option<Value> {
        self.items.get(index).map(Item::stamp)
    }

    /// The indices of the files of the input on which `rows` of the output depend.
    pub(crate) fn items_of(&self, rows: &Range<u64>) -> RangeInclusive<usize> {
        let index = |row: u64| {
            let last = self.items.len().saturating_sub(1);
            usize::try_from(row / self.item_rows).map_or(last, |index| index.min(last))
        };
        let end = rows.end.saturating_add(self.halo).saturating_sub(1);
        index(rows.start.saturating_sub(self.halo))..=index(end)
    }

    /// The fields, for the first line of the journal.
    pub(crate) fn fields(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// The operation of the run.
    pub(crate) fn operation(&self) -> &str {
        &self.operation
    }

    /// Whether a write of `rows` is possible: they are in the output, and whole images of a format
    /// that takes whole images.
    pub(crate) fn has(&self, rows: &Range<u64>) -> bool {
        let is_edge = |row: u64| row.is_multiple_of(self.granule);
        rows.start < rows.end && rows.end <= self.rows && is_edge(rows.start) && is_edge(rows.end)
    }

    /// The indices of the files of the input that are not as they were when it was opened.
    pub(crate) fn changed_items(&self) -> BTreeSet<usize> {
        let is_changed = |(index, item): (usize, &Item)| {
            let state = fs::metadata(self.path_of(item));
            let is_same = state.is_ok_and(|state| Item::new(item.name.clone(), &state) == *item);
            (!is_same).then_some(index)
        };
        self.items.iter().enumerate().filter_map(is_changed).collect()
    }

    /// The path of a file of the input.
    fn path_of(&self, item: &Item) -> PathBuf {
        if item.name.is_empty() { self.path.clone() } else { self.path.join(&item.name) }
    }

    /// A number that is the same for runs of this job whose input has not changed.
    pub(crate) fn job_hash(&self) -> u128 {
        let stamps: Vec<Value> = self.items.iter().map(Item::stamp).collect();
        let mut fields = self.fields.clone();
        // The output does not depend on it.
        fields.remove("shards");
        xxh3_128(json!([fields, stamps]).to_string().as_bytes())
    }

    /// The first field in which `header` belongs to another job, with both values.
    pub(crate) fn other_job(&self, header: &Value) -> Option<String> {
        self.difference(header, |name| JOB.contains(&name))
    }

    /// The first circumstance that has changed since `header` was written, with both values.
    pub(crate) fn changed(&self, header: &Value) -> Option<String> {
        self.difference(header, |name| !JOB.contains(&name))
    }

    fn difference(&self, header: &Value, is_of: fn(&str) -> bool) -> Option<String> {
        let mut fields = self.fields.iter().filter(|(name, _)| is_of(name));
        fields.find_map(|(name, now)| match header.get(name) {
            Some(then) if then == now => None,
            Some(then) => Some(format!("{name} was {then}, now it is {now}")),
            None => Some(format!("{name} is missing, now it is {now}")),
        })
    }
}
