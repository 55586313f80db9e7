//! The reader of a ledger file.
#![forbid(unsafe_code)]

use super::row::{Previous, Row, RowBefore3, RowBefore5, RowBefore6};
use super::{
    About, BlockKind, FileEnd, MAGIC, OLDER, OPS_MAX, OldAbout, PAYLOAD_MAX, SINCE_GRAPHS,
    SINCE_ORDERED, SINCE_QUEUES, SINCE_ROUTES, TEXTS_MAX, checksum,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Op;
use std::io::Read;
use std::sync::Arc;

/// Reads the operations of a ledger file one after the other. The reader keeps one block and all
/// names in memory.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    magic: [u8; 8],
    /// The offset in bytes of the next block.
    at: u64,
    about: About,
    texts: Vec<Arc<str>>,
    text_bytes: usize,
    payload: Vec<u8>,
    /// The number of bytes of the current block that were decoded.
    taken: usize,
    /// The number of operations of the current block that were not decoded yet.
    left: u32,
    previous: Previous,
    /// The number of operations of the file that were decoded so far.
    read: u64,
    state: ReaderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Reading,
    /// Nothing follows: the reader has reached the end of the file, or has failed.
    Ended,
}

fn damaged(at: u64, cause: impl std::fmt::Display) -> Error {
    let cause = format!("damaged at byte {at}: {cause}");
    Error::new(ErrorKind::InvalidValue, "read ledger", cause)
}

impl<R: Read> Reader<R> {
    /// Opens a ledger file and reads its description.
    ///
    /// # Errors
    /// `Io` if reading fails; `InvalidValue` if the input is not a ledger file, has another
    /// version, or is damaged.
    pub fn new(input: R) -> Result<Self> {
        let about = About {
            tool: String::new(),
            program: String::new(),
            times: super::TimeSource::Missing,
            clock_error_ns: 0,
            dropped: 0,
            order: None,
            devices: Vec::new(),
            hardware_queues: None,
        };
        let mut reader = Self {
            input,
            magic: MAGIC,
            at: 0,
            about,
            texts: Vec::new(),
            text_bytes: 0,
            payload: Vec::new(),
            taken: 0,
            left: 0,
            previous: Previous::default(),
            read: 0,
            state: ReaderState::Reading,
        };
        let mut magic = [0; MAGIC.len()];
        reader.exact(&mut magic)?;
        if magic[..7] != MAGIC[..7] {
            let cause = "not a ledger file, which `trijet map` and `trijet overlap` write with `--trace FILE.ledger`";
            return Err(Error::new(ErrorKind::InvalidValue, "read ledger", cause));
        }
        if magic != MAGIC && !OLDER.contains(&magic[7]) {
            let version = char::from(magic[7]).escape_default();
            let cause =
                format!("a ledger file of version {version}; this program reads versions 1 to 6");
            return Err(Error::new(ErrorKind::InvalidValue, "read ledger", cause));
        }
        reader.magic = magic;
        reader.at = MAGIC.len() as u64;
        if reader.block()? != BlockKind::About {
            return Err(damaged(MAGIC.len() as u64, "the first block is not the description"));
        }
        reader.about = match magic[7] >= SINCE_QUEUES {
            true => reader.decode()?,
            false => reader.decode::<OldAbout>()?.into(),
        };
        Ok(reader)
    }

    /// The description of the run.
    pub fn about(&self) -> &About {
        &self.about
    }

