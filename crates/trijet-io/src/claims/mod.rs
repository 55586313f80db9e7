//! Outputs that any number of processes write together. Processes take ranges of rows as they are
//! free, by files in a folder beside the output, and the last one gives the output its name.
//!
//! No process is needed: a process that dies, is stopped or is cut off costs the time of its ranges
//! and of a lease. No lock is used, and no clock of another machine is read. The laws are in
//! `docs/claims-protocol.md`.

pub(crate) mod decision;
mod folder;
mod heart;
#[cfg(test)]
mod model;
mod opening;
mod record;
mod status;
mod timing;

pub use self::status::{JobStatus, ProcessStatus};
pub use self::timing::ClaimOptions;

use self::decision::{ClaimAction, ClaimWatch, Take};
use self::folder::{ClaimFolder, Created};
use self::heart::Heart;
use self::record::JobRecord;
use self::timing::{PAUSES, PAUSES_PER_LEASE, SETTLED_AFTER};
use crate::file_error;
use crate::fingerprint::{Changes, Fingerprint};
use crate::format::{Writer, is_at, sync_folder};
use crate::output::target::Target;
use std::fs::File;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trijet::pipeline::ParallelSink;
use trijet::{Bytes, Cancel, Error, ErrorKind, Result, Sink};

/// An output that this process writes together with others.
///
/// ```
/// use trijet::{Cancel, Sink};
/// use trijet_io::{Array, ClaimOptions, ClaimedOutput, Dtype, Fingerprint, Input, Target};
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("in.raw"), [1, 2, 3, 4])?;
/// let array = Array::new(Dtype::U8, vec![2, 2])?;
/// let input = Input::open(&folder.path().join("in.raw"), Some(array.clone()))?;
/// let target = Target::new(&folder.path().join("out.raw"), array, &input)?.with_claims(1);
/// let run = Fingerprint::new(&input, "copy", &target);
/// let cancel = Cancel::new();
/// let opened = ClaimedOutput::open(&target, &run, ClaimOptions::default(), &cancel)?;
/// let mut output = opened.expect("the output is not complete yet");
/// while let Some(rows) = output.next(&cancel)? {
///     let mut sink = output.sink();
///     for rows in rows {
///         let bytes = [1, 2, 3, 4];
///         let place = |row: u64| row as usize * 2;
///         sink.write(rows.clone(), &bytes[place(rows.start)..place(rows.end)])?;
///     }
///     sink.finish()?;
/// }
/// assert_eq!(std::fs::read(target.path())?, [1, 2, 3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClaimedOutput {
    target: Target,
    fingerprint: Fingerprint,
    job: JobRecord,
    lease: Duration,
    writer: Box<dyn Writer>,
    heart: Heart,
    shared: Mutex<Claims>,
}

/// The claims that this process knows, and the ranges that it computes.
#[derive(Debug)]
struct Claims {
    folder: ClaimFolder,
    watch: ClaimWatch,
    own: Vec<Take>,
}

/// The result of one look at the folder of claims.
enum Looked {
    Rows(Vec<Range<u64>>),
    Wait,
    /// The output has its final name.
    Over,
}

