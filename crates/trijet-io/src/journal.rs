//! The journal of a run: the rows of the output that are written, so that a stopped run can be
//! resumed.
//!
//! The journal is a text file that only grows. Its first line identifies the run. Each further line
//! is `{"rows":[a,b]}`, appended after these rows were written, so that every row named in the
//! journal exists in the output. If the process dies, the last line may be incomplete; it is then
//! ignored. The journal survives the death of the process, not a power failure.
//!
//! A lock on the file keeps other runs from writing the same output.

use crate::file_error;
use crate::format::Input;
use crate::output::target::Target;
use serde_json::{Map, Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::pipeline::Layout;
use trijet::{Result, Source};

/// The identity of a run. A journal only continues a run with the same fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    rows: u64,
}

impl Fingerprint {
    /// The run that applies `operation` to `input` and writes `target`. `operation` describes
    /// everything else that the output depends on: the operation and its parameters.
    #[must_use]
    pub fn new(input: &Input, operation: &str, target: &Target) -> Self {
        let Layout { rows, row_bytes, granule, .. } = input.layout();
        let state = input.state();
        let fields = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("input", json!(state.path.to_string_lossy())),
            ("input_bytes", json!(state.bytes)),
            ("input_modified", json!(format!("{}.{:09}", state.modified.0, state.modified.1))),
            ("input_form", json!(format!("{} {}", input.kind(), input.array()))),
            ("input_layout", json!([rows, row_bytes, granule])),
            ("operation", json!(operation)),
            ("output_form", json!(format!("{} {}", target.kind(), target.array()))),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { fields, rows: target.layout().rows }
    }

    /// The first field in which the header of a journal differs, with both values.
    fn difference(&self, header: &Map<String, Value>) -> Option<String> {
        self.fields.iter().find_map(|(name, now)| match header.get(name) {
            Some(then) if then == now => None,
            Some(then) => Some(format!("{name} was {then}, now it is {now}")),
            None => Some(format!("{name} is missing, now it is {now}")),
        })
    }
}

/// A set of rows, as sorted ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    ranges: Vec<Range<u64>>,
}

impl Rows {
    /// Adds `rows` to the set.
    ///
    /// ```
    /// use trijet_io::journal::Rows;
    /// let mut done = Rows::default();
    /// done.insert(4..6);
    /// done.insert(0..2);
    /// done.insert(2..3);
    /// assert_eq!(done.ranges(), [0..3, 4..6]);
    /// assert_eq!(done.missing(8), [3..4, 6..8]);
    /// ```
    pub fn insert(&mut self, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end < rows.start);
        let to = self.ranges.partition_point(|range| range.start <= rows.end);
        let mut merged = rows;
        for range in &self.ranges[from..to] {
            merged = merged.start.min(range.start)..merged.end.max(range.end);
        }
        self.ranges.splice(from..to, [merged]);
    }

    /// The ranges in ascending order; no two overlap or touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The rows below `rows` that are not in the set.
    #[must_use]
    pub fn missing(&self, rows: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            missing.push(next..range.start.min(rows));
            next = range.end;
        }
        missing.push(next..rows);
        missing.retain(|range| !range.is_empty());
        missing
    }
}

/// The open journal of one run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens or creates the journal at `path`, and locks it until it is dropped.
    ///
    /// # Errors
    /// `InvalidValue` when another run has locked it, `Io` when it cannot be opened.
    pub fn lock(path: &Path) -> Result<Self> {
        let io = |error| file_error::io("journal", path, error);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path: path.to_owned() }),
            Err(TryLockError::WouldBlock) => Err(file_error::refused(
                "journal",
                path,
                "another run is writing this output; wait for it or choose another output",
            )),
            Err(TryLockError::Error(error)) => Err(io(error)),
        }
    }

    /// Empties the journal. Until [`create`](Self::create) is called, there is nothing to resume.
    ///
    /// # Errors
    /// `Io`.
    pub fn clear(&mut self) -> Result<()> {
        self.cut(0)
    }

    /// Begins the journal of the run that `fingerprint` identifies.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(&mut self, fingerprint: &Fingerprint) -> Result<()> {
        self.cut(0)?;
        self.line(&Value::Object(fingerprint.fields.clone()))
    }

    /// Reads the rows that the journal names, so that more can be appended. `None` for a new
    /// journal, and for one whose first line is incomplete.
    ///
    /// # Errors
    /// `InvalidValue` when the journal belongs to another run; the message names the field that
    /// differs. `Io` when a complete line is damaged.
    pub fn resume(&mut self, fingerprint: &Fingerprint) -> Result<Option<Rows>> {
        let io = |error| file_error::io("journal", &self.path, error);
        let mut done = Rows::default();
        let (mut end, mut line) = (0_u64, Vec::new());
        let mut reader = BufReader::new(&self.file);
        reader.seek(SeekFrom::Start(0)).map_err(io)?;
        loop {
            line.clear();
            let bytes = reader.read_until(b'\n', &mut line).map_err(io)?;
            if line.pop() != Some(b'\n') {
                break;
            }
            if end == 0 {
                self.compare(fingerprint, &line)?;
            } else {
                done.insert(rows_of(&line, fingerprint.rows).ok_or_else(|| {
                    file_error::damaged(
                        "journal",
                        &self.path,
                        format!(
                            "the line at byte {end} is damaged; run without --resume to start over"
                        ),
                    )
                })?);
            }
            end += bytes as u64;
        }
        self.cut(end)?;
        Ok((end > 0).then_some(done))
    }

    /// Adds a line for `rows`, which are written.
    ///
    /// # Errors
    /// `Io`.
    pub fn append(&mut self, rows: &Range<u64>) -> Result<()> {
        self.line(&json!({ "rows": [rows.start, rows.end] }))
    }

    /// Deletes the journal of a finished run.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| file_error::io("journal", &self.path, error))
    }

    fn compare(&self, fingerprint: &Fingerprint, line: &[u8]) -> Result<()> {
        let Ok(Value::Object(header)) = serde_json::from_slice(line) else {
            return Err(file_error::damaged(
                "journal",
                &self.path,
                "the first line is not a header; run without --resume to start over",
            ));
        };
        match fingerprint.difference(&header) {
            None => Ok(()),
            Some(difference) => {
                let cause = format!("the journal belongs to another run: {difference}");
                Err(file_error::refused("journal", &self.path, cause))
            }
        }
    }

    /// Shortens the file to `bytes` bytes and continues at its end.
    fn cut(&mut self, bytes: u64) -> Result<()> {
        self.file
            .set_len(bytes)
            .and_then(|()| self.file.seek(SeekFrom::Start(bytes)))
            .map(|_| ())
            .map_err(|error| file_error::io("journal", &self.path, error))
    }

    /// Appends a line with one write, so that only the last line can be incomplete.
    fn line(&mut self, value: &Value) -> Result<()> {
        let line = format!("{value}\n");
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| file_error::io("journal", &self.path, error))
    }
}

/// The rows that a line names; `None` when the line is damaged or the output has no such rows.
fn rows_of(line: &[u8], rows: u64) -> Option<Range<u64>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let [start, end] = value.get("rows")?.as_array()?.as_slice() else { return None };
    let (start, end) = (start.as_u64()?, end.as_u64()?);
    (start < end && end <= rows).then_some(start..end)
}
