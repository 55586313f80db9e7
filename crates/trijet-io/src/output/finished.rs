//! The mark of a finished output: an extended attribute that names its job.
//!
//! By the mark a later run of the same job knows that there is nothing left to do, so that a command
//! that is repeated until it succeeds comes to an end. The mark has the time of the output's last
//! change, so that an output that was changed later is not taken for complete. Without support by the
//! file system there is no mark.

use super::target::Target;
use crate::fingerprint::Fingerprint;
use crate::format::state_of;
use crate::journal::Journal;
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use trijet::Result;

/// Attributes of users begin with `user.`
const NAME: &str = "user.trijet.job";
/// The most bytes of a mark. A longer one is not ours.
const BYTES_MAX: usize = 256;

/// What the mark of an output with this state says.
fn mark_of(fingerprint: &Fingerprint, state: &Metadata) -> String {
    let bytes = if state.is_dir() { 0 } else { state.len() };
    let (seconds, nanoseconds) = (state.mtime(), state.mtime_nsec());
    format!("1 {:032x} {seconds}.{nanoseconds:09} {bytes}", fingerprint.job_hash())
}

/// Marks the output that is open as `root`, and will not be changed any more.
pub(super) fn set(fingerprint: &Fingerprint, root: &File) -> io::Result<()> {
    let mark = mark_of(fingerprint, &root.metadata()?);
    Ok(fsetxattr(root, NAME, mark.as_bytes(), XattrFlags::empty())?)
}

/// Whether the output at `path`, whose state is `state`, has the mark of this job.
fn is_set(fingerprint: &Fingerprint, path: &Path, state: &Metadata) -> bool {
    let mut found = [0; BYTES_MAX];
    let mark = mark_of(fingerprint, state);
    lgetxattr(path, NAME, &mut found[..]).is_ok_and(|bytes| found[..bytes] == *mark.as_bytes())
}

impl Target {
    /// Whether the complete output of this very job, with the input as it is now, lies at the final
    /// path, so that nothing is left to do. Deletes what is left of the journal of that run.
    ///
    /// # Errors
    /// `InvalidValue` when something else lies there. `Io`.
    pub fn is_finished(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let place = &self.place;
        let Some(state) = state_of("create", &place.out)? else { return Ok(false) };
        let is_marked = is_set(fingerprint, &place.out, &state);
        let journal = match state_of("create", &place.journal)? {
            Some(_) => Journal::lock(&place.journal).ok(),
            None => None,
        };
        let progress = match &journal {
            Some(journal) => journal.read(fingerprint).ok().flatten(),
            None => None,
        };
        let is_named = progress.as_ref().is_some_and(|progress| {
            let is_whole = progress.done.missing(self.layout().rows).is_empty();
            progress.changed.is_none() && is_whole && progress.root == Some(state.ino())
        });
        if !is_marked && !is_named {
            return place.check_free().map(|()| false);
        }
        let has_partial = state_of("create", &place.partial)?.is_some();
        if let (Some(journal), Some(_), false) = (journal, progress, has_partial) {
            journal.remove()?;
        }
        Ok(true)
    }
}
