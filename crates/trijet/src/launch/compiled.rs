//! PTX that was compiled from CUDA C++ at run time.
//!
//! The compiler takes some tenths of a second. So the PTX of a kernel is kept for each compute
//! capability. All devices of one compute capability use the same PTX.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::device::ptx;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// PTX, and the result of its scan.
#[derive(Debug, Clone)]
pub(super) struct CompiledPtx {
    pub(super) text: Arc<str>,
    pub(super) module: Arc<ptx::Module>,
}

/// The PTX of one source. The keys are the major and the minor compute capability.
#[derive(Debug)]
pub(super) struct Compiled(Mutex<BTreeMap<(u32, u32), CompiledPtx>>);

impl Compiled {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the PTX for the compute capability `compute`. The first call compiles the source
    /// with `compile`. Other threads that call this function wait meanwhile.
    ///
    /// # Errors
    /// The errors of `compile`. The next call then compiles again.
    pub(super) fn get(
        &self,
        compute: (u32, u32),
        compile: impl FnOnce() -> Result<String>,
    ) -> Result<CompiledPtx> {
        let mut all = self.0.lock().expect("no thread panicked while it held this lock");
        if let Some(found) = all.get(&compute) {
            return Ok(found.clone());
        }
        let text = compile()?;
        let module = Arc::new(ptx::scan(&text));
        let made = CompiledPtx { text: text.into(), module };
        all.insert(compute, made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{Error, ErrorKind};

    #[test]
    fn a_source_is_compiled_once_for_each_compute_capability() {
        let (compiled, mut calls) = (Compiled::new(), 0);
        for (compute, text) in [((8, 0), "a"), ((9, 0), "b"), ((8, 0), "c"), ((9, 0), "d")] {
            let found = compiled.get(compute, || {
                calls += 1;
                Ok(text.to_owned())
            });
            let expected = if compute == (8, 0) { "a" } else { "b" };
            assert_eq!(&*found.expect("it compiles").text, expected);
        }
        assert_eq!(calls, 2);
    }

    #[test]
    fn a_source_that_did_not_compile_is_compiled_again() {
        let compiled = Compiled::new();
        let missing = || Err(Error::new(ErrorKind::Unsupported, "compile", "no compiler"));
        let error = compiled.get((9, 0), missing).expect_err("there is no compiler");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(&*compiled.get((9, 0), || Ok("a".to_owned())).expect("it compiles").text, "a");
    }
}
