//! The mark of a finished output: an extended attribute that names its job.
//!
//! The mark tells a later run of the same job that nothing is left to do. So a command that is
//! repeated until it succeeds comes to an end. The mark has the time of the last change of the
//! output. For a folder, this includes changes of its files. So an output that was changed after
//! its mark does not count as complete. If the file system does not support attributes, there is no
//! mark.

use super::target::Target;
use crate::file_error;
use crate::fingerprint::{DOUBTFUL, Fingerprint};
use crate::format::state_of;
use crate::journal::Journal;
use rustix::fs::{Dir, Mode, OFlags, XattrFlags, fgetxattr, fsetxattr, open, openat};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;
use trijet::Result;

/// The names of users' attributes start with `user.`
const NAME: &str = "user.trijet.job";
/// Maximum number of bytes of a mark. A longer attribute is not a mark.
const BYTES_MAX: usize = 256;

/// The time of the last change in an output, and the number of its bytes. For a folder, these are
/// the bytes of its files.
fn extent(root: &File) -> io::Result<(SystemTime, u64)> {
    let state = root.metadata()?;
    if !state.is_dir() {
        return Ok((state.modified()?, state.len()));
    }
    let (mut changed, mut bytes) = (state.modified()?, 0);
    for entry in Dir::read_from(root)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let state =
            File::from(openat(root, entry.file_name(), flags, Mode::empty())?).metadata()?;
        changed = changed.max(state.modified()?);
        bytes += state.len();
    }
    Ok((changed, bytes))
}

/// Result of the comparison of an output's mark with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// There is no mark, or the mark belongs to another job or input.
    Other,
    /// The mark belongs to the job, but the state of the input (`ctime`) has changed since the mark
    /// was set. The bytes of the input may have changed as well.
    Doubtful,
    Job,
}

/// The mark of an output, for the open file or folder `root`. The last word is a hash of the state
/// of the input.
fn mark_of(fingerprint: &Fingerprint, root: &File) -> io::Result<String> {
    let (changed, bytes) = extent(root)?;
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
    let (seconds, nanoseconds) = (since.as_secs(), since.subsec_nanos());
    let (job, state) = (fingerprint.job_hash(), fingerprint.state_hash());
    Ok(format!("2 {job:032x} {seconds}.{nanoseconds:09} {bytes} {state:032x}"))
}

/// Marks the output that is open as `root`. The output must not be changed afterwards.
pub(super) fn set(fingerprint: &Fingerprint, root: &File) -> io::Result<()> {
    let mark = mark_of(fingerprint, root)?;
    Ok(fsetxattr(root, NAME, mark.as_bytes(), XattrFlags::empty())?)
}

/// Compares the mark of the output at `path` with the job. A mark that cannot be read counts as no
/// mark.
fn found(fingerprint: &Fingerprint, path: &Path) -> Mark {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(root) = open(path, flags, Mode::empty()).map(File::from) else { return Mark::Other };
    let mut found = [0; BYTES_MAX];
    let Ok(bytes) = fgetxattr(&root, NAME, &mut found[..]) else { return Mark::Other };
    let Ok(mark) = mark_of(fingerprint, &root) else { return Mark::Other };
    let found = String::from_utf8_lossy(&found[..bytes]);
    let job = |mark: &str| mark.rsplit_once(' ').map(|(job, _)| job.to_owned());
    match (found == mark, job(&found) == job(&mark)) {
        (true, _) => Mark::Job,
        (false, true) if fingerprint.is_same_input() => Mark::Job,
        (false, true) => Mark::Doubtful,
        (false, false) => Mark::Other,
    }
}

impl Target {
    /// Whether the final path has the complete output of this job, with the input in its present
    /// state. Then nothing is left to do. An output that lacks the rows of damaged images is not
    /// complete. If the output is complete, deletes the journal that the run has left, if there is
    /// one.
    ///
    /// # Errors
    /// `InvalidValue` when the final path has something else that must not be overwritten. `Io`.
    pub fn is_finished(&self, fingerprint: &Fingerprint) -> Result<bool> {
        let place = &self.place;
        let Some(state) = state_of("create", &place.out)? else { return Ok(false) };
        let mark = found(fingerprint, &place.out);
        // A journal that cannot be locked or read proves nothing, and stays as it is.
        let journal = match state_of("create", &place.journal)? {
            Some(_) => Journal::lock(&place.journal).ok(),
            None => None,
        };
        let progress = match &journal {
            Some(journal) => journal.read(fingerprint).ok().flatten(),
            None => None,
        };
        if let Some(progress) = &progress
            && place.lacks_rows(progress, self.layout().rows)?
        {
            return Ok(false);
        }
        let is_named = progress.as_ref().is_some_and(|progress| {
            let is_whole = progress.done.missing(self.layout().rows).is_empty();
            progress.changed.is_none() && is_whole && progress.root == Some(state.ino())
        });
        if mark == Mark::Doubtful && !is_named && !self.overwrites {
            let cause = format!(
                "is the output of this job, but the state of the input (ctime) has changed since: \
                 {DOUBTFUL}"
            );
            return Err(file_error::refused("create", &place.out, cause));
        }
        if mark != Mark::Job && !is_named {
            return self.check_free().map(|()| false);
        }
        if place.has_both_names() {
            let io = |error| file_error::io("create", &place.partial, error);
            fs::remove_file(&place.partial).map_err(io)?;
        }
        let has_partial = state_of("create", &place.partial)?.is_some();
        if let (Some(journal), Some(_), false) = (journal, progress, has_partial) {
            journal.remove()?;
        }
        Ok(true)
    }
}
