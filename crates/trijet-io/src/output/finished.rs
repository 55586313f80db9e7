//! The mark of a finished output: an extended attribute with a hash of its job. Where the file
//! system has no extended attributes, the mark is a file beside the output, `OUT.finished`.
//!
//! The mark tells a later run of the same job that all rows are already written. So a command that
//! is repeated until it succeeds comes to an end. The mark has the time of the last change of the
//! output. For a folder, this is the last change of the folder or of a file in it. So an output
//! that was changed after it got its mark does not count as complete.

use super::place::Place;
use super::target::Target;
use crate::file_error;
use crate::fingerprint::{DOUBTFUL, Fingerprint};
use crate::format::state_of;
use crate::journal::Journal;
use crate::names::random;
use crate::tree::{Links, walk};
use rustix::fs::{
    Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, XattrFlags, fgetxattr, fsetxattr,
    futimens, open,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use trijet::Result;

/// The name of the attribute. The names of attributes that users may set start with `user.`
const NAME: &str = "user.trijet.job";
/// Maximum number of bytes of a mark. A longer attribute is not a mark.
const BYTES_MAX: usize = 256;

/// The time of the last change of an output, and the size of the output in bytes. For a folder, the
/// files in it are included.
fn extent(root: &File) -> io::Result<(SystemTime, u64)> {
    let state = root.metadata()?;
    if !state.is_dir() {
        return Ok((state.modified()?, state.len()));
    }
    let (mut changed, mut bytes) = (state.modified()?, 0);
    walk(root, Links::Kept, |_| false, &mut |file| {
        // A time that cannot be represented counts as no time.
        changed = changed.max(modified(&file.state).unwrap_or(changed));
        bytes += file.state.st_size.cast_unsigned();
    })?;
    Ok((changed, bytes))
}

/// The time of the last modification of a file.
fn modified(state: &Stat) -> Option<SystemTime> {
    let seconds = Duration::from_secs(u64::try_from(state.st_mtime).ok()?);
    let nanoseconds = Duration::from_nanos(u64::try_from(state.st_mtime_nsec).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds)?.checked_add(nanoseconds)
}

/// The result of the comparison of an output's mark with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// There is no mark, or the mark belongs to another job, another input, or an earlier state of
    /// the output.
    Other,
    /// The mark belongs to the job, but the `ctime` of a file of the input has changed since the
    /// output was marked. The bytes of the input may have changed as well.
    Doubtful,
    Job,
}

/// The text of the mark of an output, whose open file or folder is `root`. The last word of the
/// text is a hash of the `ctime` of all files of the input.
fn mark_of(fingerprint: &Fingerprint, root: &File) -> io::Result<String> {
    let (changed, bytes) = extent(root)?;
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
    let (seconds, nanoseconds) = (since.as_secs(), since.subsec_nanos());
    let (job, state) = (fingerprint.job_hash(), fingerprint.state_hash());
    Ok(format!("2 {job:032x} {seconds}.{nanoseconds:09} {bytes} {state:032x}"))
}

/// Marks the output whose open file or folder is `root`. A change of the output after this call
/// makes the mark invalid. `beside` is the path of the mark where there are no attributes.
pub(super) fn set(fingerprint: &Fingerprint, root: &File, beside: &Path) -> io::Result<()> {
    let mark = mark_of(fingerprint, root)?;
    match fsetxattr(root, NAME, mark.as_bytes(), XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    let mut new = beside.to_owned().into_os_string();
    new.push(format!("-{:016x}", random()));
    fs::write(&new, mark).and_then(|()| fs::rename(&new, beside)).inspect_err(|_| {
        // The output is complete without the mark, so a second error is ignored too.
        drop(fs::remove_file(&new));
    })
}

/// The text of the mark of an output. `None` if there is no mark, or if it cannot be read.
fn text_of(root: &File, beside: &Path) -> Option<String> {
    let mut found = [0; BYTES_MAX];
    if let Ok(bytes) = fgetxattr(root, NAME, &mut found[..]) {
        return Some(String::from_utf8_lossy(&found[..bytes]).into_owned());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = open(beside, flags, Mode::empty()).map(File::from).ok()?;
    let mut text = String::new();
    file.take(BYTES_MAX as u64).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Compares the mark of the output of `place` with the job. A mark that cannot be read counts as no
/// mark.
fn found(fingerprint: &Fingerprint, place: &Place) -> Mark {
    let path = &place.out;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(root) = open(path, flags, Mode::empty()).map(File::from) else { return Mark::Other };
    let Some(found) = text_of(&root, &place.mark) else { return Mark::Other };
    let Ok(mark) = mark_of(fingerprint, &root) else { return Mark::Other };
    let job = |mark: &str| mark.rsplit_once(' ').map(|(job, _)| job.to_owned());
    match (found == mark, job(&found) == job(&mark)) {
        (true, _) => Mark::Job,
        (false, true) if fingerprint.is_same_input() => Mark::Job,
        (false, true) => Mark::Doubtful,
        (false, false) => Mark::Other,
    }
}

impl Target {
    /// Marks the output whose open file or folder is `root` as finished, after other machines may
    /// have written it. Sets its time first: a client of a network file system may have an older
    /// time, and the answer to this call has the time of the server. An error is ignored, because
    /// the output is complete even without the mark.
    pub(crate) fn mark_finished(&self, fingerprint: &Fingerprint, root: &File) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let touched = futimens(root, &times).map_err(io::Error::from);
        drop(touched.and_then(|()| set(fingerprint, root, &self.place.mark)));
    }

    /// Whether the complete output of this job exists at the final path, made from the present
    /// state of the input. In this case, nothing is left to do. An output that lacks the rows of
    /// damaged images is not complete. If the output is complete, deletes the journal and the
    /// second name of the output that an earlier run may have left.
    ///
    /// # Errors
    /// `InvalidValue` if something else that must not be overwritten is at the final path. `Io`.
    pub fn is_finished(&self, fingerprint: &Fingerprint) -> Result<bool> {
        if fingerprint.is_of_stream() {
            return Ok(false);
        }
        let place = &self.place;
        let Some(state) = state_of("create", &place.out)? else { return Ok(false) };
        let mark = found(fingerprint, place);
        // A journal that cannot be locked or read is ignored and not changed.
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
            match fs::remove_file(&place.partial) {
                // Another process that publishes the output has removed the name.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(io)?,
            }
        }
        let has_partial = state_of("create", &place.partial)?.is_some();
        if let (Some(journal), Some(_), false) = (journal, progress, has_partial) {
            journal.remove()?;
        }
        Ok(true)
    }
}
