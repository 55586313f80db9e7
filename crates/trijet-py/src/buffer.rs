//! `trijet.Buffer`: an array in the memory of a device, which other packages take without a copy.
//!
//! A consumer that takes the array gets it in its stream: the stream waits for the pending work on
//! the array. The stream may be destroyed at any time after that, so it is used only in this call.
//! The consumer may also use the array in other streams later. So the library follows all work of
//! the device before it uses the array or its memory again. A feed knows the stream in which its
//! batches are used, and follows this stream only.

use crate::array::array;
use crate::dlpack::{DlDevice, Exported};
use crate::error::{OrRaise, refused};
use crate::import::{ByInterface, Imported, by_interface, imported};
use crate::streams::{OpenDevice, UsedIn, UserStream, UserStreamId, mark};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::{Error, ErrorKind, Result};
use trijet_io::{Array, Dtype};

/// The memory of an array, and the streams of the packages that use it.
pub(crate) struct SharedMemory {
    pub(crate) device: Arc<OpenDevice>,
    state: Mutex<HeldBuffer>,
    read_only: bool,
    /// The number of the run of a feed whose batch this is: the memory is used again after the work
    /// in the stream in which its consumer took it. Other memory follows all work of the device.
    run: Option<u64>,
}

struct HeldBuffer {
    buffer: Option<trijet::Buffer<u8>>,
    /// The stream in which the only consumer took the array.
    taken_in: Option<UserStreamId>,
    /// Whether a consumer took the array.
    is_shared: bool,
}

impl SharedMemory {
    pub(crate) fn new(
        device: Arc<OpenDevice>,
        buffer: trijet::Buffer<u8>,
        read_only: bool,
    ) -> Self {
        let state = HeldBuffer { buffer: Some(buffer), taken_in: None, is_shared: false };
        Self { device, state: Mutex::new(state), read_only, run: None }
    }

    /// The memory is used again after the work in the stream in which its consumer took it. This
    /// stream must be live and current when [`OpenDevice::passed`] is called with the number `run`.
    pub(crate) fn in_its_stream(mut self, run: u64) -> Self {
        self.run = Some(run);
        self
    }

    /// Calls `use_it` with the buffer, after the work of the consumers until now.
    pub(crate) fn with<R>(
        &self,
        use_it: impl FnOnce(&mut trijet::Buffer<u8>) -> Result<R>,
    ) -> Result<R> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.follow_users(&self.device)?;
        match &mut state.buffer {
            Some(buffer) => use_it(buffer),
            None => Err(Error::new(ErrorKind::Closed, "buffer", "the buffer was dropped")),
        }
    }

    /// Makes the stream of a consumer follow the pending work on the memory. Without a stream, the
    /// consumer asks for no order.
    fn hand_over(&self, stream: Option<UserStream>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.is_some() {
            state.follow_users(&self.device)?;
        }
        let HeldBuffer { buffer: Some(buffer), taken_in, is_shared } = &mut *state else {
            return Ok(());
        };
        if let Some(user) = &stream {
            mark(&user.stream, buffer)?;
        }
        // With an earlier consumer, no stream has all the work.
        let only = stream.filter(|_| !*is_shared);
        *taken_in = only.and_then(|user| user.id());
        *is_shared = true;
        Ok(())
    }

    /// Waits on the host until no work uses the memory.
    fn wait(&self) -> Result<()> {
        self.device.device.synchronize()
    }
}

impl HeldBuffer {
    /// Counts the work that the consumers have enqueued until now as work on the memory.
    fn follow_users(&mut self, device: &OpenDevice) -> Result<()> {
        match &mut self.buffer {
            Some(buffer) if self.is_shared => device.follow_all([buffer]),
            _ => Ok(()),
        }
    }
}

impl Drop for SharedMemory {
    /// Makes no call for memory that had a consumer: the collector of Python may run at any time,
    /// and a call could end a capture of the program.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(buffer) = state.buffer.take().filter(|_| state.is_shared) else { return };
        let used = self.run.zip(state.taken_in).map(|(run, stream)| UsedIn { run, stream });
        self.device.adopt(buffer, used);
    }
}

/// An array in the memory of a device.
#[pyclass(frozen)]
pub(crate) struct Buffer {
    memory: Arc<SharedMemory>,
    array: Array,
    address: u64,
}

impl Buffer {
    pub(crate) fn new(memory: SharedMemory, array: Array) -> Result<Self> {
        let address = memory.with(|buffer| Ok(buffer.address()))?;
        Ok(Self { memory: Arc::new(memory), array, address })
    }

    /// The device type and the number of DLPack.
    fn place(&self) -> DlDevice {
        match self.memory.device.is_host() {
            true => DlDevice { kind: 1, number: 0 },
            false => DlDevice::cuda(self.memory.device.ordinal()),
        }
    }

    /// Makes the memory ready for a consumer with this stream.
    fn hand_over(&self, py: Python<'_>, stream: Option<i64>) -> PyResult<()> {
        if self.memory.device.is_host() {
            if stream.is_some() {
                return Err(PyBufferError::new_err("memory of the host has no streams"));
            }
            return py.detach(|| self.memory.wait()).or_raise(py);
        }
        let stream = self.memory.device.stream(stream)?;
        py.detach(|| self.memory.hand_over(stream)).or_raise(py)
    }

    /// A copy in memory of its own.
    fn copied(&self) -> Result<Self> {
        let device = Arc::clone(&self.memory.device);
        let mut copy = device.alloc(self.array.bytes())?;
        self.memory.with(|buffer| device.own.copy(&*buffer, &mut copy))?;
        Self::new(SharedMemory::new(device, copy, false), self.array.clone())
    }
}

