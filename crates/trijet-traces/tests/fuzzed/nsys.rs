//! An export of Nsight Systems of any bytes is read or refused.

use std::cell::RefCell;
use std::fs::write;
use tempfile::NamedTempFile;
use trijet_traces::nsys;

thread_local! {
    /// The file of all inputs of a thread.
    static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("a folder for files"));
}

pub(crate) fn check(bytes: &[u8]) {
    FILE.with_borrow(|file| {
        write(file.path(), bytes).expect("room for a file");
        if let Ok(traces) = nsys::read(file.path()) {
            // Each row takes several bytes of the file.
            let activities = traces.iter().map(|trace| trace.activities.len()).sum::<usize>();
            assert!(activities <= bytes.len());
        }
    });
}
