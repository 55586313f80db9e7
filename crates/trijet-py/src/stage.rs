//! Stages of the program: functions of Python over arrays of the device.

use crate::array::dtype;
use crate::error::{OrRaise, of_exception, refused};
use crate::host_stage;
use crate::stage_array::{CallMemory, DeviceArray, Place, Stream as StageStream};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trijet::kernels::median::Edges;
use trijet::{Buffer, Device, Dtype, Result, Stream, Uses, View, ViewMut};
use trijet_ops::{Operation, RowsOfCall, Typed};

/// The number that stands for a host device.
const HOST: i32 = -1;

/// Maximum number of items of a halo.
const HALO_MAX: u64 = 1 << 31;

/// A function of the program as a stage.
#[pyclass(frozen)]
pub(crate) struct Stage {
    pub(crate) operation: Arc<StageOperation>,
}

#[pymethods]
impl Stage {
    /// `call(x, out, stream)` computes `out` from `x`. `shape_of(shape)` returns the lengths of the
    /// axes of an item of the output, without the first axis.
    #[new]
    fn new(
        py: Python<'_>,
        call: Py<PyAny>,
        description: String,
        halo: u64,
        edges: &str,
        out_dtype: Option<&str>,
        shape_of: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let out_dtype = out_dtype.map(|name| dtype(py, name)).transpose()?;
        if halo > HALO_MAX {
            let cause = format!("`halo` is at most {HALO_MAX}, and not {halo}");
            return Err(refused("stage", cause)).or_raise(py);
        }
        let all = [Edges::Nearest, Edges::Reflect, Edges::Mirror, Edges::Constant, Edges::Wrap];
        let Some(edges) = all.into_iter().find(|one| one.to_string() == edges) else {
            let cause =
                format!("`edges` is nearest, reflect, mirror, constant or wrap, not {edges}");
            return Err(refused("stage", cause)).or_raise(py);
        };
        // Names of foreign work live as long as the records that mention them.
        let name: &'static str = Box::leak(format!("stage {description}").into_boxed_str());
        let (devices, failed) = (Mutex::new(Vec::new()), Mutex::new(None));
        let operation = StageOperation {
            call: Arc::new(call),
            description,
            name,
            halo,
            edges,
            out_dtype,
            shape_of,
            devices,
            failed: Arc::new(failed),
            calls: Mutex::default(),
        };
        Ok(Self { operation: Arc::new(operation) })
    }
}

impl Stage {
    /// Forgets the devices and the calls of a run.
    pub(crate) fn end(&self) {
        self.operation.devices.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut calls = self.operation.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.drain(..).for_each(host_stage::forget);
    }

    /// The exception that ended the run, if the function raised one.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        self.operation.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The operation of a [`Stage`]: it sees whole items of the first axis.
pub(crate) struct StageOperation {
    call: Arc<Py<PyAny>>,
    description: String,
    name: &'static str,
    /// The number of items before and after the items of the output.
    halo: u64,
    edges: Edges,
    out_dtype: Option<Dtype>,
    shape_of: Option<Py<PyAny>>,
    /// The devices of the run.
    devices: Mutex<Vec<Device>>,
    failed: Arc<Mutex<Option<PyErr>>>,
    /// The numbers of the calls on a host device.
    calls: Mutex<Vec<u64>>,
}

impl fmt::Debug for StageOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StageOperation")
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

/// The rows of an item of the first axis.
fn rows_of(array: &Typed) -> u64 {
    crate::array::rows_of_item(&array.shape)
}

/// The bytes of an item of the first axis.
fn item_bytes(array: &Typed) -> u64 {
    array.shape.iter().skip(1).product::<u64>() * array.dtype.bytes()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the bytes of a span fit in `usize`")
}

/// The items of a call, and where the items beyond the ends come from.
struct Items {
    /// The items of the output.
    y: Range<u64>,
    /// The items that the input of the call has.
    x: Range<u64>,
    /// The length of the first axis.
    all: u64,
}

impl StageOperation {
    /// The item that stands for item `at`, counted from before the start. `None` for zeros.
    fn item_at(&self, at: i64, all: i64) -> Option<u64> {
        let found = match self.edges {
            Edges::Nearest => at.clamp(0, all - 1),
            Edges::Constant if !(0..all).contains(&at) => return None,
            Edges::Reflect => {
                let place = at.rem_euclid(2 * all);
                if place < all { place } else { 2 * all - 1 - place }
            }
            Edges::Mirror if all > 1 => {
                let place = at.rem_euclid(2 * all - 2);
                if place < all { place } else { 2 * all - 2 - place }
            }
            Edges::Mirror => 0,
            _ => at.rem_euclid(all),
        };
        u64::try_from(found).ok()
    }

