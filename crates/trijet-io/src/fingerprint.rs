//! The identity of a run.

use crate::input::Input;
use crate::item::Item;
use crate::output::target::Target;
use serde_json::{Map, Value, json};
use std::ops::{Range, RangeInclusive};
use trijet::Source;
use trijet::pipeline::Layout;

/// The fields that identify a job. The others describe its circumstances, which may change.
const JOB: [&str; 3] = ["input", "operation", "output_format"];

/// The identity of a run: its job, and the circumstances on which the output depends. The partial
/// output of a job belongs to that job alone. It is continued only if the circumstances are the
/// same, and the files on which its rows depend have not changed. Other files may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    operation: String,
    rows: u64,
    items: Vec<Item>,
    item_rows: u64,
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
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let item_rows = (rows / items.len() as u64).max(1);
        let (operation, rows) = (operation.to_owned(), target.layout().rows);
        Self { fields, operation, rows, items, item_rows, halo: 0 }
    }

    /// Says that a row of the output depends on `rows` rows of the input before it and after it.
    #[must_use]
    pub fn halo(mut self, rows: u64) -> Self {
        self.halo = rows;
        self
    }

    /// The name of a file of the input, for messages.
    pub(crate) fn item_name(&self, index: usize) -> String {
        match self.items.get(index) {
            Some(item) if !item.name.is_empty() => item.name.display().to_string(),
            _ => "the file".to_owned(),
        }
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

    /// The number of rows of the output.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
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