impl ClaimedOutput {
    /// Takes part in the job of `target`. `None` if its output is complete already.
    ///
    /// # Errors
    /// `InvalidValue` if the files at the paths of the output belong to another job or to the user,
    /// if the input has changed since the job began, or if something else has the final name. `Io`
    /// if a file cannot be created. `Cancelled`.
    ///
    /// # Panics
    /// If the target does not describe an output [with claims](Target::with_claims).
    pub fn open(
        target: &Target,
        fingerprint: &Fingerprint,
        options: ClaimOptions,
        cancel: &Cancel,
    ) -> Result<Option<Self>> {
        let own = crate::names::random();
        let Some(opened) = opening::open(target, fingerprint, options, own, cancel)? else {
            return Ok(None);
        };
        let opening::JoinedJob { folder, job, writer } = opened;
        writer.share();
        let heart = Heart::start(folder.clone(), options.lease)?;
        let watch = ClaimWatch::new(own, milliseconds(options.lease), job.ranges());
        Ok(Some(Self {
            target: target.clone(),
            fingerprint: fingerprint.clone(),
            job,
            lease: options.lease,
            writer,
            heart,
            shared: Mutex::new(Claims { folder, watch, own: Vec::new() }),
        }))
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        // A thread that panicked while it had this lock has left no claim half noted.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits the memory that writing takes in addition to the rows.
    #[must_use]
    pub fn host_memory(self, most: Bytes) -> Self {
        self.writer.limit_memory(most.0);
        self
    }

    /// The number of rows that this process has done.
    #[must_use]
    pub fn rows_done(&self) -> u64 {
        self.heart.rows_done()
    }

    /// The number of rows of the output that are known to be done, by any process.
    #[must_use]
    pub fn rows_known(&self) -> u64 {
        let claims = self.claims();
        let done = claims.watch.ranges().iter().enumerate();
        let done = done.filter(|(_, range)| **range == decision::RangeClaim::Done);
        done.map(|(range, _)| self.job.rows_of(range)).map(|rows| rows.end - rows.start).sum()
    }

    /// Takes the next rows, with their numbers in the input. Waits while all rows that are not done
    /// belong to living processes. `None` when the output has its final name, from this process or
    /// from another one.
    ///
    /// # Errors
    /// `InvalidValue` for a file in the folder of claims that does not belong there. `Io`.
    /// `Cancelled`.
    pub fn next(&mut self, cancel: &Cancel) -> Result<Option<Vec<Range<u64>>>> {
        let mut pause = PAUSES[0];
        loop {
            if cancel.is_cancelled() {
                return Err(Error::new(ErrorKind::Cancelled, "claim", "the run was cancelled"));
            }
            match self.look()? {
                Looked::Rows(rows) => return Ok(Some(rows)),
                Looked::Over => return Ok(None),
                Looked::Wait => {
                    self.heart.works_on(&[]);
                    self.heart.pause(pause.min(self.lease / PAUSES_PER_LEASE));
                    pause = (pause * 2).min(PAUSES[1]);
                }
            }
        }
    }

    fn look(&self) -> Result<Looked> {
        let mut claims = self.claims();
        let Some(look) = claims.folder.look(self.job.ranges())? else {
            drop(claims);
            return self.over().map(|()| Looked::Over);
        };
        match claims.watch.next(&look, self.heart.now()) {
            ClaimAction::Wait => Ok(Looked::Wait),
            ClaimAction::Publish => {
                drop(claims);
                self.publish().map(|()| Looked::Over)
            }
            ClaimAction::Take(takes) => {
                let mut own = Vec::new();
                for take in takes {
                    match claims.folder.take(take)? {
                        Created::New => own.push(take),
                        Created::Exists => {}
                        Created::NoFolder => {
                            drop(claims);
                            return self.over().map(|()| Looked::Over);
                        }
                    }
                }
                if own.is_empty() {
                    return Ok(Looked::Wait);
                }
                let rows = self.rows_of(&own);
                claims.own = own;
                drop(claims);
                self.heart.works_on(&rows);
                let first = self.target.first_row();
                let whole = |rows: Range<u64>| first + rows.start..first + rows.end;
                Ok(Looked::Rows(rows.into_iter().map(whole).collect()))
            }
        }
    }

    /// The rows of these ranges, with their numbers in the output. Adjacent ranges are one.
    fn rows_of(&self, takes: &[Take]) -> Vec<Range<u64>> {
        let mut rows = crate::rows::Rows::default();
        takes.iter().for_each(|take| rows.insert(self.job.rows_of(take.range)));
        rows.ranges().to_vec()
    }

    /// The sink of the rows that [`next`](Self::next) has returned. When it is finished, the rows
    /// are on the disk, and other processes see that they are done.
    #[must_use]
    pub fn sink(&self) -> ClaimedRows<'_> {
        ClaimedRows { output: self, written: Mutex::default() }
    }

    /// Whether the output has its final name, from another process.
    #[must_use]
    pub fn is_over(&self) -> bool {
        is_at(self.writer.root(), &self.target.place.out).unwrap_or(false)
    }

    /// Ends a run that was cancelled, or that has failed with `error`. Other processes take over
    /// its rows at once.
    pub fn stop(mut self, error: Option<&Error>) {
        self.heart.end(error.map(ToString::to_string).as_deref());
    }

