//! The arrays and the stream that a stage of the program gets.

use crate::dlpack::{DlDevice, Exported};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trijet::Dtype;

/// An array in device memory, for the time of one call of a stage.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct DeviceArray {
    address: u64,
    device: i32,
    dtype: Dtype,
    shape: Vec<u64>,
    is_written: bool,
    stream: u64,
    /// Whether the call goes on.
    live: Arc<AtomicBool>,
    /// Whether `__cuda_array_interface__` was read.
    by_interface: Arc<AtomicBool>,
}

/// The memory of an array of a call.
pub(crate) struct CallMemory {
    pub(crate) address: u64,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) is_written: bool,
}

/// The place of a call: its device and its stream.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) device: i32,
    pub(crate) stream: u64,
    pub(crate) live: Arc<AtomicBool>,
    pub(crate) by_interface: Arc<AtomicBool>,
}

impl DeviceArray {
    pub(crate) fn new(memory: CallMemory, place: &Place) -> Self {
        let CallMemory { address, dtype, shape, is_written } = memory;
        let Place { device, stream, live, by_interface } = place.clone();
        Self { address, device, dtype, shape, is_written, stream, live, by_interface }
    }

    fn check_live(&self) -> PyResult<()> {
        if self.live.load(Ordering::Acquire) {
            return Ok(());
        }
        let cause = "the call of the stage has ended, and its memory has other data now; copy what \
                     is needed later";
        Err(PyBufferError::new_err(cause))
    }
}

#[pymethods]
impl DeviceArray {
    /// The lengths of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The name of the element type in NumPy.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.numpy_name()
    }

    /// The size in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.dtype.bytes()
    }

    /// The ordinal of the GPU.
    #[getter]
    fn device(&self) -> i32 {
        self.device
    }

    #[getter(__cuda_array_interface__)]
    fn cuda_array_interface<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.check_live()?;
        self.by_interface.store(true, Ordering::Release);
        if self.dtype == Dtype::BF16 {
            return Err(PyAttributeError::new_err("bfloat16 has no type string; use DLPack"));
        }
        let interface = PyDict::new(py);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", format!("{}{}", self.order(), self.dtype.numpy_code()))?;
        interface.set_item("data", (self.address, !self.is_written))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", self.stream)?;
        interface.set_item("version", 3)?;
        Ok(interface)
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
        self.check_live()?;
        if copy == Some(true) {
            return Err(PyBufferError::new_err("the array makes no copies; copy what you get"));
        }
        if dl_device.is_some_and(|wanted| wanted != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err(
                "the array is in the memory of its own device only",
            ));
        }
        let is_ours =
            stream.is_some_and(|wanted| wanted == -1 || wanted.unsigned_abs() == self.stream);
        if !is_ours {
            let cause = format!(
                "work on this array must be in the stream of the stage, {:#x}: make it the current \
                 stream, as in `with cupy.cuda.ExternalStream(stream.handle):` or `with \
                 torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):`",
                self.stream
            );
            return Err(PyBufferError::new_err(cause));
        }
        Exported {
            address: self.address,
            device: DlDevice::cuda(self.device),
            dtype: self.dtype,
            shape: self.shape.clone(),
            // CuPy and PyTorch have no arrays that are only read, and refuse them.
            read_only: false,
            keep: Box::new(Arc::clone(&self.live)),
        }
        .capsule(py, max_version)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        let DlDevice { kind, number } = DlDevice::cuda(self.device);
        (kind, number)
    }

    fn __repr__(&self) -> String {
        let (shape, dtype, device) = (&self.shape, self.dtype.numpy_name(), self.device);
        format!("<trijet.DeviceArray {dtype} {shape:?} on cuda:{device}>")
    }
}

impl DeviceArray {
    /// The order of the bytes in a type string; one byte has no order.
    fn order(&self) -> &'static str {
        if self.dtype.bytes() == 1 { "|" } else { "<" }
    }
}

/// The stream of a call of a stage.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Stream {
    handle: u64,
    device: i32,
}

impl Stream {
    pub(crate) fn new(handle: u64, device: i32) -> Self {
        Self { handle, device }
    }
}

#[pymethods]
impl Stream {
    /// The `CUstream`; 0 on the host device.
    #[getter]
    fn handle(&self) -> u64 {
        self.handle
    }

    /// The ordinal of the GPU; -1 for the host device.
    #[getter]
    fn device(&self) -> i32 {
        self.device
    }

    /// The protocol of `cuda.core` for streams: version 0, and the handle.
    fn __cuda_stream__(&self) -> (u32, u64) {
        (0, self.handle)
    }

    fn __repr__(&self) -> String {
        format!("<trijet.Stream {:#x}>", self.handle)
    }
}
