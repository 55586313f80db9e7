//! Element types and shapes as Python passes them.

use crate::error::OrRaise;
use pyo3::prelude::*;
use trijet_io::{Array, Dtype};

/// The element type with this name, such as `u16` or `uint16`.
pub(crate) fn dtype(py: Python<'_>, name: &str) -> PyResult<Dtype> {
    let of_numpy = Dtype::ALL.into_iter().find(|dtype| dtype.numpy_name() == name);
    match of_numpy {
        Some(dtype) => Ok(dtype),
        None => name.parse::<Dtype>().or_raise(py),
    }
}

/// An array with elements of the type that has this name.
pub(crate) fn array(py: Python<'_>, name: &str, shape: Vec<u64>) -> PyResult<Array> {
    Array::new(dtype(py, name)?, shape).or_raise(py)
}

/// The rows of one index of the first axis of an array with this shape, at least 1.
pub(crate) fn rows_of_item(shape: &[u64]) -> u64 {
    match shape {
        [_, inner @ .., _] => inner.iter().product::<u64>().max(1),
        _ => 1,
    }
}

/// The names of the element types: each name of NumPy, with the name of the library.
#[pyfunction]
pub(crate) fn dtype_names() -> Vec<(&'static str, &'static str)> {
    Dtype::ALL.into_iter().map(|dtype| (dtype.numpy_name(), dtype.name())).collect()
}