#[pymethods]
impl Buffer {
    /// The lengths of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.shape())
    }

    /// The name of the element type in NumPy.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.array.dtype().numpy_name()
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.array.bytes()
    }

    /// The device, such as `cuda:0` or `host`.
    #[getter]
    fn device(&self) -> String {
        match self.memory.device.is_host() {
            true => "host".to_owned(),
            false => format!("cuda:{}", self.memory.device.ordinal()),
        }
    }

    /// Whether the elements must not be written.
    #[getter]
    fn read_only(&self) -> bool {
        self.memory.read_only
    }

    /// The bytes of the elements, in C order. Waits for the pending work on the array.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let found =
            py.detach(|| self.memory.with(|buffer| self.memory.device.own.download(&*buffer)));
        Ok(PyBytes::new(py, &found.or_raise(py)?))
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|wanted| wanted != self.__dlpack_device__()) {
            let cause = format!("the array is on {}, and stays there", self.device());
            return Err(PyBufferError::new_err(cause));
        }
        if copy == Some(true) {
            let copied = py.detach(|| self.copied()).or_raise(py)?;
            return copied.__dlpack__(py, stream, max_version, None, None);
        }
        self.hand_over(py, stream)?;
        Exported {
            address: self.address,
            device: self.place(),
            dtype: self.array.dtype(),
            shape: self.array.shape().to_vec(),
            read_only: self.memory.read_only,
            keep: Box::new(Arc::clone(&self.memory)),
        }
        .capsule(py, max_version)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        let DlDevice { kind, number } = self.place();
        (kind, number)
    }

    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.memory.device.is_host() || self.array.dtype() == Dtype::BF16 {
            return Err(PyAttributeError::new_err("use DLPack for this array"));
        }
        // The consumer waits for the legacy default stream, which follows the work on the array.
        self.hand_over(py, None)?;
        let order = if self.array.dtype().bytes() == 1 { "|" } else { "<" };
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", format!("{order}{}", self.array.dtype().numpy_code()))?;
        interface.set_item("data", (self.address, self.memory.read_only))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", 1)?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<trijet.Buffer {} on {}>", self.array, self.device())
    }
}

/// An array of a device, whose elements have any values.
#[pyfunction]
pub(crate) fn empty(
    py: Python<'_>,
    dtype: &str,
    shape: Vec<u64>,
    device: &str,
) -> PyResult<Buffer> {
    let array = array(py, dtype, shape)?;
    py.detach(|| {
        let device = OpenDevice::named(device)?;
        let buffer = device.alloc(array.bytes())?;
        Buffer::new(SharedMemory::new(device, buffer, false), array)
    })
    .or_raise(py)
}

/// An array of a device with the bytes of `buffer`.
#[pyfunction]
pub(crate) fn upload(
    py: Python<'_>,
    buffer: &Bound<'_, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    device: &str,
) -> PyResult<Buffer> {
    let array = array(py, dtype, shape)?;
    let bytes = PyBuffer::<u8>::get(buffer)?.to_vec(py)?;
    if bytes.len() as u64 != array.bytes() {
        return Err(refused("upload", "the buffer has not the bytes of the array")).or_raise(py);
    }
    py.detach(|| {
        let device = OpenDevice::named(device)?;
        let buffer = device.upload(&bytes)?;
        Buffer::new(SharedMemory::new(device, buffer, false), array)
    })
    .or_raise(py)
}

/// An array over the memory of an object with `__dlpack__`, without a copy.
#[pyfunction]
#[pyo3(signature = (object, copy=None))]
pub(crate) fn from_dlpack(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    copy: Option<bool>,
) -> PyResult<Buffer> {
    let (kind, number): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    let name = match kind {
        1 | 3 => "host".to_owned(),
        2 => format!("cuda:{number}"),
        _ => return Err(PyBufferError::new_err(format!("device type {kind} of DLPack"))),
    };
    let device = py.detach(|| OpenDevice::named(&name)).or_raise(py)?;
    let stream = match device.is_host() {
        true => None,
        false => i64::try_from(device.own.as_raw().expose_provenance()).ok(),
    };
    let found = imported(py, object, stream, copy)?;
    py.detach(|| over(device, found, None)).or_raise(py)
}

/// An array over the memory of an object with `__cuda_array_interface__`, without a copy.
#[pyfunction]
pub(crate) fn from_interface(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    device: &str,
) -> PyResult<Buffer> {
    let device = py.detach(|| OpenDevice::of_interface(device)).or_raise(py)?;
    if device.is_host() {
        return Err(refused("asarray", "the array is in the memory of a GPU")).or_raise(py);
    }
    let ByInterface { imported, stream } = by_interface(object)?;
    let producer = stream.map(|handle| device.stream(Some(handle))).transpose()?.flatten();
    py.detach(|| over(device, imported, producer)).or_raise(py)
}

/// A buffer over memory of another package, ordered after the work in the stream of `producer`.
fn over(device: Arc<OpenDevice>, found: Imported, producer: Option<UserStream>) -> Result<Buffer> {
    device.free_orphans()?;
    let Imported { address, array, read_only, owner } = found;
    let bytes = usize::try_from(array.bytes()).unwrap_or(usize::MAX);
    // SAFETY: the producer has handed over a live array on this device, in the order of the stream
    // of the device or of `producer`. It would be false if other code wrote the array before it was
    // returned without an order to this stream, which the protocols leave to the user.
    let mut buffer = unsafe { device.device.buffer_from_raw::<u8>(address, bytes, owner)? };
    if let Some(producer) = producer {
        mark(&producer.stream, &mut buffer)?;
    }
    if !device.is_host() {
        mark(&device.own, &mut buffer)?;
    }
    Buffer::new(SharedMemory::new(device, buffer, read_only), array)
}
