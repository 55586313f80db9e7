//! The writer of a ledger file.
#![forbid(unsafe_code)]

use super::row::{Previous, Row};
use super::{About, BlockKind, FileEnd, MAGIC, OPS_MAX, PAYLOAD_MAX, checksum};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Op;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

/// Writes the operations of a ledger file one after the other. The file is incomplete until
/// [`Writer::finish`].
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    /// For each name of the file, its number.
    texts: HashMap<String, u32>,
    /// The names that have a number and are not in a block yet.
    fresh: Vec<String>,
    /// The rows of the next block.
    payload: Vec<u8>,
    /// The number of rows in `payload`.
    rows: usize,
    previous: Previous,
    /// The number of operations that were written.
    written: u64,
}

fn failed(cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "write ledger", cause.to_string()).caused_by(cause)
}

fn encode(value: &impl Serialize, into: Vec<u8>) -> Result<Vec<u8>> {
    postcard::to_extend(value, into).map_err(|cause| {
        Error::new(ErrorKind::InvalidValue, "write ledger", "a value cannot be encoded")
            .caused_by(cause)
    })
}

impl<W: Write> Writer<W> {
    /// Begins a ledger file and writes its description.
    ///
    /// ```
    /// use trijet::trace::TimeSource;
    /// use trijet::trace::file::{About, Reader, Writer};
    /// let about = About {
    ///     tool: "example".to_owned(),
    ///     program: "nothing".to_owned(),
    ///     times: TimeSource::Missing,
    ///     clock_error_ns: 0,
    ///     dropped: 0,
    ///     order: None,
    ///     devices: Vec::new(),
    ///     hardware_queues: None,
    /// };
    /// let bytes = Writer::new(Vec::new(), &about)?.finish()?;
    /// let mut reader = Reader::new(bytes.as_slice())?;
    /// assert_eq!(*reader.about(), about);
    /// assert!(reader.next().is_none());
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Io` if writing fails.
    pub fn new(mut out: W, about: &About) -> Result<Self> {
        out.write_all(&MAGIC).map_err(failed)?;
        let mut writer = Self {
            out,
            texts: HashMap::new(),
            fresh: Vec::new(),
            payload: Vec::new(),
            rows: 0,
            previous: Previous::default(),
            written: 0,
        };
        let payload = encode(about, Vec::new())?;
        writer.block(BlockKind::About, &payload)?;
        Ok(writer)
    }

    fn block(&mut self, kind: BlockKind, payload: &[u8]) -> Result<()> {
        let long = || {
            let cause = format!("a block of {} bytes; the limit is {PAYLOAD_MAX}", payload.len());
            Error::new(ErrorKind::InvalidValue, "write ledger", cause)
        };
        let length = u32::try_from(payload.len()).map_err(|_| long())?;
        if payload.len() > PAYLOAD_MAX {
            return Err(long());
        }
        let mut head = [0; 9];
        head[0] = kind as u8;
        head[1..5].copy_from_slice(&length.to_le_bytes());
        head[5..].copy_from_slice(&checksum(MAGIC, payload).to_le_bytes());
        self.out.write_all(&head).map_err(failed)?;
        self.out.write_all(payload).map_err(failed)
    }

    /// Appends an operation.
    ///
    /// # Errors
    /// `Io` if writing fails; `InvalidValue` if the row of the operation has several megabytes.
    pub fn push(&mut self, op: &Op) -> Result<()> {
        let Self { texts, fresh, .. } = self;
        let row = Row::of(op, &mut self.previous, |text| match texts.get(text) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(texts.len()).unwrap_or(u32::MAX);
                texts.insert(text.to_owned(), number);
                fresh.push(text.to_owned());
                number
            }
        });
        self.payload = encode(&row, std::mem::take(&mut self.payload))?;
        self.rows += 1;
        if self.rows == OPS_MAX || self.payload.len() > PAYLOAD_MAX / 2 {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the new names and the next block of operations.
    fn flush(&mut self) -> Result<()> {
        if !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            let payload = encode(&fresh, Vec::new())?;
            self.block(BlockKind::Texts, &payload)?;
        }
        if self.rows > 0 {
            let rows = u32::try_from(self.rows).unwrap_or(u32::MAX);
            let mut payload = rows.to_le_bytes().to_vec();
            payload.append(&mut self.payload);
            self.block(BlockKind::Ops, &payload)?;
            self.written += self.rows as u64;
            self.rows = 0;
            self.previous = Previous::default();
        }
        Ok(())
    }

    /// Writes the remaining operations and the end of the file.
    ///
    /// # Errors
    /// `Io` if writing fails.
    pub fn finish(mut self) -> Result<W> {
        self.flush()?;
        let end = FileEnd { ops: self.written, texts: self.texts.len() as u64 };
        let payload = encode(&end, Vec::new())?;
        self.block(BlockKind::End, &payload)?;
        self.out.flush().map_err(failed)?;
        Ok(self.out)
    }
}