    /// The input of the function: the items of the output with the halo on both sides. Where the
    /// stack ends, items are copied from the input.
    fn padded(
        &self,
        stream: &Stream,
        array: &Typed,
        items: &Items,
        x: View<'_, u8>,
    ) -> Result<Buffer<u8>> {
        let bytes = item_bytes(array);
        let count = items.y.end - items.y.start + 2 * self.halo;
        let mut whole = stream.alloc::<u8>(size(count * bytes))?;
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for place in 0..count {
            let at = signed(items.y.start) - signed(self.halo) + signed(place);
            let range = size(place * bytes)..size((place + 1) * bytes);
            match self.item_at(at, signed(items.all)) {
                Some(item) if items.x.contains(&item) => {
                    let from = item - items.x.start;
                    let from = x.slice(size(from * bytes)..size((from + 1) * bytes));
                    stream.copy(&from, &mut whole.slice_mut(range))?;
                }
                Some(item) => {
                    let cause = format!("the input lacks item {item} for the items {:?}", items.y);
                    return Err(refused("stage", cause));
                }
                None => stream.fill_bytes(&mut whole.slice_mut(range), 0)?,
            }
        }
        Ok(whole)
    }

    /// The ordinal of the GPU of a stream, or [`HOST`].
    fn device_of(&self, stream: &Stream) -> i32 {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = devices.iter().find(|device| device.owns(stream));
        let gpu = owner.filter(|device| device.info().compute.0 > 0);
        gpu.map_or(HOST, |device| i32::try_from(device.id().0).unwrap_or(HOST))
    }

    /// Calls the function on a GPU: it enqueues its work in the stream.
    fn call_on_gpu(
        &self,
        device: i32,
        stream: &Stream,
        shapes: [Typed; 2],
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let addresses = [x.address(), y.address()];
        let uses = Uses::new().read(x).write(y);
        let call = |raw: *mut std::ffi::c_void| {
            let place = Place {
                device,
                stream: raw.expose_provenance() as u64,
                live: Arc::new(AtomicBool::new(true)),
                by_interface: Arc::default(),
            };
            let called = Python::attach(|py| {
                let [x, y] = &shapes;
                let array = |typed: &Typed, address, is_written| {
                    let (dtype, shape) = (typed.dtype, typed.shape.clone());
                    Py::new(
                        py,
                        DeviceArray::new(CallMemory { address, dtype, shape, is_written }, &place),
                    )
                };
                let stream = StageStream::new(place.stream, device);
                let called = array(x, addresses[0], false).and_then(|x| {
                    let y = array(y, addresses[1], true)?;
                    self.call.bind(py).call1((x, y, Py::new(py, stream)?))
                });
                called.map(drop).map_err(|exception| {
                    clear_frames(py, &exception);
                    self.failure(py, exception)
                })
            });
            place.live.store(false, Ordering::Release);
            if called.is_ok() && place.by_interface.load(Ordering::Acquire) {
                self.follow_legacy(stream)?;
            }
            called
        };
        // SAFETY: the function enqueues its work in the stream that it gets, and on the memory that
        // it gets: the contract of a stage, which the user keeps. The arrays refuse other streams.
        unsafe { stream.foreign(self.name, uses, call) }
    }

    /// Orders a stream after the legacy default stream, in which consumers of
    /// `__cuda_array_interface__` work unless they are told another one.
    fn follow_legacy(&self, stream: &Stream) -> Result<()> {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(device) = devices.iter().find(|device| device.owns(stream)) else {
            return Ok(());
        };
        let event = device.event()?;
        event.record(&device.legacy_stream()?)?;
        stream.wait(&event)
    }

    /// Calls the function on a host device, where it gets arrays of NumPy with memory of their own,
    /// so that an array that the program keeps stays valid.
    fn call_on_host(
        &self,
        stream: &Stream,
        shapes: [Typed; 2],
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        let (call, failed) = (Arc::clone(&self.call), Arc::clone(&self.failed));
        let run = move |x: &[u8], y: &mut [u8]| {
            Python::attach(|py| {
                on_host(py, &call, &shapes, x, y).map_err(|exception| {
                    let error = of_exception(py, "stage", &exception);
                    keep(&failed, exception);
                    error.to_string()
                })
            })
        };
        let number = host_stage::enqueue(stream, x, y, Box::new(run))?;
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        Ok(())
    }

    /// Keeps the exception for the end of the run, and returns an error with its text.
    fn failure(&self, py: Python<'_>, exception: PyErr) -> trijet::Error {
        let error = of_exception(py, "stage", &exception);
        keep(&self.failed, exception);
        error
    }

