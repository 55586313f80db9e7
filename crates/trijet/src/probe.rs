//! For tools, and for libraries that are built on this one: the libraries that Trijet opens at run time, and the check for
//! a child of `fork`.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::device::fork;
pub use crate::device::probe::{Library, LibraryReport, libraries};

/// Refuses a call in a child of a `fork` that came after a device was opened. A library with locks of its own calls this
/// before it takes one, because a thread that holds the lock may exist only in the parent.
///
/// ```
/// assert!(trijet::probe::refuse_in_child("allocate").is_ok());
/// ```
///
/// # Errors
/// `Forked`.
pub fn refuse_in_child(op: &'static str) -> Result<()> {
    fork::refuse(op)
}
