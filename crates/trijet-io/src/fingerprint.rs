//! The identity of a run, which decides whether a new run may continue a partial output.

use crate::byte_order::ByteOrder;
use crate::input::Input;
use crate::item::{Item, Sameness};
use crate::output::shard::Shard;
use crate::output::target::Target;
use crate::shown::shown;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use trijet::Source;
use trijet::pipeline::Layout;
use xxhash_rust::xxh3::xxh3_128;

/// Maximum number of input files that a message names.
const NAMES_MAX: usize = 3;

/// The names of the fields that identify a job. The other fields describe the circumstances of a
/// run. The circumstances may change from one run of the job to the next.
const JOB: [&str; 5] = ["input", "slice", "operation", "output_format", "shards"];

/// The identity of a run: its job, and the circumstances on which the output depends. Only a run of
/// the same job uses a partial output. That run continues the partial output under two conditions.
/// The circumstances are the same as before. The input files on which the written rows depend have
/// not changed. Other input files may have changed.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    operation: String,
    rows: u64,
    /// The number of the output's row 0 within the results of the whole input.
    first_row: u64,
    path: PathBuf,
    items: Vec<Item>,
    item_rows: u64,
    /// Whether each row may depend on every file of the input.
    needs_all_items: bool,
    granule: u64,
    input_rows: InputRows,
    is_same_input: bool,
}

/// The function that returns the rows of the input on which rows of the results depend.
#[derive(Clone)]
struct InputRows(Arc<dyn Fn(Range<u64>) -> Range<u64> + Send + Sync>);

impl fmt::Debug for InputRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InputRows")
    }
}

/// The result of a comparison of the input files with their earlier states.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The indices of the files that differ in more than `ctime`.
    pub(crate) changed: BTreeSet<usize>,
    /// The indices of the files that differ only in `ctime`. The bytes of these files may have
    /// changed as well. Empty if [`Fingerprint::same_input`] was called.
    pub(crate) doubtful: BTreeSet<usize>,
}