    fn exact(&mut self, into: &mut [u8]) -> Result<()> {
        self.input.read_exact(into).map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::UnexpectedEof {
                let cause = format!("the file ends early, after {} operations", self.read);
                return damaged(self.at, cause);
            }
            Error::new(ErrorKind::Io, "read ledger", cause.to_string()).caused_by(cause)
        })
    }

    /// Reads the next block into `payload`, and returns its kind.
    fn block(&mut self) -> Result<BlockKind> {
        let mut head = [0; 9];
        self.exact(&mut head)?;
        let kind = BlockKind::of(head[0])
            .ok_or_else(|| damaged(self.at, format!("a block of unknown kind {}", head[0])))?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::try_from(word(1)).unwrap_or(usize::MAX);
        if length > PAYLOAD_MAX {
            return Err(damaged(
                self.at,
                format!("a block of {length} bytes; the limit is {PAYLOAD_MAX}"),
            ));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length, 0);
        self.exact(&mut payload)?;
        if checksum(self.magic, &payload) != word(5) {
            return Err(damaged(self.at, "the checksum does not match"));
        }
        self.payload = payload;
        self.at += (head.len() + length) as u64;
        Ok(kind)
    }

    /// Decodes the payload of the current block as one value.
    fn decode<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T> {
        let (value, rest) =
            postcard::take_from_bytes(&self.payload).map_err(|cause| damaged(self.at, cause))?;
        self.demand_end(rest)?;
        Ok(value)
    }

    /// Refuses a block with bytes after its content.
    fn demand_end(&self, rest: &[u8]) -> Result<()> {
        if rest.is_empty() {
            return Ok(());
        }
        Err(damaged(self.at, format!("a block has {} bytes after its content", rest.len())))
    }

    fn read_texts(&mut self) -> Result<()> {
        let fresh: Vec<&str> = self.decode()?;
        let fresh: Vec<Arc<str>> = fresh.into_iter().map(Arc::from).collect();
        self.text_bytes +=
            fresh.iter().map(|text| text.len() + size_of::<Arc<str>>()).sum::<usize>();
        if self.text_bytes > TEXTS_MAX {
            return Err(damaged(self.at, format!("the names have more than {TEXTS_MAX} bytes")));
        }
        self.texts.extend(fresh);
        Ok(())
    }

    fn begin_ops(&mut self) -> Result<()> {
        let (count, _) = self.payload.split_first_chunk().ok_or_else(|| {
            damaged(self.at, "a block of operations that does not state how many operations it has")
        })?;
        self.left = u32::from_le_bytes(*count);
        if usize::try_from(self.left).is_ok_and(|count| count > OPS_MAX) || self.left == 0 {
            return Err(damaged(
                self.at,
                format!(
                    "a block of {} operations; at most {OPS_MAX} and at least one are allowed",
                    self.left
                ),
            ));
        }
        self.taken = size_of::<u32>();
        self.previous = Previous::default();
        Ok(())
    }

    fn next_op(&mut self) -> Result<Op> {
        let rest = &self.payload[self.taken..];
        let damaged_row = |cause| damaged(self.at, cause);
        let (previous, texts) = (&mut self.previous, &self.texts);
        let (op, after) = match self.magic[7] {
            SINCE_GRAPHS.. => {
                let (row, after) = postcard::take_from_bytes::<Row>(rest).map_err(damaged_row)?;
                (row.op(previous, texts), after)
            }
            SINCE_ROUTES.. => {
                let read = postcard::take_from_bytes::<RowBefore6>(rest);
                let (row, after) = read.map_err(damaged_row)?;
                (row.op(previous, texts), after)
            }
            SINCE_ORDERED.. => {
                let read = postcard::take_from_bytes::<RowBefore5>(rest);
                let (row, after) = read.map_err(damaged_row)?;
                (row.op(previous, texts), after)
            }
            _ => {
                let read = postcard::take_from_bytes::<RowBefore3>(rest);
                let (row, after) = read.map_err(damaged_row)?;
                (row.op(previous, texts), after)
            }
        };
        self.taken = self.payload.len() - after.len();
        self.left -= 1;
        if self.left == 0 {
            self.demand_end(after)?;
        }
        self.read += 1;
        op.ok_or_else(|| damaged(self.at, "an operation has a name that the file does not have"))
    }

    fn advance(&mut self) -> Result<Option<Op>> {
        loop {
            if self.left > 0 {
                return self.next_op().map(Some);
            }
            match self.block()? {
                BlockKind::About => return Err(damaged(self.at, "a second description")),
                BlockKind::Texts => self.read_texts()?,
                BlockKind::Ops => self.begin_ops()?,
                BlockKind::End => {
                    let end: FileEnd = self.decode()?;
                    let found = FileEnd { ops: self.read, texts: self.texts.len() as u64 };
                    if end != found {
                        let cause = format!("the file has {found}, but its end counts {end}");
                        return Err(damaged(self.at, cause));
                    }
                    return Ok(None);
                }
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Op>;

    /// The next operation; `None` after the last one, and after an error.
    fn next(&mut self) -> Option<Result<Op>> {
        if self.state == ReaderState::Ended {
            return None;
        }
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.state = ReaderState::Ended;
        }
        next
    }
}
