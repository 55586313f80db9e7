//! A folder of a simulated file system that converts file names to lower case. Names that differ
//! only in case then mean the same file.

use crate::fault::variable;
use crate::target::{PATH_BYTES, Target};
use libc::{AT_FDCWD, c_char, c_int};

/// The path of a file below the folder that `FAILING_FILES_FOLDED` names. The part of the path
/// below this folder is in lower case. `None` for any other file, and if the variable is not set.
pub(crate) struct Folded(Option<[u8; PATH_BYTES + 1]>);

impl Folded {
    pub(crate) fn of(target: &Target) -> Self {
        let Some(folder) = variable(c"FAILING_FILES_FOLDED") else { return Self(None) };
        let Some(name) = target.below(folder.to_bytes()) else { return Self(None) };
        let path = target.path();
        let mut folded = [0; PATH_BYTES + 1];
        folded[..path.len()].copy_from_slice(path);
        folded[path.len() - name.len()..path.len()].make_ascii_lowercase();
        Self(Some(folded))
    }

    /// The folder and the path to pass to the system call. `folder` and `path` are the arguments of
    /// the caller.
    pub(crate) fn name(&self, folder: c_int, path: *const c_char) -> (c_int, *const c_char) {
        match &self.0 {
            Some(folded) => (AT_FDCWD, folded.as_ptr().cast()),
            None => (folder, path),
        }
    }
}