    /// The lengths of the axes of an item of the output.
    fn item_shape(&self, x: &Typed) -> Result<Vec<u64>> {
        let own = x.shape.get(1..).unwrap_or_default().to_vec();
        let Some(shape_of) = &self.shape_of else { return Ok(own) };
        Python::attach(|py| {
            let tail = PyTuple::new(py, &own).and_then(|own| shape_of.bind(py).call1((own,)));
            tail.and_then(|tail| tail.extract::<Vec<u64>>())
                .map_err(|exception| self.failure(py, exception))
        })
    }
}

/// Drops the local variables of the frames of an exception: arrays over memory that other data will
/// have.
fn clear_frames(py: Python<'_>, exception: &PyErr) {
    let Some(frames) = exception.traceback(py) else { return };
    // An exception without its frames is raised as well.
    let _cleared =
        py.import("traceback").and_then(|module| module.call_method1("clear_frames", (frames,)));
}

/// Keeps the first exception.
fn keep(failed: &Mutex<Option<PyErr>>, exception: PyErr) {
    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
}

/// Calls the function with arrays of NumPy, and copies its result.
fn on_host(
    py: Python<'_>,
    call: &Py<PyAny>,
    [x_form, y_form]: &[Typed; 2],
    x: &[u8],
    y: &mut [u8],
) -> PyResult<()> {
    let bridge = py.import("trijet._stage")?;
    let shape = |form: &Typed| PyTuple::new(py, &form.shape);
    let (x_type, y_type) = (x_form.dtype.numpy_name(), y_form.dtype.numpy_name());
    let x = bridge.call_method1("array_of", (PyBytes::new(py, x), x_type, shape(x_form)?))?;
    let out = bridge.call_method1("empty_of", (y_type, shape(y_form)?))?;
    call.bind(py).call1((x, &out, Py::new(py, StageStream::new(0, HOST))?))?;
    let bytes = bridge.call_method1("bytes_of", (out,))?;
    PyBuffer::<u8>::get(&bytes)?.copy_to_slice(py, y)
}

impl Operation for StageOperation {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn output(&self, x: &Typed) -> Result<Typed> {
        let Some(length) = x.shape.first() else {
            return Err(refused("stage", "the array has no axes"));
        };
        let mut shape = vec![*length];
        shape.extend(self.item_shape(x)?);
        Ok(Typed::new(self.out_dtype.unwrap_or(x.dtype), shape))
    }

    fn input_rows(&self, x: &Typed, y: Range<u64>) -> Range<u64> {
        let (inner, all) = (rows_of(x), x.shape.first().copied().unwrap_or(0));
        let outer = self.output(x).map_or(1, |output| rows_of(&output));
        let items = y.start / outer..y.end.div_ceil(outer);
        let (start, end) = match self.edges {
            // Later items would otherwise need earlier ones.
            Edges::Wrap if self.halo > 0 => (0, all),
            _ => (items.start.saturating_sub(self.halo), (items.end + self.halo).min(all)),
        };
        start * inner..end * inner
    }

    fn granule(&self, x: &Typed) -> u64 {
        self.output(x).map_or(1, |output| rows_of(&output))
    }

    fn load(&self, device: &Device, _: &Typed) -> Result<()> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner).push(device.clone());
        Ok(())
    }

    fn enqueue(
        &self,
        stream: &Stream,
        array: &Typed,
        rows: &RowsOfCall,
        x: View<'_, u8>,
        y: ViewMut<'_, u8>,
    ) -> Result<()> {
        if rows.y.is_empty() || y.is_empty() || array.shape.contains(&0) {
            return Ok(());
        }
        let output = self.output(array)?;
        let (inner, outer) = (rows_of(array), rows_of(&output));
        let items = Items {
            y: rows.y.start / outer..rows.y.end.div_ceil(outer),
            x: rows.x.start / inner..rows.x.end / inner,
            all: array.shape.first().copied().unwrap_or(0),
        };
        let count = items.y.end - items.y.start;
        let of = |typed: &Typed, items: u64| {
            let mut shape = typed.shape.clone();
            shape[0] = items;
            Typed::new(typed.dtype, shape)
        };
        let forms = [of(array, count + 2 * self.halo), of(&output, count)];
        let from = items.y.start.checked_sub(self.halo).filter(|from| *from >= items.x.start);
        let end = items.y.end + self.halo;
        let bytes = item_bytes(array);
        let scratch;
        let x = match from.filter(|_| end <= items.x.end) {
            Some(from) => {
                let at = |item: u64| size((item - items.x.start) * bytes);
                x.slice(at(from)..at(end))
            }
            None => {
                scratch = self.padded(stream, array, &items, x)?;
                scratch.view()
            }
        };
        match self.device_of(stream) {
            HOST => self.call_on_host(stream, forms, x, y),
            device => self.call_on_gpu(device, stream, forms, x, y),
        }
    }
}
