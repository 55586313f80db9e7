//! The start of a process in a job with claims: it finds or creates the record of the job and the
//! partial output.

use super::decision::{Opening, OpeningLook, Owner, RangeClaim};
use super::folder::{ClaimFolder, Created};
use super::record::JobRecord;
use super::timing::{ClaimOptions, PAUSES, SETTLED_AFTER, wait};
use crate::file_error;
use crate::fingerprint::Fingerprint;
use crate::format::{Writer, state_of};
use crate::names::rename_new;
use crate::output::target::Target;
use crate::rows::Rows;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;
use trijet::{Cancel, Error, ErrorKind, Result};

/// A job in which this process takes part.
pub(super) struct JoinedJob {
    pub(super) folder: ClaimFolder,
    pub(super) job: JobRecord,
    pub(super) writer: Box<dyn Writer>,
}

/// The result of one try. Other processes may begin, publish or end the job at the same time.
enum Tried {
    Joined(JoinedJob),
    Finished,
    /// The files changed during the try.
    Again,
    /// The partial output is refused, but may not be later.
    Refused(Error),
    /// Rows are done, and the partial output is not to be seen.
    Lost,
}

/// Opens the job of `target`. `None` if its output is complete.
pub(super) fn open(
    target: &Target,
    fingerprint: &Fingerprint,
    options: ClaimOptions,
    own: Owner,
    cancel: &Cancel,
) -> Result<Option<JoinedJob>> {
    let begin = Instant::now();
    loop {
        let tried = once(target, fingerprint, options, own)?;
        if cancel.is_cancelled() {
            return Err(Error::new(ErrorKind::Cancelled, "claim", "the run was cancelled"));
        }
        let is_late = begin.elapsed() > options.lease.max(SETTLED_AFTER);
        match tried {
            Tried::Joined(opened) => return Ok(Some(opened)),
            Tried::Finished => return Ok(None),
            Tried::Lost if is_late => {
                let cause = "is missing, but rows of it are done; delete the folder of claims next \
                             to it to start over";
                return Err(file_error::damaged("claim", &target.place.partial, cause));
            }
            Tried::Again if is_late => {
                let cause = "the files of the job kept changing for a whole lease";
                return Err(file_error::damaged("claim", &target.place.partial, cause));
            }
            Tried::Refused(error) if is_late => return Err(error),
            Tried::Again | Tried::Lost | Tried::Refused(_) => wait(PAUSES[0]),
        }
    }
}

fn once(
    target: &Target,
    fingerprint: &Fingerprint,
    options: ClaimOptions,
    own: Owner,
) -> Result<Tried> {
    let place = &target.place;
    let claims = place.claims.as_ref().expect("the caller has chosen an output with claims");
    let mut folder = ClaimFolder::new(claims, own);
    if target.is_finished(fingerprint)? {
        folder.sweep()?;
        return Ok(Tried::Finished);
    }
    let layout = target.layout().granule(target.claim_granule());
    let had_partial = state_of("claim", &place.partial)?.is_some();
    folder.create()?;
    let is_first =
        match folder.create_job(&JobRecord::new(fingerprint, layout, options.range_min.0))? {
            Created::New => true,
            Created::Exists => false,
            Created::NoFolder => return Ok(Tried::Again),
        };
    let Some(job) = folder.job()? else {
        if state_of("claim", &folder.job_path())?.is_none() {
            return Ok(Tried::Again);
        }
        let cause = "is incomplete; delete this folder and the partial output next to it";
        return Err(file_error::damaged("claim", &folder.job_path(), cause));
    };
    job.check(&folder.job_path(), fingerprint, layout)?;
    let Some(look) = folder.look(job.ranges())? else { return Ok(Tried::Again) };
    let look = OpeningLook {
        has_output: state_of("claim", &place.out)?.is_some(),
        is_first,
        has_partial: state_of("claim", &place.partial)?.is_some(),
        had_partial,
        has_done: look.ranges.contains(&RangeClaim::Done),
    };
    match look.decide() {
        Opening::Taken => return Ok(Tried::Again),
        Opening::Lost => return Ok(Tried::Lost),
        Opening::Foreign => {
            folder.sweep()?;
            let cause = "exists, but has no claims that name its job; move it elsewhere";
            return Err(file_error::refused("create", &place.partial, cause));
        }
        Opening::Create => create(target, &folder)?,
        Opening::Open => {}
    }
    let has_second_name = |state: fs::Metadata| state.is_file() && state.nlink() != 1;
    let has_two = state_of("claim", &place.partial)?.is_some_and(has_second_name);
    if has_two {
        folder.remove_second_name()?;
    }
    match target.plan.reopen(&place.partial, &Rows::default()) {
        Ok(writer) => Ok(Tried::Joined(JoinedJob { folder, job, writer })),
        // The output was published in the meantime.
        Err(_) if state_of("claim", &place.partial)?.is_none() => Ok(Tried::Again),
        // A network file system may show the second name for some time after its end.
        Err(error) if has_two => Ok(Tried::Refused(error)),
        Err(error) => Err(error),
    }
}

/// Creates the partial output, unless another process has created it. It appears as a whole.
fn create(target: &Target, folder: &ClaimFolder) -> Result<()> {
    let partial = &target.place.partial;
    if target.plan.bytes().is_none() {
        // A new folder of images is empty, so it is whole.
        return match target.plan.create(partial, None) {
            Err(error) if state_of("create", partial)?.is_none() => Err(error),
            _ => Ok(()),
        };
    }
    let new = folder.new_path("partial");
    drop(target.plan.create(&new, None)?);
    match rename_new(&new, partial) {
        Ok(()) => Ok(()),
        // Another process has already removed the second name.
        Err(Errno::NOENT) if state_of("create", partial)?.is_some() => Ok(()),
        Err(Errno::EXIST | Errno::NOTEMPTY) => target.plan.discard(&new),
        Err(error) => {
            let error = file_error::io("create", partial, error.into());
            Err(match target.plan.discard(&new) {
                Ok(()) => error,
                Err(second) => error.context(second.to_string()),
            })
        }
    }
}
