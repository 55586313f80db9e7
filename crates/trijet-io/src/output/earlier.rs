//! The partial output of an earlier run: a new run continues it, discards it, or leaves it alone.

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
    /// It is kept, and the new run is refused. A partial output without rows is replaced.
    New,
    /// It is continued. Rows that differ from the rows that were written are written again. Without
    /// a partial output, the output starts over.
    Resume,
    /// It is continued. Rows that are known to have reached the disk are not verified.
    ResumeUnverified,
    /// It is discarded.
    Restart,
}

/// The result of an earlier run.
pub(super) enum EarlierResult {
    Kept(Kept),
    /// Nothing is kept. The first row that is written discards `earlier` rows.
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

/// Looks for the partial output of an earlier run, and opens it to continue it. If this fails, it
/// changes nothing.
pub(super) fn kept(
    target: &Target,
    fingerprint: &Fingerprint,
    start: Start,
    journal: &mut Journal,
) -> Result<EarlierResult> {
    let place = &target.place;
    // Another run may have finished this output before it gave up the lock.
    target.check_free()?;
    let state = state_of("create", &place.partial)?;
    let Some((progress, damage)) = journal.read_sound(fingerprint)? else {
        return match state {
            None => Ok(EarlierResult::Nothing { earlier: 0 }),
            // Another process of the job may have created it.
            Some(_) if place.shared.is_some() => Ok(EarlierResult::Nothing { earlier: 0 }),
            Some(_) => {
                let cause = "exists, but has no journal that names its job; move it elsewhere";
                Err(file_error::refused("create", &place.partial, cause))
            }
        };
    };
    // A damaged journal may be discarded, but not continued.
    if let Some(damage) = damage
        && start != Start::Restart
    {
        return Err(damage);
    }
    let earlier = progress.done.count();
    let created = place.created(fingerprint)?;
    let is_other = state.is_some_and(|state| match created {
        // Another process has created it again.
        Some(_) => progress.created != created,
        // A copy has another number than the original.
        None => progress.root.is_some_and(|own| own != state.ino()),
    });
    if earlier == 0 || start == Start::Restart {
        // A partial output of several processes stays, with the rows of the others.
        if place.shared.is_none() {
            target.plan.check_discard(&place.partial)?;
            if is_other {
                return Err(file_error::refused("create", &place.partial, REPLACED));
            }
        }
        return Ok(EarlierResult::Nothing { earlier });
    }
    place.check_free()?;
    if start == Start::New {
        return Err(unfinished(target, fingerprint, journal, &progress));
    }
    if let Some(changed) = &progress.changed {
        let cause = format!(
            "cannot be resumed: {changed}; use --restart to discard the {earlier} rows that are done"
        );
        return Err(file_error::refused("resume", &place.out, cause));
    }
    let writer = target.plan.reopen(&place.partial, &progress.done)?;
    let doubtful = match start {
        Start::ResumeUnverified if !is_other => &progress.unsynced,
        _ => &progress.written,
    };
    let lost = differing(&*writer, doubtful, target.layout());
    if is_other && lost.len() == progress.written.len() {
        return Err(file_error::refused("resume", &place.partial, REPLACED));
    }
    journal.resume(&progress)?;
    if is_other {
        let root = writer.root().metadata();
        let root = root.map_err(|error| file_error::io("resume", &place.partial, error))?;
        journal.name_root(root.ino())?;
        if let Some(time) = created {
            journal.name_created(time)?;
        }
    }
    journal.lose(&lost)?;
    let mut done = Rows::default();
    // `lost` is sorted by both ends.
    let key = |rows: &Range<u64>| (rows.start, rows.end);
    for one in &progress.written {
        if lost.binary_search_by_key(&key(&one.rows), key).is_err() {
            done.insert(one.rows.clone());
        }
    }
    Ok(EarlierResult::Kept(Kept { writer, done, lost }))
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
