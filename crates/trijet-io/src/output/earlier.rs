//! The partial output of an earlier run: a new run continues, discards or keeps it.

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

/// The treatment of a partial output of the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The partial output is kept, and the new run is refused. A partial output without rows is
    /// replaced.
    New,
    /// The partial output is continued. Rows whose bytes have changed since they were written are
    /// written again. If there is no partial output, a new output is written.
    Resume,
    /// The partial output is continued. Rows that are known to have reached the disk are not
    /// verified.
    ResumeUnverified,
    /// The partial output is discarded.
    Restart,
}

/// The result of an earlier run.
pub(super) enum EarlierResult {
    Kept(Kept),
    /// No rows are kept. The first write of the new run discards the `earlier` rows of an earlier
    /// run.
    Nothing {
        earlier: u64,
    },
}

/// A partial output with its rows.
pub(super) struct Kept {
    pub(super) writer: Box<dyn Writer>,
    pub(super) done: Rows,
    pub(super) lost: Vec<Range<u64>>,
}

/// Looks for the partial output of an earlier run, and opens the partial output to continue it.
/// After an error, nothing is changed.
pub(super) fn kept(
    target: &Target,
    fingerprint: &Fingerprint,
    start: Start,
    journal: &mut Journal,
) -> Result<EarlierResult> {
    let place = &target.place;
    let read = journal.read_sound(fingerprint);
    let progress = read.as_ref().ok().and_then(Option::as_ref).map(|(progress, _)| progress);
    // A complete output may lack the rows of damaged images.
    let lacks_rows = match progress {
        Some(progress) => place.lacks_rows(progress, target.layout().rows)?,
        None => false,
    };
    let resumes = matches!(start, Start::Resume | Start::ResumeUnverified);
    if !(lacks_rows && resumes) {
        // Another run may have finished this output before that run released the lock.
        target.check_free()?;
    }
    let partial = if lacks_rows { &place.out } else { &place.partial };
    let state = state_of("create", partial)?;
    let Some((progress, damage)) = read? else {
        return match state {
            None => Ok(EarlierResult::Nothing { earlier: 0 }),
            // Another process of the job may have created the partial output.
            Some(_) if place.shared.is_some() => Ok(EarlierResult::Nothing { earlier: 0 }),
            Some(_) => {
                let cause = "exists, but has no journal that names its job; move it elsewhere";
                Err(file_error::refused("create", &place.partial, cause))
            }
        };
    };
    if lacks_rows && !resumes {
        // The existing output is written over.
        return Ok(EarlierResult::Nothing { earlier: 0 });
    }
    // A damaged journal may be discarded, but not continued.
    if let Some(damage) = damage
        && start != Start::Restart
    {
        return Err(damage);
    }
    let earlier = progress.done.count();
    let created = place.created(fingerprint)?;
    let is_other = state.is_some_and(|state| match created {
        // Another process may have discarded this partial output and created a new one.
        Some(_) => progress.created != created,
        // A copy of the partial output has another inode number than the original.
        None => progress.root.is_some_and(|own| own != state.ino()),
    });
    if earlier == 0 || start == Start::Restart {
        // If several processes share a partial output, it stays, with the rows of the other
        // processes.
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

/// Adds lines about the partial output to the journal: its inode number, and the time `created` if
/// several processes share the partial output. Earlier lines of the journal are about another file
/// or folder.
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

/// The rows of an earlier run without the ranges `lost`, which are sorted by start and end.
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

/// Refuses to continue a partial output that an earlier run has written under other circumstances.
fn check_unchanged(target: &Target, progress: &Progress, way: &str) -> Result<()> {
    let Some(changed) = &progress.changed else { return Ok(()) };
    let cause = format!(
        "cannot be resumed: {changed}; use {way} to discard the {} rows that are done",
        progress.done.count()
    );
    Err(file_error::refused("resume", &target.place.out, cause))
}

/// The reason to refuse something that has replaced the partial output.
const REPLACED: &str =
    "is not the partial output that the journal next to it names; move both elsewhere";

/// The error of a new run of a job that is partly done.
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
