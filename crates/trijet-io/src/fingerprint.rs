//! The identity of a run.

use crate::input::Input;
use crate::output::target::Target;
use serde_json::{Map, Value, json};
use trijet::Source;
use trijet::pipeline::Layout;

/// The fields that identify a job. The others describe its circumstances, which may change.
const JOB: [&str; 3] = ["input", "operation", "output_form"];

/// The identity of a run: its job, and the circumstances on which the output depends. The partial
/// output of a job belongs to that job alone, and is continued only if nothing else has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    operation: String,
    rows: u64,
}

impl Fingerprint {
    /// The run that applies `operation` to `input` and writes `target`. `operation` describes
    /// everything else that the output depends on: the operation and its parameters.
    #[must_use]
    pub fn new(input: &Input, operation: &str, target: &Target) -> Self {
        let Layout { rows, row_bytes, granule, .. } = input.layout();
        let items = input.items();
        let bytes = items.iter().fold(0, |all: u64, item| all.saturating_add(item.bytes));
        let modified = items.iter().map(|item| item.modified).max().unwrap_or((0, 0));
        let fields = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("input", json!(input.path().to_string_lossy())),
            ("input_bytes", json!(bytes)),
            ("input_modified", json!(format!("{}.{:09}", modified.0, modified.1))),
            ("input_form", json!(format!("{} {}", input.format().name(), input.array()))),
            ("input_layout", json!([rows, row_bytes, granule])),
            ("operation", json!(operation)),
            ("output_form", json!(format!("{} {}", target.format().name(), target.array()))),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { fields, operation: operation.to_owned(), rows: target.layout().rows }
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
        let fields = self.fields.iter().filter(|(name, _)| is_of(name));
        fields.into_iter().find_map(|(name, now)| match header.get(name) {
            Some(then) if then == now => None,
            Some(then) => Some(format!("{name} was {then}, now it is {now}")),
            None => Some(format!("{name} is missing, now it is {now}")),
        })
    }
}
