//! Saved runs, and the recording of this process.

use crate::error::OrRaise;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use trijet_cli::saved;

/// A saved run: a ledger or a trace.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Saved(saved::Saved);

#[pymethods]
impl Saved {
    /// Reads a file or a folder.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, whole: bool) -> PyResult<Self> {
        py.detach(|| saved::Saved::read(&path, whole)).map(Self).or_raise(py)
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    #[getter]
    fn verdict(&self) -> Option<(String, bool)> {
        self.0.verdict()
    }

    #[getter]
    fn missing(&self) -> Option<&str> {
        self.0.missing()
    }

    fn summary(&self) -> String {
        self.0.summary()
    }

    fn json(&self) -> String {
        self.0.json().to_string()
    }

    fn page(&self, py: Python<'_>) -> PyResult<String> {
        let page = py.detach(|| self.0.page()).or_raise(py)?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.save(&path)).or_raise(py)
    }

    fn memory(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.memory()).or_raise(py)
    }
}

/// The folder of a recording of this process, until it is finished.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Recording(Mutex<Option<saved::Recording>>);

impl Recording {
    fn of<R>(&self, get: impl FnOnce(&saved::Recording) -> R) -> PyResult<R> {
        let recording = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = || PyRuntimeError::new_err("the recording has ended");
        recording.as_ref().map(get).ok_or_else(ended)
    }
}

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>, record: Option<Vec<String>>, graphs: &str) -> PyResult<Self> {
        let created = saved::Recording::create(record.as_deref(), graphs).or_raise(py)?;
        Ok(Self(Mutex::new(Some(created))))
    }

    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        self.of(|recording| recording.path().to_owned())
    }

    #[getter]
    fn library(&self) -> PyResult<PathBuf> {
        self.of(saved::Recording::library)
    }

    fn environment(&self) -> PyResult<Vec<(&'static str, OsString)>> {
        self.of(saved::Recording::environment)
    }

    /// Ends the recording, and reads it.
    fn finish(&self, py: Python<'_>, whole: bool) -> PyResult<Saved> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(recording) = taken else {
            return Err(PyRuntimeError::new_err("the recording has ended"));
        };
        py.detach(|| recording.finish(whole)).map(Saved).or_raise(py)
    }
}
