//! The state of a job with claims, as a user asks for it.

use super::decision::{Owner, RangeClaim};
use super::folder::ClaimFolder;
use super::record::ProcessState;
use crate::output::place::Place;
use std::ops::Range;
use std::path::Path;
use trijet::Result;

/// The number of a process that only reads the folder of claims.
const READER: Owner = 0;

/// The state of a job with claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// The operation of the job.
    pub operation: String,
    /// The number of rows of the output.
    pub rows: u64,
    /// The number of rows that are done.
    pub rows_done: u64,
    /// The number of rows that a process has taken, and that are not done.
    pub rows_taken: u64,
    /// The processes that take part or have taken part, in the order of their numbers.
    pub processes: Vec<ProcessStatus>,
}

/// The state of a process, as it has last written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The name of its host.
    pub host: String,
    /// The number of the process on its host.
    pub process: u32,
    /// Its activity: working, waiting, stopped or failed.
    pub activity: &'static str,
    /// The rows that it computes, in ascending order.
    pub rows: Vec<Range<u64>>,
    /// The number of rows that it has done.
    pub rows_done: u64,
    /// The seconds since it began, by its own clock.
    pub seconds: u64,
    /// The cause of its failure.
    pub error: Option<String>,
    /// The number of its last sign of life. It increases while the process lives.
    pub beat: u64,
}

impl JobStatus {
    /// Reads the state of the job that writes `out`. `None` if the output has no folder of claims.
    /// `state` is the folder of the files of the job, if it is not the folder of the output.
    ///
    /// # Errors
    /// `InvalidValue` and `Io` for files that are not of a job, or are damaged.
    pub fn read(out: &Path, state: Option<&Path>) -> Result<Option<Self>> {
        let place = Place::new(out)?.in_state(state)?.with_claims();
        let Some(path) = &place.claims else { return Ok(None) };
        let mut folder = ClaimFolder::new(path, READER);
        let Some(job) = folder.job()? else { return Ok(None) };
        let Some(look) = folder.look(job.ranges())? else { return Ok(None) };
        let count = |is_of: fn(&RangeClaim) -> bool| -> u64 {
            let own = look.ranges.iter().enumerate().filter(|(_, range)| is_of(range));
            own.map(|(range, _)| job.rows_of(range)).map(|rows| rows.end - rows.start).sum()
        };
        let processes = folder.states(job.ranges())?.into_iter().map(status).collect();
        Ok(Some(Self {
            operation: job.operation(),
            rows: job.rows,
            rows_done: count(|range| *range == RangeClaim::Done),
            rows_taken: count(|range| matches!(range, RangeClaim::Claimed { .. })),
            processes,
        }))
    }
}

fn status(state: ProcessState) -> ProcessStatus {
    let ProcessState { host, process, activity, rows, rows_done, seconds, error, beat } = state;
    let activity = activity.word();
    ProcessStatus { host, process, activity, rows, rows_done, seconds, error, beat }
}
