//! Tensors of other packages, through DLPack capsules.

use crate::dlpack::{Managed, ManagedVersioned, PLAIN, VERSIONED, dtype_of, lengths_of};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_void};
use trijet_io::Array;

/// A tensor that a producer has handed over.
pub(crate) struct Imported {
    pub(crate) address: u64,
    pub(crate) array: Array,
    pub(crate) read_only: bool,
    pub(crate) owner: Owner,
}

/// Returns the tensor to its producer when it is dropped, on any thread.
pub(crate) enum Owner {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

// SAFETY: DLPack lets a consumer call the deleter from any thread, once.
unsafe impl Send for Owner {}

impl Drop for Owner {
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
            let owner = Owner::Versioned(tensor);
            // SAFETY: a live tensor of this capsule; the version comes first in every version.
            let major = unsafe { (*tensor).major };
            if major != 1 {
                return Err(PyBufferError::new_err(format!("DLPack of version {major}")));
            }
            // SAFETY: a live tensor of version 1, which has the flags.
            (owner, unsafe { (*tensor).flags } & 1 != 0)
        } else if let Some(tensor) = taken(&capsule, PLAIN, c"used_dltensor") {
            (Owner::Plain(tensor.cast()), false)
        } else {
            return Err(PyBufferError::new_err("__dlpack__ returned no capsule of DLPack"));
        };
    let tensor = match owner {
        // SAFETY: a live tensor of version 0, which `owner` keeps.
        Owner::Plain(tensor) => unsafe { &(*tensor).tensor },
        // SAFETY: a live tensor of version 1, which `owner` keeps.
        Owner::Versioned(tensor) => unsafe { &(*tensor).tensor },
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
    Ok(Imported { address, array, read_only, owner })
}
