//! The journal of a run: which rows of the output are written, so that a stopped run can go on.
//!
//! A text file that only grows. The first line says which run it belongs to; every further line is
//! `{"rows":[a,b]}` and is appended after those rows were written, so a row that the journal names
//! is there. It may lose the end of its last line when the process dies; that line then counts for
//! nothing. This holds against the end of the process, not against the end of the power.
//!
//! A lock on the file keeps a second run away from the same output.

use crate::fault;
use crate::format::Input;
use crate::output::target::Target;
use serde_json::{Map, Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::Result;
use trijet::pipeline::{Layout, Source};

/// What a run is: a journal continues a run with the same fingerprint only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    fields: Map<String, Value>,
    rows: u64,
}

impl Fingerprint {
    /// The run that brings `input` through `operation` to `target`. `operation` is all that the
    /// bytes of the output depend on besides, in words: the operator and its parameters.
    #[must_use]
    pub fn new(input: &Input, operation: &str, target: &Target) -> Self {
        let Layout { rows, row_bytes, granule } = input.layout();
        let stamp = input.stamp();
        let fields = [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("input", json!(stamp.path.to_string_lossy())),
            ("input_bytes", json!(stamp.bytes)),
            ("input_modified", json!(format!("{}.{:09}", stamp.modified.0, stamp.modified.1))),
            ("input_form", json!(format!("{} {}", input.kind(), input.array()))),
            ("input_layout", json!([rows, row_bytes, granule])),
            ("operation", json!(operation)),
            ("output_form", json!(format!("{} {}", target.kind(), target.array()))),
        ];
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { fields, rows: target.layout().rows }
    }

    /// The first field in which a journal's header differs, with both values.
    fn difference(&self, header: &Map<String, Value>) -> Option<String> {
        self.fields.iter().find_map(|(name, now)| match header.get(name) {
            Some(then) if then == now => None,
            Some(then) => Some(format!("{name} was {then} and is {now}")),
            None => Some(format!("{name} is missing and is {now}")),
        })
    }
}

/// A set of rows, as sorted ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    ranges: Vec<Range<u64>>,
}

impl Rows {
    /// Adds `rows`.
    ///
    /// ```
    /// use trijet_cli::journal::Rows;
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

    /// The ranges, in order; none touches the next.
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
    /// Opens or creates the journal at `path`, and keeps other runs away until it is dropped.
    ///
    /// # Errors
    /// `InvalidValue` when another run holds it, `Io` when it cannot be opened.
    pub fn lock(path: &Path) -> Result<Self> {
        let io = |error| fault::io("journal", path, error);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path: path.to_owned() }),
            Err(TryLockError::WouldBlock) => {
                Err(fault::refused("journal", path, "another run is writing this output"))
            }
            Err(TryLockError::Error(error)) => Err(io(error)),
        }
    }

    /// Forgets everything: from here on, until [`create`](Self::create), there is nothing to
    /// resume.
    ///
    /// # Errors
    /// `Io`.
    pub fn clear(&mut self) -> Result<()> {
        self.cut(0)
    }

    /// Begins the journal of the run that `fingerprint` describes.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(&mut self, fingerprint: &Fingerprint) -> Result<()> {
        self.cut(0)?;
        self.line(&Value::Object(fingerprint.fields.clone()))
    }

    /// The rows that the journal says are written, ready to append more. `None` when it says
    /// nothing: it is new, or its first line is torn.
    ///
    /// # Errors
    /// `InvalidValue`, naming the field, when it belongs to another run; `Io` when a whole line of
    /// it is damaged.
    pub fn resume(&mut self, fingerprint: &Fingerprint) -> Result<Option<Rows>> {
        let io = |error| fault::io("journal", &self.path, error);
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
                    fault::damaged("journal", &self.path, format!("damaged at byte {end}"))
                })?);
            }
            end += bytes as u64;
        }
        self.cut(end)?;
        Ok((end > 0).then_some(done))
    }

    /// Notes that `rows` are written.
    ///
    /// # Errors
    /// `Io`.
    pub fn append(&mut self, rows: &Range<u64>) -> Result<()> {
        self.line(&json!({ "rows": [rows.start, rows.end] }))
    }

    /// Deletes the journal: its run is finished.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|error| fault::io("journal", &self.path, error))
    }

    fn compare(&self, fingerprint: &Fingerprint, line: &[u8]) -> Result<()> {
        let Ok(Value::Object(header)) = serde_json::from_slice(line) else {
            return Err(fault::damaged("journal", &self.path, "the first line is no header"));
        };
        match fingerprint.difference(&header) {
            None => Ok(()),
            Some(difference) => {
                let cause = format!("it belongs to another run: {difference}");
                Err(fault::refused("journal", &self.path, cause))
            }
        }
    }

    fn cut(&mut self, bytes: u64) -> Result<()> {
        self.file
            .set_len(bytes)
            .and_then(|()| self.file.seek(SeekFrom::Start(bytes)))
            .map(|_| ())
            .map_err(|error| fault::io("journal", &self.path, error))
    }

    /// One write per line, so that only the last line can be torn.
    fn line(&mut self, value: &Value) -> Result<()> {
        let line = format!("{value}\n");
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| fault::io("journal", &self.path, error))
    }
}

/// The rows that a line names, when it is sound and they exist.
fn rows_of(line: &[u8], rows: u64) -> Option<Range<u64>> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let [start, end] = value.get("rows")?.as_array()?.as_slice() else { return None };
    let (start, end) = (start.as_u64()?, end.as_u64()?);
    (start < end && end <= rows).then_some(start..end)
}