impl Fingerprint {
    /// Identifies the run that applies `operation` to `input` and writes `target`. `operation` is a
    /// text with the operation and its parameters, so that it covers everything else that the
    /// output depends on.
    #[must_use]
    pub fn new(input: &Input, operation: &str, target: &Target) -> Self {
        let Layout { rows, row_bytes, granule, .. } = input.layout();
        let items = input.items().to_vec();
        let mut form = format!("{} {}", input.format().name(), input.array());
        if input.header_bytes() > 0 {
            form.push_str(&format!(" after {} bytes", input.header_bytes()));
        }
        if input.has_swapped_axes() {
            form.push_str(" with exchanged axes");
        }
        if input.byte_order() == ByteOrder::Big {
            form.push_str(" big-endian");
        }
        let mut name = input.canonical_path().to_string_lossy().into_owned();
        if let Some(inner) = input.inner_path() {
            name.push_str(&format!("::/{inner}"));
        }
        let fields = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("input", json!(name)),
            ("input_form", json!(form)),
            ("input_layout", json!([rows, row_bytes, granule])),
            ("operation", json!(operation)),
            ("output_format", json!(target.format().name())),
            ("output_array", json!(target.array().to_string())),
            ("shards", json!(target.shard().map_or(1, Shard::count))),
        ];
        let slice =
            input.indices().map(|Range { start, end }| ("slice", json!(format!("{start}:{end}"))));
        let fields = fields.into_iter().chain(slice);
        let fields = fields.map(|(name, value)| (name.to_owned(), value)).collect();
        // A stream has no files.
        let item_rows = (rows / items.len().max(1) as u64).max(1);
        let needs_all_items = input.has_swapped_axes();
        let (operation, rows) = (operation.to_owned(), target.layout().rows);
        let (path, granule) = (input.canonical_path().to_owned(), target.granule());
        let first_row = target.first_row();
        Self {
            fields,
            operation,
            rows,
            first_row,
            path,
            items,
            item_rows,
            needs_all_items,
            granule,
            input_rows: InputRows(Arc::new(|rows| rows)),
            is_same_input: false,
        }
    }

    /// Declares the rows of the input on which rows of the results depend, if these are not the
    /// same rows. Rows that the input does not have are ignored.
    #[must_use]
    pub fn input_rows(
        mut self,
        input_rows: impl Fn(Range<u64>) -> Range<u64> + Send + Sync + 'static,
    ) -> Self {
        self.input_rows = InputRows(Arc::new(input_rows));
        self
    }

    /// Declares a halo: each row of the results depends on `rows` rows of the input before it, and
    /// on `rows` rows after it.
    #[must_use]
    pub fn halo(self, halo: u64) -> Self {
        self.input_rows(move |rows| rows.start.saturating_sub(halo)..rows.end.saturating_add(halo))
    }

    /// Declares that a file of the input has the same bytes as in an earlier run of the job if its
    /// name, size, time of modification and inode are the same. Without this call, the run is
    /// refused if only the `ctime` of a file has changed, because a program may have changed the
    /// bytes and then restored the old time of modification.
    #[must_use]
    pub fn same_input(mut self) -> Self {
        self.is_same_input = true;
        self
    }

    /// Whether the input is a stream. Another run would read other rows from it.
    pub(crate) fn is_of_stream(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether [`same_input`](Self::same_input) was called.
    pub(crate) fn is_same_input(&self) -> bool {
        self.is_same_input
    }

    /// The name of a file of the input, for messages.
    fn item_name(&self, index: usize) -> String {
        match self.items.get(index) {
            Some(item) if !item.name.is_empty() => shown(&item.name).to_string(),
            _ => shown(&self.path).to_string(),
        }
    }

    /// The names of the input files with these indices, for messages. If there are many files, only
    /// the first few are named.
    pub(crate) fn names_of(&self, indices: BTreeSet<usize>) -> String {
        let more = indices.len().saturating_sub(NAMES_MAX);
        let named = indices.into_iter().take(NAMES_MAX).map(|index| self.item_name(index));
        let names = named.collect::<Vec<_>>().join(", ");
        if more == 0 { names } else { format!("{names} and {more} more") }
    }

    /// The state of the input file with this index when the input was opened, as a JSON value for
    /// the journal. `None` if there is no such file.
    pub(crate) fn stamp(&self, index: usize) -> Option<Value> {
        self.items.get(index).map(Item::stamp)
    }

    /// The indices of the files of the input on which `rows` of the output depend.
    pub(crate) fn items_of(&self, rows: &Range<u64>) -> RangeInclusive<usize> {
        let last = self.items.len().saturating_sub(1);
        if self.needs_all_items {
            return 0..=last;
        }
        let index =
            |row: u64| usize::try_from(row / self.item_rows).map_or(last, |index| index.min(last));
        let whole = |row: u64| self.first_row.saturating_add(row);
        let needed = (self.input_rows.0)(whole(rows.start)..whole(rows.end));
        index(needed.start)..=index(needed.end.saturating_sub(1))
    }

    /// The files of the input on which the output depends, each with its index.
    fn items(&self) -> impl Iterator<Item = (usize, &Item)> {
        let own = self.items_of(&(0..self.rows));
        self.items.iter().enumerate().filter(move |(index, _)| own.contains(index))
    }

    /// The fields of the job and of the circumstances, for the header of the journal.
    pub(crate) fn fields(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    /// The text that describes the operation of the run.
    pub(crate) fn operation(&self) -> &str {
        &self.operation
    }

    /// Whether `rows` are rows of the output that one write can write. For a format that accepts
    /// only whole images, `rows` must be whole images.
    pub(crate) fn has(&self, rows: &Range<u64>) -> bool {
        let is_edge = |row: u64| row.is_multiple_of(self.granule);
        rows.start < rows.end && rows.end <= self.rows && is_edge(rows.start) && is_edge(rows.end)
    }

    /// Compares files of the input with earlier states from a journal. Each entry of `earlier` has
    /// the index of a file and its earlier state. Returns the files that differ.
    pub(crate) fn changes_since<'s>(
        &self,
        earlier: impl Iterator<Item = (usize, &'s Value)>,
    ) -> Changes {
        let mut changes = Changes::default();
        for (index, stamp) in earlier {
            let compared = self.items.get(index).map(|item| item.compare(stamp));
            changes.add(index, compared.unwrap_or(Sameness::Changed), self.is_same_input);
        }
        changes
    }

    /// Compares the files of the input with their states when the input was opened. Returns the
    /// files that differ.
    pub(crate) fn changes_of_run(&self) -> Changes {
        let mut changes = Changes::default();
        for (index, item) in self.items() {
            let compared = match item.now(&self.path) {
                Ok(now) => now.compare(&item.stamp()),
                Err(_) => Sameness::Changed,
            };
            changes.add(index, compared, self.is_same_input);
        }
        changes
    }

    /// A hash of the job, and of the states of the files on which the output depends. The `ctime`
    /// of these files does not change the hash.
    pub(crate) fn job_hash(&self) -> u128 {
        let stamp = |item: &Item| Item { changed: (0, 0), ..item.clone() }.stamp();
        let stamps: Vec<Value> = self.items().map(|(_, item)| stamp(item)).collect();
        let mut fields = self.fields.clone();
        // The content of the output does not depend on the number of shards.
        fields.remove("shards");
        xxh3_128(json!([fields, stamps]).to_string().as_bytes())
    }

    /// A hash of the `ctime` of all files on which the output depends.
    pub(crate) fn state_hash(&self) -> u128 {
        let states: Vec<_> = self.items().map(|(_, item)| item.changed).collect();
        xxh3_128(json!(states).to_string().as_bytes())
    }

    /// A text with the first field in which the journal header `header` and this job differ, and
    /// both values of the field. `None` if `header` belongs to this job.
    pub(crate) fn other_job(&self, header: &Value) -> Option<String> {
        self.difference(header, |name| JOB.contains(&name))
    }

    /// A text with the first circumstance that has changed since the journal header `header` was
    /// written, and both values of the circumstance. `None` if no circumstance has changed.
    pub(crate) fn changed(&self, header: &Value) -> Option<String> {
        self.difference(header, |name| !JOB.contains(&name))
    }

    fn difference(&self, header: &Value, is_of: fn(&str) -> bool) -> Option<String> {
        let theirs = header.as_object().into_iter().flat_map(Map::keys);
        let mut names = self.fields.keys().chain(theirs).filter(|name| is_of(name));
        names.find_map(|name| match (header.get(name), self.fields.get(name)) {
            (then, now) if then == now => None,
            (Some(then), Some(now)) => Some(format!("{name} was {then}, now it is {now}")),
            (None, Some(now)) => Some(format!("there was no {name}, now it is {now}")),
            (Some(then), None) => Some(format!("{name} was {then}, now there is none")),
            (None, None) => None,
        })
    }
}

impl Changes {
    fn add(&mut self, index: usize, compared: Sameness, is_same_input: bool) {
        match compared {
            Sameness::Changed => drop(self.changed.insert(index)),
            Sameness::Doubtful if !is_same_input => drop(self.doubtful.insert(index)),
            Sameness::Same | Sameness::Doubtful => {}
        }
    }
}

/// The advice about a file if only its `ctime` has changed.
pub(crate) const DOUBTFUL: &str = "its bytes may have changed although its time of modification \
                                   has not; use --same-input if they have not changed";
