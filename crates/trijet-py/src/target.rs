//! Targets: a path, an array in memory, or an object of Python that takes rows.

use crate::array::rows_of_item;
use crate::error::{of_exception, refused};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use trijet::pipeline::ParallelSink;
use trijet::{Result, Sink};
use trijet_io::{Array, Input, Target};

/// A file or a folder.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct PathTarget {
    pub(crate) path: PathBuf,
    any_name: bool,
}

#[pymethods]
impl PathTarget {
    #[new]
    fn new(path: PathBuf, any_name: bool) -> Self {
        Self { path, any_name }
    }
}

impl PathTarget {
    /// The target for an array that is made from `input`.
    pub(crate) fn describe(&self, array: Array, input: &Input) -> Result<Target> {
        let describe = if self.any_name { Target::or_headerless } else { Target::new };
        describe(&self.path, array, input)
    }
}

/// An array in host memory that is written, in C order. Its shape and its type are known when the
/// operations are: `make(dtype, shape)` returns the array.
#[pyclass(frozen)]
pub(crate) struct MemoryTarget {
    make: Py<PyAny>,
}

#[pymethods]
impl MemoryTarget {
    #[new]
    fn new(make: Py<PyAny>) -> Self {
        Self { make }
    }
}

impl MemoryTarget {
    /// The bytes that are written for `array`.
    pub(crate) fn open(&self, py: Python<'_>, array: &Array, first: u64) -> PyResult<MemorySink> {
        let dtype = array.dtype().numpy_name();
        let made = self.make.bind(py).call1((dtype, array.shape().to_vec()))?;
        let bytes = PyBuffer::<u8>::get(&made)?;
        let fits = !bytes.readonly()
            && bytes.is_c_contiguous()
            && bytes.len_bytes() as u64 == array.bytes();
        if !fits {
            return Err(PyBufferError::new_err("the buffer has not the bytes of the result"));
        }
        Ok(MemorySink { bytes, row_bytes: array.layout().row_bytes, first })
    }
}

/// The memory of an array that a run writes.
pub(crate) struct MemorySink {
    bytes: PyBuffer<u8>,
    row_bytes: u64,
    /// The number of the first row.
    first: u64,
}

impl ParallelSink for MemorySink {
    fn granule(&self) -> Option<u64> {
        Some(1)
    }

    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let start = rows.start.saturating_sub(self.first).saturating_mul(self.row_bytes);
        let fits = start.checked_add(bytes.len() as u64);
        if fits.is_none_or(|end| end > self.bytes.len_bytes() as u64) {
            return Err(refused("write", format!("rows {rows:?} are not in the array")));
        }
        let start = usize::try_from(start).expect("an offset in memory fits in `usize`");
        // SAFETY: the offset is inside the buffer, by the check above.
        let to = unsafe { self.bytes.buf_ptr().cast::<u8>().add(start) };
        // SAFETY: the bytes are inside the buffer. Each row is written by one thread. It would be
        // false if the owner released the memory: the buffer is held by `self`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Sink for &MemorySink {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(*self)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// An object of Python that takes items of the first axis in order: `write(dtype, shape, first,
/// last, bytes)` gets their bytes in C order.
#[pyclass(frozen)]
pub(crate) struct PushTarget {
    write: Py<PyAny>,
    failed: Mutex<Option<PyErr>>,
}

#[pymethods]
impl PushTarget {
    #[new]
    fn new(write: Py<PyAny>) -> Self {
        Self { write, failed: Mutex::new(None) }
    }
}

impl PushTarget {
    /// The exception that ended the run, if writing raised one.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        self.failed.lock().ok()?.take()
    }

    /// The number of rows at whose multiples writes start.
    pub(crate) fn granule(array: &Array) -> u64 {
        rows_of_item(array.shape())
    }
}

/// The sink of a [`PushTarget`].
pub(crate) struct PushSink<'a> {
    pub(crate) target: &'a PushTarget,
    pub(crate) array: &'a Array,
    /// The number of the first row.
    pub(crate) first: u64,
}

impl Sink for PushSink<'_> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let inner = rows_of_item(self.array.shape());
        let own = |row: u64| row.saturating_sub(self.first);
        let (first, last) = (own(rows.start) / inner, own(rows.end).div_ceil(inner));
        let dtype = self.array.dtype().numpy_name();
        Python::attach(|py| {
            let bytes = PyBytes::new(py, bytes);
            let shape = self.array.shape().to_vec();
            let written = self.target.write.bind(py).call1((dtype, shape, first, last, bytes));
            written.map(drop).map_err(|exception| {
                let error = of_exception(py, "write", &exception);
                if let Ok(mut failed) = self.target.failed.lock() {
                    failed.get_or_insert(exception);
                }
                error
            })
        })
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
