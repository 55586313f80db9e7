//! The creation and the end of an output that several processes write. The first process creates
//! the partial output, and the last process gives the output its final name.
//!
//! A process knows the state of the other processes from their journals. It reads these journals
//! while it has the lock of the shared journal. So if two processes finish at the same time, at
//! least one of them sees that both have finished.

use super::partial::Partial;
use super::place::Place;
use super::{Output, forget};
use crate::file_error;
use crate::fingerprint::Fingerprint;
use crate::format::{Writer, state_of};
use crate::journal::Journal;
use crate::rows::Rows;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use trijet::Result;

impl Output {
    /// Begins the journal of this process. Creates the partial output, or opens it if another
    /// process of the job has created it.
    pub(super) fn join(&self, shared: &Path, mut journal: Journal) -> Result<Partial> {
        let place = &self.target.place;
        let (writer, created) = match self.create_or_reopen(shared) {
            Ok(opened) => opened,
            Err(error) => return Err(forget(&journal, error)),
        };
        let state = writer.root().metadata();
        let state = state.map_err(|error| file_error::io("create", &place.partial, error))?;
        journal.begin(&self.fingerprint)?;
        journal.name_root(state.ino())?;
        journal.name_created(created)?;
        journal.sync()?;
        let handle = journal.handle()?;
        Ok(Partial::new(place, &self.fingerprint, writer, journal, handle, Rows::default()))
    }

    /// Creates the partial output, or opens it if another process of the job has created it.
    /// Returns the writer of the partial output, and the time at which the partial output was
    /// created.
    fn create_or_reopen(&self, shared: &Path) -> Result<(Box<dyn Writer>, u64)> {
        let (place, plan) = (&self.target.place, &self.target.plan);
        let mut shared = Journal::wait(shared)?;
        // The other processes may have finished the output since this process started.
        place.check_free()?;
        let exists = state_of("create", &place.partial)?.is_some();
        let created = shared.read(&self.fingerprint)?.map(|shared| shared.created);
        match (created, exists) {
            (Some(Some(time)), true) => {
                return Ok((plan.reopen(&place.partial, &Rows::default())?, time));
            }
            // An earlier process died between two steps: it had created the partial output, and had
            // not noted the time yet.
            (Some(None), true) => plan.discard(&place.partial)?,
            (None, true) => {
                let cause = "exists, but has no journal that names its job; move it elsewhere";
                return Err(file_error::refused("create", &place.partial, cause));
            }
            (Some(_), false) => {}
            (None, false) => {
                shared.begin(&self.fingerprint)?;
                // The journal must reach the disk before the partial output is created. Otherwise
                // there could be a partial output without a journal.
                shared.sync()?;
            }
        }
        let writer = plan.create(&place.partial, None)?;
        let time = now();
        shared.name_created(time)?;
        shared.sync()?;
        Ok((writer, time))
    }

    /// Ends a process that has written no rows. If no other process has a journal, deletes the
    /// partial output.
    pub(super) fn leave(&self, shared: &Path, journal: &Journal) -> Result<()> {
        let shared = Journal::wait(shared)?;
        journal.remove()?;
        for path in self.journals() {
            if state_of("journal", &path)?.is_some() {
                return Ok(());
            }
        }
        self.target.plan.discard(&self.target.place.partial)?;
        shared.remove()
    }

    /// Ends a process that has written all of its rows. If all other processes have finished, gives
    /// the output its final name.
    pub(super) fn finish_shard(&self, shared: &Path, partial: &Partial) -> Result<()> {
        let mut record = partial.record();
        record.journal.mark_finished()?;
        record.journal.sync()?;
        drop(record);
        let shared = Journal::wait(shared)?;
        let created = shared.read(&self.fingerprint)?.and_then(|shared| shared.created);
        for path in self.journals() {
            let progress = Journal::peek(&path, &self.fingerprint)?;
            let is_done = progress.is_some_and(|one| {
                one.is_finished && one.changed.is_none() && one.created == created
            });
            if !is_done {
                // The process of the journal at `path`, or a process that finishes later, gives the
                // output its name.
                return if shared.is_new() { shared.remove() } else { Ok(()) };
            }
        }
        self.publish(partial, |_| {
            for path in self.journals() {
                fs::remove_file(&path).map_err(|error| file_error::io("journal", &path, error))?;
            }
            shared.remove()
        })
    }

    /// The paths of the journals of all processes of the output.
    fn journals(&self) -> impl Iterator<Item = PathBuf> {
        let shards = self.target.shard().into_iter().flat_map(super::Shard::all);
        shards.map(|shard| self.target.place.journal_of(shard))
    }
}

impl Place {
    /// The time at which the partial output was created, from the shared journal. `None` if one
    /// process writes the output.
    pub(super) fn created(&self, fingerprint: &Fingerprint) -> Result<Option<u64>> {
        let Some(shared) = &self.shared else { return Ok(None) };
        Ok(Journal::peek(shared, fingerprint)?.and_then(|shared| shared.created))
    }
}

/// The present time in nanoseconds since 1970-01-01 UTC. This time distinguishes partial outputs
/// that are created one after another under the lock of the shared journal. Their inode numbers may
/// be equal, because a new partial output may get the inode of a deleted one.
fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