    fn done(&self) -> Result<()> {
        self.writer.sync()?;
        self.check_input()?;
        let mut claims = self.claims();
        for take in std::mem::take(&mut claims.own) {
            // If the folder is gone, another process has published the output.
            claims.folder.mark_done(take.range)?;
            claims.watch.done(take.range);
            let rows = self.job.rows_of(take.range);
            self.heart.did(rows.end - rows.start);
        }
        Ok(())
    }

    /// Refuses rows whose input has changed during the run.
    fn check_input(&self) -> Result<()> {
        let Changes { changed, doubtful } = self.fingerprint.changes_of_run();
        let named = if changed.is_empty() { doubtful } else { changed };
        if named.is_empty() {
            return Ok(());
        }
        let cause = format!(
            "the input has changed during the run: {}; delete {} and the partial output to start \
             over",
            self.fingerprint.names_of(named),
            crate::shown::shown(self.claims().folder.path())
        );
        Err(file_error::damaged("finish", self.target.path(), cause))
    }

    /// Gives the complete output its final name, and deletes the folder of claims.
    fn publish(&self) -> Result<()> {
        let (place, root) = (&self.target.place, self.writer.root());
        let io = |error| file_error::io("synchronize", place.folder(), error);
        if !is_at(root, &place.partial).unwrap_or(false) && !self.is_over() {
            // Another process may be about to publish the output that this one does not have open.
            return self.over();
        }
        if !self.is_over() {
            self.writer.check_complete()?;
            self.check_input()?;
            self.target.mark_finished(&self.fingerprint, root);
            sync_folder(root).map_err(io)?;
            if let Err(error) = place.publish(root)
                && !self.is_over()
            {
                return self.over().map_err(|_| error);
            }
        }
        File::open(place.folder()).and_then(|folder| sync_folder(&folder)).map_err(io)?;
        let folder = self.claims().folder.clone();
        folder.sweep()
    }

    /// Ends this process after the folder of claims is gone. Waits for a limited time until the
    /// output can be seen under its final name, because a network file system may show an older
    /// state.
    fn over(&self) -> Result<()> {
        let (place, root) = (&self.target.place, self.writer.root());
        let begin = self.heart.now();
        loop {
            if self.is_over() {
                // The last writes of this process may have changed the time of the output, and the
                // mark has this time.
                self.target.mark_finished(&self.fingerprint, root);
                return Ok(());
            }
            // The output, or its mark, may be older here than at the server.
            let finished = self.target.is_finished(&self.fingerprint);
            if matches!(finished, Ok(true)) {
                // This process has begun the job anew while another one published the output.
                if is_at(root, &place.partial).unwrap_or(false) {
                    self.target.plan.discard(&place.partial)?;
                }
                let folder = self.claims().folder.clone();
                return folder.sweep();
            }
            if self.heart.now() - begin > milliseconds(self.lease.max(SETTLED_AFTER)) {
                let cause = "the job is not finished, and its folder of claims or its partial \
                             output is gone; run the command again to start over";
                finished?;
                return Err(file_error::damaged("claim", &place.partial, cause));
            }
            self.heart.pause(PAUSES[1].min(self.lease / PAUSES_PER_LEASE));
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The sink of the rows that a process has taken.
#[derive(Debug)]
pub struct ClaimedRows<'a> {
    output: &'a ClaimedOutput,
    written: Mutex<crate::rows::Rows>,
}

impl ParallelSink for ClaimedRows<'_> {
    fn granule(&self) -> Option<u64> {
        Some(self.output.target.granule())
    }

    fn write_part(&self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        let rows = self.output.target.part(&rows, bytes);
        if rows.is_empty() {
            return Ok(());
        }
        self.output.writer.write(rows.clone(), bytes)?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).insert(rows);
        Ok(())
    }
}

impl Sink for ClaimedRows<'_> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(self)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<()> {
        let wanted = self.output.rows_of(&self.output.claims().own);
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let is_whole = |rows: &Range<u64>| {
            written.ranges().iter().any(|range| range.start <= rows.start && rows.end <= range.end)
        };
        if let Some(rows) = wanted.iter().find(|rows| !is_whole(rows)) {
            let cause = format!("rows {}..{} were not written", rows.start, rows.end);
            return Err(file_error::damaged("finish", &self.output.target.place.partial, cause));
        }
        self.output.done()
    }
}
