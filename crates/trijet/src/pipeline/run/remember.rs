//! A file that stores the choices of prepared pipelines, so that later processes need no
//! measurements.
//!
//! The file is a cache. A damaged file, or a file of another version, counts as empty and is
//! replaced. A file with other content is refused. If two processes write at the same time, only
//! the choices of one process remain.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::schedule::Schedule;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// A schedule, a chunk size and a number of slots, which a tuner can choose for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) schedule: Schedule,
    pub(super) chunk: Bytes,
    pub(super) depth: usize,
}

/// The first bytes of each file with choices.
const BEGIN: &[u8] = b"trijet choices\n";

/// The schedules that a choice may have.
const SCHEDULES: [Schedule; 5] = [
    Schedule::OneStream,
    Schedule::SlotStreams,
    Schedule::RoleStreams,
    Schedule::InPlace,
    Schedule::Tuned,
];

/// The properties on which a choice depends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChoiceKey {
    name: String,
    device: String,
    driver: i32,
    class: String,
    wanted: (Option<u64>, Option<usize>),
    rows: u64,
    /// The size of a row before the first stage and after each stage, in bytes.
    row_bytes: Vec<u64>,
    granule: u64,
}

/// A choice in the file.
#[derive(Debug, Serialize, Deserialize)]
struct RememberedChoice {
    key: ChoiceKey,
    schedule: String,
    chunk: u64,
    depth: usize,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Choices {
    /// The version of the library. The choices of another version are ignored.
    version: String,
    entries: Vec<RememberedChoice>,
}

impl ChoiceKey {
    fn of(job: &Job<'_, '_>, name: &str) -> Self {
        let (info, plan) = (job.device.info(), &job.settings.plan);
        Self {
            name: name.to_owned(),
            device: info.name.clone(),
            driver: info.driver_version,
            class: format!("{:?}", job.settings.sharing),
            wanted: (plan.chunk.map(|chunk| chunk.0), plan.depth),
            rows: job.layout.rows,
            row_bytes: job.stages.row_bytes.clone(),
            granule: job.layout.granule,
        }
    }
}

/// Returns the remembered choice for a job, if the job has a file and the file has the choice.
pub(super) fn find(job: &Job<'_, '_>) -> Result<Option<Way>> {
    let Some((file, name)) = &job.settings.remember else { return Ok(None) };
    let key = ChoiceKey::of(job, name);
    let found = read(file)?.entries.into_iter().find(|entry| entry.key == key);
    Ok(found.and_then(|RememberedChoice { schedule, chunk, depth, .. }| {
        let schedule = SCHEDULES.into_iter().find(|known| known.name() == schedule)?;
        Some(Way { schedule, chunk: Bytes(chunk), depth })
    }))
}

/// Stores the choice for a job in the file of the job, if the job has a file.
pub(super) fn keep(job: &Job<'_, '_>, way: Way) -> Result<()> {
    let Some((file, name)) = &job.settings.remember else { return Ok(()) };
    let key = ChoiceKey::of(job, name);
    let mut choices = read(file)?;
    choices.entries.retain(|entry| entry.key != key);
    let (schedule, chunk, depth) = (way.schedule.name().to_owned(), way.chunk.0, way.depth);
    choices.entries.push(RememberedChoice { key, schedule, chunk, depth });
    let failed = |error: io::Error| failed("write", file, error);
    let bytes = postcard::to_extend(&choices, BEGIN.to_vec());
    let bytes = bytes.map_err(|error| failed(io::Error::other(error)))?;
    // The file is replaced by one rename, so a reader sees either the old file or the new file.
    let part = file.with_extension(format!("part-{}", std::process::id()));
    fs::write(&part, bytes).map_err(failed)?;
    fs::rename(&part, file).map_err(failed)
}

fn read(file: &Path) -> Result<Choices> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed("read", file, error)),
    };
    // A damaged file may be shorter than `BEGIN`.
    let damaged = || BEGIN.starts_with(&bytes).then_some(&[][..]);
    let Some(bytes) = bytes.strip_prefix(BEGIN).or_else(damaged) else {
        let cause = format!("{} is not a file of choices: name another file", file.display());
        return Err(Error::new(ErrorKind::InvalidValue, "remember", cause));
    };
    let same =
        postcard::from_bytes(bytes).ok().filter(|choices: &Choices| choices.version == version);
    Ok(same.unwrap_or(Choices { version, entries: Vec::new() }))
}

fn failed(what: &'static str, file: &Path, error: io::Error) -> Error {
    let cause = format!("the file of choices {}: {error}", file.display());
    Error::new(ErrorKind::Io, what, cause).caused_by(error)
}
