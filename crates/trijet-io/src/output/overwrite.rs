//! Writes over an existing output, which becomes the partial output of the run.

use super::Output;
use crate::file_error;
use crate::format::Writer;
use crate::names::{identity, rename_new};
use rustix::io::Errno;
use std::fs;
use std::path::Path;
use trijet::Result;

impl Output {
    /// Gives an existing output the name of the partial output, and opens it for writing. `None` if
    /// there is no output, or if the target does not allow overwriting. If the output cannot be
    /// opened, it gets its own name back.
    pub(super) fn take_over(&self) -> Result<Option<Box<dyn Writer>>> {
        let place = &self.target.place;
        if !self.target.overwrites || !taken_away(&place.out, &place.partial)? {
            return Ok(None);
        }
        match self.target.plan.reuse(&place.partial) {
            Ok(writer) => Ok(Some(writer)),
            Err(error) => Err(match renamed(&place.partial, &place.out) {
                Ok(_) => error,
                Err(second) => error.context(second.to_string()),
            }),
        }
    }
}

/// Renames the output. If this fails, the output has only its own name.
fn taken_away(out: &Path, partial: &Path) -> Result<bool> {
    renamed(out, partial).inspect_err(|_| {
        // The file gets its new name before it loses the old one, where no rename refuses to
        // replace. A partial output without a journal would be refused by every later run.
        let own = identity(out);
        if own.is_some() && own == identity(partial) {
            drop(fs::remove_file(partial));
        }
    })
}

/// Renames the file or folder at `from`, and replaces nothing. Returns whether anything was at
/// `from`.
pub(super) fn renamed(from: &Path, to: &Path) -> Result<bool> {
    let io = |error: Errno| file_error::io("overwrite", from, error.into());
    match rename_new(from, to) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(io(error)),
    }
}
