//! The calls of this process to the CUDA driver, which a check judges.

use crate::error::OrRaise;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trijet_cli::watched;

/// The recording of the calls of this process.
#[pyclass(frozen)]
#[derive(Debug)]
pub(crate) struct WatchedProcess(Mutex<watched::WatchedProcess>);

impl WatchedProcess {
    fn inner(&self) -> MutexGuard<'_, watched::WatchedProcess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl WatchedProcess {
    #[new]
    fn new(py: Python<'_>, kernels: bool) -> PyResult<Self> {
        Ok(Self(Mutex::new(watched::WatchedProcess::create(kernels).or_raise(py)?)))
    }

    #[getter]
    fn library(&self) -> PathBuf {
        self.inner().library()
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.inner().environment()
    }

    /// The texts of the findings since the last look, and whether each is an error.
    fn look(&self, py: Python<'_>) -> PyResult<Vec<(String, bool)>> {
        let findings = py.detach(|| self.inner().look()).or_raise(py)?;
        Ok(findings.into_iter().map(|one| (one.text, one.is_error)).collect())
    }

    #[getter]
    fn calls(&self) -> u64 {
        self.inner().calls()
    }

    #[getter]
    fn trouble(&self) -> Option<String> {
        self.inner().trouble()
    }
}
