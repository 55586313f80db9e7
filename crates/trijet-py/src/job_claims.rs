//! A job that any number of processes share: each takes rows as they are free, until the target is
//! complete.

use crate::error::refused;
use crate::outcome::{JobState, Report};
use crate::parts::{Failure, Parts, Progress};
use crate::verdict::Verdict;
use std::sync::atomic::Ordering;
use std::time::Duration;
use trijet::{Cancel, ErrorKind, Result, Source};
use trijet_io::{ClaimOptions, ClaimedOutput, Fingerprint, Input, Target, shown};
use trijet_map::{Chain, Job, beside_chunks};

/// The files of a job.
pub(crate) struct ClaimedFiles<'a> {
    pub(crate) input: &'a Input,
    pub(crate) target: &'a Target,
    pub(crate) chain: &'a Chain,
    pub(crate) run: &'a Fingerprint,
}

impl Parts {
    /// Refuses options that a job of many processes cannot have.
    pub(crate) fn refuse_beside_claims(&self) -> Result<()> {
        if !self.source.has_files() {
            let cause = "`claim` needs a source in files, because arrays of several processes \
                         cannot be compared";
            return Err(refused("map", cause));
        }
        let options = &self.options;
        let given = [
            (options.shard.is_some(), "shard"),
            (options.restart, "restart"),
            (options.overwrite, "overwrite"),
            (!options.durable, "durable=False"),
            (options.device == "all", "device='all'"),
            (self.source.skips(), "skip_bad"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, name)) => Err(refused("map", format!("choose one of `claim` and `{name}`"))),
        }
    }
}

/// Takes part in a job until its target is complete.
pub(crate) fn run(
    parts: &Parts,
    files: &ClaimedFiles<'_>,
    lease: u64,
    cancel: &Cancel,
    progress: &Progress,
) -> std::result::Result<Report, Failure> {
    let ClaimedFiles { input, target, chain, run } = *files;
    let settings = parts.options.settings;
    let usual = ClaimOptions::default();
    let claim = ClaimOptions {
        lease: Duration::from_secs(lease),
        range_min: settings.chunk.unwrap_or(usual.range_min),
    };
    // A process without the device takes no rows.
    let devices = parts.devices(chain)?;
    let rows = target.layout().rows;
    let Some(output) = ClaimedOutput::open(target, run, claim, cancel)? else {
        return Ok(Report::new(Vec::new(), JobState::of_files(input, target, chain, rows)));
    };
    let mut output = match settings.memory {
        Some(limit) => output.host_memory(beside_chunks(limit)),
        None => output,
    };
    let granule = chain.granule(target.granule());
    let job = Job::new(chain, &devices, input.layout(), granule, settings)?;
    progress.all.store(rows, Ordering::Relaxed);
    progress.done.store(output.rows_known(), Ordering::Relaxed);
    let ran = job.run_claimed(input, &mut output, cancel, &|rows| progress.add(rows));
    let own = output.rows_done();
    if let Err(error) = ran {
        let is_cancelled = error.kind() == ErrorKind::Cancelled;
        output.stop((!is_cancelled).then_some(&error));
        let words = format!(
            "{} is not finished: this process has done {own} of {rows} rows, which are kept; the \
             same call continues",
            shown(target.path())
        );
        return Err(error.context(words).into());
    }
    drop(output);
    let verdict = Verdict::of(&devices)?;
    parts.close(devices)?;
    let kept = rows - own.min(rows);
    Ok(Report::new(
        Vec::new(),
        JobState { verdict, ..JobState::of_files(input, target, chain, kept) },
    ))
}
