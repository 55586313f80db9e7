//! Sources: a path, an array in memory, or an object of Python that returns rows.

use crate::array::{array, rows_of_item};
use crate::error::{OrRaise, of_exception, refused};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use trijet::Result;
use trijet_io::format::Reader;
use trijet_io::{Array, ByteOrder, Input, Plain};

/// A file or a folder.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct PathSource {
    path: PathBuf,
    plain: Option<Plain>,
    pub(crate) skip_damaged: bool,
}

#[pymethods]
impl PathSource {
    #[new]
    #[pyo3(signature = (path, *, dtype=None, shape=None, header=0, big_endian=false,
                        any_name=false, skip_damaged=false))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of a file")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        dtype: Option<&str>,
        shape: Option<Vec<u64>>,
        header: u64,
        big_endian: bool,
        any_name: bool,
        skip_damaged: bool,
    ) -> PyResult<Self> {
        let plain = match (dtype, shape) {
            (Some(dtype), Some(shape)) => {
                let plain = Plain::new(array(py, dtype, shape)?).header(header);
                let plain = if big_endian { plain.big_endian() } else { plain };
                Some(if any_name { plain.any_name() } else { plain })
            }
            (None, None) => None,
            _ => {
                let cause = "a file of plain bytes needs both `shape` and `dtype`";
                return Err(refused("map", cause)).or_raise(py);
            }
        };
        Ok(Self { path, plain, skip_damaged })
    }
}

impl PathSource {
    /// Opens the file or folder.
    pub(crate) fn open(&self) -> Result<Input> {
        match &self.plain {
            _ if self.skip_damaged => Input::skipping_damaged(&self.path),
            Some(plain) => Input::plain(&self.path, plain.clone()),
            None => Input::open(&self.path, None),
        }
    }
}

/// An array in host memory, in C order.
#[pyclass(frozen)]
pub(crate) struct MemorySource {
    memory: Arc<HostArray>,
}

/// The bytes of an array in host memory.
struct HostArray {
    bytes: PyBuffer<u8>,
    array: Array,
    order: ByteOrder,
}

impl fmt::Debug for HostArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostArray").field("array", &self.array).finish_non_exhaustive()
    }
}

#[pymethods]
impl MemorySource {
    /// `buffer` has the bytes of the array in C order.
    #[new]
    fn new(
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        dtype: &str,
        shape: Vec<u64>,
        big_endian: bool,
    ) -> PyResult<Self> {
        let bytes = PyBuffer::<u8>::get(buffer)?;
        let array = array(py, dtype, shape)?;
        if !bytes.is_c_contiguous() || bytes.len_bytes() as u64 != array.bytes() {
            return Err(PyBufferError::new_err("the buffer has not the bytes of the array"));
        }
        let order = if big_endian { ByteOrder::Big } else { ByteOrder::Little };
        Ok(Self { memory: Arc::new(HostArray { bytes, array, order }) })
    }
}

impl MemorySource {
    /// The input of a job.
    pub(crate) fn open(&self) -> Input {
        let reader = Box::new(MemoryReader(Arc::clone(&self.memory)));
        Input::from_reader("array", self.memory.array.clone(), 1, reader)
    }
}

#[derive(Debug)]
struct MemoryReader(Arc<HostArray>);

impl Reader for MemoryReader {
    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        self.read_as_stored(rows, into)?;
        if self.0.order == ByteOrder::Big {
            let part = usize::try_from(self.0.array.dtype().part_bytes()).unwrap_or(1);
            into.chunks_exact_mut(part).for_each(<[u8]>::reverse);
        }
        Ok(())
    }

    fn byte_order(&self) -> ByteOrder {
        self.0.order
    }

    fn read_as_stored(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let layout = self.0.array.layout();
        let wanted = rows.end.saturating_sub(rows.start) * layout.row_bytes;
        if rows.end > layout.rows || into.len() as u64 != wanted {
            return Err(refused("read", format!("the array has no rows {rows:?}")));
        }
        // SAFETY: the rows are inside the array, by the check above, and the buffer has its bytes,
        // by the check of `MemorySource::new`.
        unsafe { copy_from(&self.0.bytes, rows.start * layout.row_bytes, into) };
        Ok(())
    }
}

/// Copies bytes of a buffer.
///
/// # Safety
/// The buffer has at least `offset` bytes and the bytes of `into` after them.
unsafe fn copy_from(buffer: &PyBuffer<u8>, offset: u64, into: &mut [u8]) {
    let offset = usize::try_from(offset).expect("an offset in memory fits in `usize`");
    // SAFETY: the offset is inside the buffer, by the contract of this function.
    let from = unsafe { buffer.buf_ptr().cast::<u8>().add(offset) };
    // SAFETY: `into` is a slot of the pipeline, which no other object has, so the two do not
    // overlap. Python code that writes the array during the run changes the bytes that are copied,
    // as for any C function over its buffer.
    unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
}

/// An object of Python that returns items of the first axis: `read(first, last)` returns their
/// bytes in C order, as an object with the buffer protocol.
#[pyclass(frozen)]
pub(crate) struct PullSource {
    pull: Arc<Pull>,
}

struct Pull {
    read: Py<PyAny>,
    array: Array,
    failed: Mutex<Option<PyErr>>,
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull").field("array", &self.array).finish_non_exhaustive()
    }
}

#[pymethods]
impl PullSource {
    #[new]
    fn new(py: Python<'_>, read: Py<PyAny>, dtype: &str, shape: Vec<u64>) -> PyResult<Self> {
        let array = array(py, dtype, shape)?;
        Ok(Self { pull: Arc::new(Pull { read, array, failed: Mutex::new(None) }) })
    }
}

impl PullSource {
    /// The input of a job.
    pub(crate) fn open(&self) -> Input {
        let array = self.pull.array.clone();
        let granule = rows_of_item(array.shape());
        Input::from_reader("array", array, granule, Box::new(PullReader(Arc::clone(&self.pull))))
    }

    /// The exception that ended the run, if reading raised one.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        self.pull.failed.lock().ok()?.take()
    }
}

#[derive(Debug)]
struct PullReader(Arc<Pull>);

impl PullReader {
    fn pull(&self, py: Python<'_>, items: &Range<u64>, into: &mut [u8]) -> PyResult<()> {
        let found = self.0.read.bind(py).call1((items.start, items.end))?;
        let bytes = PyBuffer::<u8>::get(&found)?;
        if bytes.len_bytes() != into.len() {
            return Err(PyBufferError::new_err(format!(
                "the items {}..{} have {} bytes, and {} are expected",
                items.start,
                items.end,
                bytes.len_bytes(),
                into.len()
            )));
        }
        bytes.copy_to_slice(py, into)
    }
}

impl Reader for PullReader {
    fn is_parallel(&self) -> bool {
        // One thread at a time runs Python.
        false
    }

    fn read(&self, rows: Range<u64>, into: &mut [u8]) -> Result<()> {
        let inner = rows_of_item(self.0.array.shape());
        let items = rows.start / inner..rows.end.div_ceil(inner);
        Python::attach(|py| {
            self.pull(py, &items, into).map_err(|exception| {
                let error = of_exception(py, "read", &exception);
                if let Ok(mut failed) = self.0.failed.lock() {
                    failed.get_or_insert(exception);
                }
                error
            })
        })
    }
}

/// Whether the library can read the array at this path.
#[pyfunction]
pub(crate) fn can_open(py: Python<'_>, path: PathBuf) -> bool {
    py.detach(|| Input::open(&path, None).is_ok())
}
