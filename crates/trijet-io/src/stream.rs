//! Arrays in streams, such as the standard input and the standard output. A stream is read or
//! written once, in the order of its rows.

use crate::array::Array;
use crate::byte_order::{ByteOrder, swap};
use crate::file_error;
use crate::format::Reader;
use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::{Error, ErrorKind, Result, Sink};

/// The number of bytes of a stream that are skipped at once.
const SKIPPED_BYTES: usize = 64 << 10;

/// The rows of an array in a stream.
#[derive(Debug)]
pub(crate) struct StreamReader {
    array: Array,
    order: ByteOrder,
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    stream: Box<dyn Read + Send>,
    /// The next row that the stream gives.
    next: u64,
    /// The bytes of the rows from the start of the last read to `next`. They can be read again: the
    /// chunks of a run overlap, and each chunk starts at the start of the chunk before it or later.
    kept: Vec<u8>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("next", &self.next).finish_non_exhaustive()
    }
}

impl StreamReader {
    /// The rows of `array`, which come next from `stream`. Messages name the stream `path`.
    pub(crate) fn new(
        stream: Box<dyn Read + Send>,
        path: &Path,
        array: Array,
        order: ByteOrder,
    ) -> Self {
        let state = State { stream, next: 0, kept: Vec::new() };
        Self { array, order, path: path.to_owned(), state: Mutex::new(state) }
    }

    fn read_in(&self, order: ByteOrder, rows: &Range<u64>, into: &mut [u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let row_bytes = self.array.layout().row_bytes;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let first_kept = state.next - state.kept.len() as u64 / row_bytes;
        if rows.start < first_kept {
            let cause = format!(
                "rows {}..{} were asked for, but a stream is read in order, and row {} is next",
                rows.start, rows.end, state.next
            );
            return Err(file_error::refused("read", &self.path, cause));
        }
        let index = |rows: u64| usize::try_from(rows * row_bytes).unwrap_or(usize::MAX);
        if rows.start > state.next {
            self.skip(state, (rows.start - state.next) * row_bytes)?;
            state.kept.clear();
            state.next = rows.start;
        }
        let (again, new) = into.split_at_mut(index(state.next.min(rows.end) - rows.start));
        let from = state.kept.len() - index(state.next - rows.start);
        again.copy_from_slice(&state.kept[from..from + again.len()]);
        self.fill(state, new)?;
        if order != self.order {
            swap(self.array.dtype(), new);
        }
        if rows.end > state.next {
            self.end_of(state, rows.end)?;
            state.next = rows.end;
            state.kept.extend_from_slice(new);
        }
        let surplus = state.kept.len() - index(state.next - rows.start);
        state.kept.drain(..surplus);
        Ok(())
    }

    fn fill(&self, state: &mut State, into: &mut [u8]) -> Result<()> {
        state.stream.read_exact(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let bytes = self.array.bytes();
                let cause = format!("the data are cut off: {} needs {bytes} bytes", self.array);
                file_error::damaged("read", &self.path, cause)
            }
            _ => file_error::io("read", &self.path, error),
        })
    }

    fn skip(&self, state: &mut State, bytes: u64) -> Result<()> {
        let mut left = bytes;
        let mut buffer = vec![0; SKIPPED_BYTES];
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(SKIPPED_BYTES);
            self.fill(state, &mut buffer[..part])?;
            left -= part as u64;
        }
        Ok(())
    }

    /// After the last row, checks that the stream has nothing else.
    fn end_of(&self, state: &mut State, row: u64) -> Result<()> {
        if row < self.array.layout().rows {
            return Ok(());
        }
        let mut more = Vec::new();
        let ended = state.stream.by_ref().take(1).read_to_end(&mut more);
        ended.map_err(|error| file_error::io("read", &self.path, error))?;
        if more.is_empty() {
            return Ok(());
        }
        let (array, bytes) = (&self.array, self.array.bytes());
        let cause = format!("the data are longer than {array}, which needs {bytes} bytes");
        Err(file_error::damaged("read", &self.path, cause))
    }
}

impl Reader for Arc<StreamReader> {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_in(ByteOrder::Little, &rows, into)
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_in(self.order, &rows, into)
    }
}

/// An array that is written to a stream in the order of its rows, such as the standard output. A
/// stream cannot be resumed.
///
/// ```
/// use trijet::Sink;
/// use trijet_io::{Array, Dtype, StreamOutput};
/// let mut bytes = Vec::new();
/// let mut output = StreamOutput::new(&mut bytes, Array::new(Dtype::U8, vec![2, 2])?).headerless();
/// output.write(0..1, &[1, 2])?;
/// output.write(1..2, &[3, 4])?;
/// output.finish()?;
/// assert_eq!(bytes, [1, 2, 3, 4]);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamOutput<W> {
    stream: W,
    array: Array,
    header: Vec<u8>,
    next: u64,
}

impl<W: Write + Send> StreamOutput<W> {
    /// Describes an `.npy` file of `array` that is written to `stream`. Nothing is written before
    /// the first row.
    #[must_use]
    pub fn new(stream: W, array: Array) -> Self {
        let header = array.npy_header();
        Self { stream, array, header, next: 0 }
    }

    /// Leaves out the header: the stream gets the elements and nothing else.
    #[must_use]
    pub fn headerless(mut self) -> Self {
        self.header.clear();
        self
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let header = std::mem::take(&mut self.header);
        let put = self.stream.write_all(&header).and_then(|()| self.stream.write_all(bytes));
        put.map_err(|error| file_error::io("write", Path::new("-"), error))
    }
}

impl<W: Write + Send> Sink for StreamOutput<W> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        if rows.start != self.next {
            let cause =
                format!("a stream is written in order: row {} before {}", self.next, rows.start);
            return Err(Error::new(ErrorKind::InvalidValue, "write", cause));
        }
        self.next = rows.end;
        self.put(bytes)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        let rows = self.array.layout().rows;
        if self.next != rows {
            let cause = format!("{} of {rows} rows were written", self.next);
            return Err(Error::new(ErrorKind::InvalidValue, "finish", cause));
        }
        self.put(&[])?;
        self.stream.flush().map_err(|error| file_error::io("write", Path::new("-"), error))
    }
}
