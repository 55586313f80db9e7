//! Tensors of other packages, through DLPack capsules or `__cuda_array_interface__`.

use crate::dlpack::{
    Managed, ManagedVersioned, PLAIN, VERSIONED, dense_lengths, dtype_of, lengths_of,
};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::any::Any;
use std::ffi::{CStr, c_void};
use trijet::Dtype;
use trijet_io::Array;

/// A tensor that a producer has handed over.
pub(crate) struct Imported {
    pub(crate) address: u64,
    pub(crate) array: Array,
    pub(crate) read_only: bool,
    /// Returns the memory to its producer when it is dropped, on any thread.
    pub(crate) owner: Box<dyn Any + Send>,
}

/// Returns a tensor to its producer when it is dropped, on any thread.
enum OwnedTensor {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

// SAFETY: DLPack lets a consumer call the deleter from any thread, once.
unsafe impl Send for OwnedTensor {}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        match *self {
            Self::Plain(tensor) => {
                // SAFETY: a live tensor that was taken out of its capsule.
                if let Some(deleter) = unsafe { (*tensor).deleter } {
                    // SAFETY: the deleter of this very tensor, called once.
                    unsafe { deleter(tensor) };
                }
            }
            Self::Versioned(tensor) => {
                // SAFETY: a live tensor that was taken out of its capsule.
                if let Some(deleter) = unsafe { (*tensor).deleter } {
                    // SAFETY: the deleter of this very tensor, called once.
                    unsafe { deleter(tensor) };
                }
            }
        }
    }
}

/// Asks `object` for a tensor that work in `stream` may use. A producer that does not know version
/// 1 of the protocol is asked again without it.
fn capsule<'py>(
    py: Python<'py>,
    object: &Bound<'py, PyAny>,
    stream: Option<i64>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let ask = |is_versioned: bool| {
        let named = PyDict::new(py);
        if let Some(stream) = stream {
            named.set_item("stream", stream)?;
        }
        if is_versioned {
            named.set_item("max_version", (1, 0))?;
            named.set_item("copy", copy)?;
        }
        object.call_method("__dlpack__", (), Some(&named))
    };
    match ask(true) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) && copy != Some(true) => ask(false),
        outcome => outcome,
    }
}

