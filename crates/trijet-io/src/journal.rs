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
use crate::fingerprint::Fingerprint;
use crate::rows::Rows;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::Result;

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
        self.line(&Value::Object(fingerprint.header()))
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
                done.insert(rows_of(&line, fingerprint.rows()).ok_or_else(|| {
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
