//! Uploads of batches: a ring of page-locked memory, and a stream of its own.
//!
//! A batch is copied into the next part of the ring, as soon as the upload that read this part
//! before is complete. Its arrays are uploaded into memory of the device that consumers take as
//! [`Buffer`]s: a consumer's stream waits for the upload, and not for the batches after it.

use crate::array::array;
use crate::buffer::{Buffer, SharedMemory};
use crate::error::{OrRaise, refused};
use crate::streams::OpenDevice;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::PinnedBuffer;
use trijet::{ErrorKind, Result, Stream};
use trijet_io::Array;

/// Arrays in the ring start at multiples of this number of bytes.
const ALIGN_BYTES: usize = 256;
/// Parts of this size are copied by several threads.
const PART_BYTES: usize = 1 << 20;

/// The upload of batches to one device.
#[pyclass(frozen)]
pub(crate) struct Feed {
    device: Arc<OpenDevice>,
    stream: Stream,
    ring: Mutex<Ring>,
    /// The number of the run, which no other feed has.
    run: AtomicU64,
}

/// The number of the next run of any feed.
static NEXT_RUN: AtomicU64 = AtomicU64::new(0);

struct Ring {
    parts: Vec<Option<PinnedBuffer<u8>>>,
    next: usize,
}

/// An array of a batch as Python passes it: its bytes, the name of its type, and its shape.
#[derive(FromPyObject)]
struct BatchArray<'py>(Bound<'py, PyAny>, String, Vec<u64>);

/// An array of a batch, and its place in the ring.
struct Part {
    bytes: PyBuffer<u8>,
    array: Array,
    start: usize,
}

#[pymethods]
impl Feed {
    /// A feed with `depth` batches in page-locked memory.
    #[new]
    fn new(py: Python<'_>, device: &str, depth: usize) -> PyResult<Self> {
        py.detach(|| {
            let device = OpenDevice::named(device)?;
            let stream = device.device.stream()?.named("feed");
            let parts = (0..depth.max(1)).map(|_| None).collect();
            let ring = Mutex::new(Ring { parts, next: 0 });
            let run = AtomicU64::new(NEXT_RUN.fetch_add(1, Ordering::Relaxed));
            Ok(Self { device, stream, ring, run })
        })
        .or_raise(py)
    }

    /// Whether the device is a host device.
    #[getter]
    fn is_host(&self) -> bool {
        self.device.is_host()
    }

    /// Begins a loop over batches.
    fn begin(&self) {
        self.run.store(NEXT_RUN.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Frees the memory of batches of this loop that were dropped, after the work that `stream` has
    /// now. This is the stream in which the batches are used, and it lives as long as the loop.
    fn passed(&self, py: Python<'_>, stream: i64) -> PyResult<()> {
        py.detach(|| self.device.passed(self.run.load(Ordering::Relaxed), stream))
    }

    /// Enqueues the upload of a batch: for each array its bytes in C order, its element type and
    /// its shape. The arrays may be changed when the call returns.
    fn put(&self, py: Python<'_>, batch: Vec<BatchArray<'_>>) -> PyResult<Vec<Buffer>> {
        let mut parts = Vec::with_capacity(batch.len());
        let mut end = 0_usize;
        for BatchArray(buffer, dtype, shape) in batch {
            let (bytes, array) = (PyBuffer::<u8>::get(&buffer)?, array(py, &dtype, shape)?);
            if !bytes.is_c_contiguous() || bytes.len_bytes() as u64 != array.bytes() {
                let cause = "the buffer has not the bytes of the array";
                return Err(refused("feed", cause)).or_raise(py);
            }
            let start = end.next_multiple_of(ALIGN_BYTES);
            end = start + bytes.len_bytes();
            parts.push(Part { bytes, array, start });
        }
        py.detach(|| self.upload(&parts, end)).or_raise(py)
    }
}

impl Feed {
    /// Memory for an array. Memory of dropped arrays is freed if there is not enough.
    fn alloc(&self, bytes: usize) -> Result<trijet::Buffer<u8>> {
        match self.stream.alloc::<u8>(bytes) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                self.device.free_orphans()?;
                self.stream.alloc::<u8>(bytes)
            }
            outcome => outcome,
        }
    }

    fn upload(&self, parts: &[Part], bytes: usize) -> Result<Vec<Buffer>> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let place = ring.next;
        ring.next = (place + 1) % ring.parts.len();
        let slot = &mut ring.parts[place];
        if slot.as_ref().is_none_or(|slot| slot.len() < bytes) {
            *slot = Some(self.device.device.pinned::<u8>(bytes.max(1))?);
        }
        let slot = slot.as_mut().expect("set in the line before");
        {
            // Waits for the upload that read this memory.
            let mut memory = slot.write()?;
            for part in parts {
                copy(&part.bytes, &mut memory[part.start..part.start + part.bytes.len_bytes()]);
            }
        }
        let mut arrays = Vec::with_capacity(parts.len());
        for part in parts {
            let len = part.bytes.len_bytes();
            let mut buffer = self.alloc(len)?;
            self.stream.copy(&slot.slice(part.start..part.start + len), &mut buffer)?;
            let memory = SharedMemory::new(Arc::clone(&self.device), buffer, false);
            let memory = memory.in_its_stream(self.run.load(Ordering::Relaxed));
            arrays.push(Buffer::new(memory, part.array.clone())?);
        }
        Ok(arrays)
    }
}

/// Copies the bytes of a buffer, by several threads if there are many.
fn copy(from: &PyBuffer<u8>, into: &mut [u8]) {
    let address = from.buf_ptr().expose_provenance();
    into.par_chunks_mut(PART_BYTES).enumerate().for_each(|(number, part)| {
        let at = std::ptr::with_exposed_provenance::<u8>(address + number * PART_BYTES);
        // SAFETY: the buffer has the bytes of `into`, by the check in `put`, and `from` holds them.
        // It would be false if the owner released the memory of a buffer that is held.
        unsafe { part.as_mut_ptr().copy_from_nonoverlapping(at, part.len()) };
    });
}