/// Takes the tensor out of a capsule, and renames the capsule, as the protocol demands.
fn taken(
    capsule: &Bound<'_, PyAny>,
    name: &'static CStr,
    used: &'static CStr,
) -> Option<*mut c_void> {
    let object = capsule.as_ptr();
    // SAFETY: an object of Python; the call looks whether it is a capsule of this name.
    if unsafe { ffi::PyCapsule_IsValid(object, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: a valid capsule of this name, by the line before.
    let tensor = unsafe { ffi::PyCapsule_GetPointer(object, name.as_ptr()) };
    // SAFETY: as above; the new name is static.
    let renamed = unsafe { ffi::PyCapsule_SetName(object, used.as_ptr()) };
    (renamed == 0).then_some(tensor)
}

/// The tensor of an object with `__dlpack__`, ordered before later work in `stream`.
pub(crate) fn imported(
    py: Python<'_>,
    object: &Bound<'_, PyAny>,
    stream: Option<i64>,
    copy: Option<bool>,
) -> PyResult<Imported> {
    let capsule = capsule(py, object, stream, copy)?;
    let (owner, read_only) =
        if let Some(tensor) = taken(&capsule, VERSIONED, c"used_dltensor_versioned") {
            let tensor = tensor.cast::<ManagedVersioned>();
            let owner = OwnedTensor::Versioned(tensor);
            // SAFETY: a live tensor of this capsule; the version comes first in every version.
            let major = unsafe { (*tensor).major };
            if major != 1 {
                return Err(PyBufferError::new_err(format!("DLPack of version {major}")));
            }
            // SAFETY: a live tensor of version 1, which has the flags.
            (owner, unsafe { (*tensor).flags } & 1 != 0)
        } else if let Some(tensor) = taken(&capsule, PLAIN, c"used_dltensor") {
            (OwnedTensor::Plain(tensor.cast()), false)
        } else {
            return Err(PyBufferError::new_err("__dlpack__ returned no capsule of DLPack"));
        };
    let tensor = match owner {
        // SAFETY: a live tensor of version 0, which `owner` keeps.
        OwnedTensor::Plain(tensor) => unsafe { &(*tensor).tensor },
        // SAFETY: a live tensor of version 1, which `owner` keeps.
        OwnedTensor::Versioned(tensor) => unsafe { &(*tensor).tensor },
    };
    let dtype = dtype_of(&tensor.dtype)
        .ok_or_else(|| PyBufferError::new_err("the element type of the tensor is not supported"))?;
    // SAFETY: a live tensor, with numbers for each axis.
    let shape = unsafe { lengths_of(tensor) }?;
    let array =
        Array::new(dtype, shape).map_err(|error| PyBufferError::new_err(error.to_string()))?;
    let address = match array.bytes() {
        // The address of a tensor without elements has no meaning.
        0 => 16,
        _ => (tensor.data.expose_provenance() as u64).saturating_add(tensor.byte_offset),
    };
    Ok(Imported { address, array, read_only, owner: Box::new(owner) })
}

/// An array by its `__cuda_array_interface__`, and the stream whose work comes first.
pub(crate) struct ByInterface {
    pub(crate) imported: Imported,
    /// `None` if the array needs no order.
    pub(crate) stream: Option<i64>,
}

/// The value of a key of an interface; `None` if the key is absent or its value is.
fn field<'py, T>(interface: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let found = interface.get_item(key)?.filter(|value| !value.is_none());
    found.map(|value| value.extract()).transpose()
}

/// Reads the `__cuda_array_interface__` of `object` (versions 2 and 3; Numba's documentation).
pub(crate) fn by_interface(object: &Bound<'_, PyAny>) -> PyResult<ByInterface> {
    let refuse =
        |cause: String| PyBufferError::new_err(format!("__cuda_array_interface__: {cause}"));
    let missing = |key: &str| refuse(format!("`{key}` is missing"));
    let found = object.getattr("__cuda_array_interface__")?;
    let interface = found.cast::<PyDict>().map_err(|_| refuse("it is no dict".to_owned()))?;
    let shape: Vec<i64> = field(interface, "shape")?.ok_or_else(|| missing("shape"))?;
    let code: String = field(interface, "typestr")?.ok_or_else(|| missing("typestr"))?;
    let (address, read_only): (u64, bool) =
        field(interface, "data")?.ok_or_else(|| missing("data"))?;
    if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(refuse("an array with a mask".to_owned()));
    }
    let own = |dtype: &Dtype| code.get(1..) == Some(dtype.numpy_code());
    let dtype = Dtype::ALL.into_iter().find(own);
    let dtype = dtype.or_else(|| (code == "|b1").then_some(Dtype::U8));
    // `V2` may be any structure of two bytes.
    let is_read = |dtype: &Dtype| *dtype != Dtype::BF16;
    let dtype = dtype.filter(is_read);
    let dtype = dtype.filter(|dtype| dtype.bytes() == 1 || !code.starts_with('>'));
    let dtype = dtype.ok_or_else(|| refuse(format!("the type `{code}`")))?;
    let strides: Option<Vec<i64>> = field(interface, "strides")?;
    let bytes = i64::try_from(dtype.bytes()).unwrap_or(i64::MAX);
    let lengths = dense_lengths(&shape, strides.as_deref(), bytes).map_err(refuse)?;
    let array = Array::new(dtype, lengths).map_err(|error| refuse(error.to_string()))?;
    let stream = match field::<i64>(interface, "stream")? {
        Some(0) => return Err(refuse("the stream 0, which names no stream".to_owned())),
        // Version 2 has no streams, and its arrays are of the legacy stream.
        None if field::<i64>(interface, "version")?.unwrap_or(2) < 3 => Some(1),
        stream => stream,
    };
    let address = if array.bytes() == 0 { 16 } else { address };
    // Python counts the object down at once, or when a thread has its lock again.
    let owner = Box::new(object.clone().unbind());
    Ok(ByInterface { imported: Imported { address, array, read_only, owner }, stream })
}
