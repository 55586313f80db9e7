//! Saved runs, and the recording of this process.

use crate::error::OrRaise;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
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

/// The folder of a recording of this process.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct Recording(saved::Recording);

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        saved::Recording::create().map(Self).or_raise(py)
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    #[getter]
    fn library(&self) -> PathBuf {
        self.0.library()
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.0.environment()
    }

    fn read(&self, py: Python<'_>, whole: bool) -> PyResult<Saved> {
        py.detach(|| self.0.read(whole)).map(Saved).or_raise(py)
    }
}
