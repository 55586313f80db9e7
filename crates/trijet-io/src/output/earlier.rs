//! The partial output of an earlier run. A new run continues it, discards it, or refuses to start.

use super::target::Target;
use crate::file_error;
use crate::fingerprint::Fingerprint;
use crate::format::{Writer, state_of};
use crate::journal::{Journal, Progress};
use crate::rows::Rows;
use crate::shown::shown;
use crate::verify::differing;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use trijet::{Error, Result};

/// The treatment of a partial output that an earlier run of the same job has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// If the partial output has rows, it is kept, and the new run is refused. A partial output
    /// without rows is replaced.
    New,
    /// The new run continues the partial output. Rows whose bytes have changed since they were
    /// written are written again. If there is no partial output, a new output is written.
    Resume,
    /// The new run continues the partial output. Rows that the journal names as being on the disk
    /// are not verified.
    ResumeUnverified,
    /// The new run discards the partial output.
    Restart,
}

/// The state that the new run takes over from an earlier run.
pub(super) enum EarlierResult {
    Kept(Kept),
    /// The new run keeps no rows. Its first write discards the partial output of an earlier run,
    /// which has `earlier` rows.
    Nothing {
        earlier: u64,
    },
}

/// An opened partial output, with the rows that it has and the rows that it has lost.
pub(super) struct Kept {
    pub(super) writer: Box<dyn Writer>,
    pub(super) done: Rows,
    pub(super) lost: Vec<Range<u64>>,
}

/// Whether the run resumes an earlier one. A run that reads a stream cannot, because it would read
/// other rows.
fn resumes(target: &Target, fingerprint: &Fingerprint, start: Start) -> Result<bool> {
    let resumes = matches!(start, Start::Resume | Start::ResumeUnverified);
    if resumes && fingerprint.is_of_stream() {
        let cause = "a run that reads a stream cannot be resumed; --restart starts over";
        return Err(file_error::refused("resume", target.path(), cause));
    }
    Ok(resumes)
}

/// Looks for the partial output of an earlier run, and opens it to continue it. If this function
/// returns an error, it has changed nothing.
pub(super) fn kept(
    target: &Target,
    fingerprint: &Fingerprint,
    start: Start,
    journal: &mut Journal,
) -> Result<EarlierResult> {
    let place = &target.place;
    let resumes = resumes(target, fingerprint, start)?;
    let read = journal.read_sound(fingerprint);
    let progress = read.as_ref().ok().and_then(Option::as_ref).map(|(progress, _)| progress);
    // An output with its final name may still lack the rows of damaged images.
    let lacks_rows = match progress {
        Some(progress) => place.lacks_rows(progress, target.layout().rows)?,
        None => false,
    };
    if !(lacks_rows && resumes) {
        // Another run may have finished this output before it released the lock of the journal.
        target.check_free()?;
    }
    let partial = if lacks_rows { &place.out } else { &place.partial };
    let state = state_of("create", partial)?;
    let Some((progress, damage)) = read? else {
        return match state {
            None => Ok(EarlierResult::Nothing { earlier: 0 }),
            // Another process of the same job may have created the partial output.
            Some(_) if place.shared.is_some() => Ok(EarlierResult::Nothing { earlier: 0 }),
            Some(_) => {
                let cause = "exists, but has no journal that names its job; move it elsewhere";
                Err(file_error::refused("create", &place.partial, cause))
            }
        };
    };
    if lacks_rows && !resumes {
        // The run writes over the existing output.
        return Ok(EarlierResult::Nothing { earlier: 0 });
    }
    // A run may discard a partial output with a damaged journal, but not continue it.
    if let Some(damage) = damage
        && start != Start::Restart
    {
        return Err(damage);
    }
    let earlier = progress.done.count();
    let created = place.created(fingerprint)?;
    let is_other = state.is_some_and(|state| match created {
        // Another process may have discarded the partial output of this journal and created a new
        // one.
        Some(_) => progress.created != created,
        // A copy of the partial output has another inode number than the original.
        None => progress.root.is_some_and(|own| own != state.ino()),
    });
    if earlier == 0 || start == Start::Restart {
        // A partial output that several processes share is not discarded, because it has rows of
        // the other processes.
        if place.shared.is_none() {
            target.plan.check_discard(&place.partial)?;
            if is_other {
                return Err(file_error::refused("create", &place.partial, REPLACED));
            }
        }
        return Ok(EarlierResult::Nothing { earlier });
    }
    if !lacks_rows {
        place.check_free()?;
    }
    if start == Start::New {
        return Err(unfinished(target, fingerprint, journal, &progress));
    }
    let way = if lacks_rows { "--overwrite" } else { "--restart" };
    check_unchanged(target, &progress, way)?;
    let writer = target.plan.reopen(partial, &progress.done)?;
    let doubtful = match start {
        Start::ResumeUnverified if !is_other => &progress.unsynced,
        _ => &progress.written,
    };
    let lost = differing(&*writer, doubtful, target.layout());
    if is_other && lost.len() == progress.written.len() {
        return Err(file_error::refused("resume", partial, REPLACED));
    }
    journal.resume(&progress)?;
    if is_other {
        name_root(journal, &*writer, target, created)?;
    }
    journal.lose(&lost)?;
    let done = intact(&progress, &lost);
    Ok(EarlierResult::Kept(Kept { writer, done, lost }))
}

/// Appends lines about the opened partial output to the journal: its inode number, and the time
/// `created` if several processes share it. The earlier lines have the inode number and the time of
/// another file or folder.
fn name_root(
    journal: &mut Journal,
    writer: &dyn Writer,
    target: &Target,
    created: Option<u64>,
) -> Result<()> {
    let root = writer.root().metadata();
    let root = root.map_err(|error| file_error::io("resume", &target.place.partial, error))?;
    journal.name_root(root.ino())?;
    match created {
        Some(time) => journal.name_created(time),
        None => Ok(()),
    }
}

/// The rows that an earlier run has written, without the ranges `lost`. These ranges are sorted by
/// start and end.
fn intact(progress: &Progress, lost: &[Range<u64>]) -> Rows {
    let mut done = Rows::default();
    let key = |rows: &Range<u64>| (rows.start, rows.end);
    for one in &progress.written {
        if lost.binary_search_by_key(&key(&one.rows), key).is_err() {
            done.insert(one.rows.clone());
        }
    }
    done
}

/// Refuses to continue a partial output if the input or the circumstances have changed. `way` is
/// the option that discards the rows, for the message.
fn check_unchanged(target: &Target, progress: &Progress, way: &str) -> Result<()> {
    let Some(changed) = &progress.changed else { return Ok(()) };
    let cause = format!(
        "cannot be resumed: {changed}; use {way} to discard the {} rows that are done",
        progress.done.count()
    );
    Err(file_error::refused("resume", &target.place.out, cause))
}

/// The reason to refuse a file or folder that has replaced the partial output of the journal.
const REPLACED: &str =
    "is not the partial output that the journal next to it names; move both elsewhere";

/// The error for a new run of a job if an earlier run has already written some rows of the job.
fn unfinished(
    target: &Target,
    fingerprint: &Fingerprint,
    journal: &Journal,
    progress: &Progress,
) -> Error {
    let (done, rows) = (progress.done.count(), target.rows());
    let rows = rows.end - rows.start;
    let when = match journal.modified() {
        Ok(when) => when,
        Err(error) => return error,
    };
    let cause = format!(
        "{done} of {rows} rows of this job ({}) are done in {}, the last on {when}; use --resume to \
         continue, or --restart to discard them",
        fingerprint.operation(),
        shown(&target.place.partial),
    );
    file_error::refused("create", &target.place.out, cause)
}
