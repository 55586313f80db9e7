//! The folder of claims beside an output, and its files.
//!
//! | file | what it is | how it appears |
//! |---|---|---|
//! | `job` | the job and its ranges | whole, replaces nothing |
//! | `claim-K-A` | attempt A at range K, with its owner | whole, replaces nothing |
//! | `done-K` | the bytes of range K are on the disk | empty, any number of times |
//! | `process-P` | the state of process P | whole, replaces its earlier state |
//! | `new-P` | a file of process P before it has its name | |
//!
//! A file is never changed under its name, so a process that opens it reads all of one text. No
//! file is deleted while the job goes on. At the end, the folder gets another name before its files
//! are deleted. A process that comes back finds no folder then, and knows that the job is over.

use super::decision::{Beat, FolderLook, Owner, RangeClaim, Take};
use super::record::{JobRecord, ProcessState, TEXT_BYTES_MAX, claim_text, owner_of};
use super::timing::{PAUSES, wait};
use crate::file_error;
use crate::format::NOFOLLOW;
use crate::names::rename_new;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use trijet::Result;

/// The folder of claims, as one process uses it.
#[derive(Debug, Clone)]
pub(super) struct ClaimFolder {
    path: PathBuf,
    own: Owner,
    /// The owners of claims that were read before. The owner of a claim never changes.
    owners: BTreeMap<Take, Owner>,
}

/// The answer to the creation of a file that replaces nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Created {
    New,
    Exists,
    /// The folder is gone, because the job is over.
    NoFolder,
}

/// The name of a file in the folder.
#[derive(Debug, PartialEq, Eq)]
enum FileName {
    Job,
    Claim(Take),
    Done(usize),
    Process(Owner),
    New,
}

impl FileName {
    /// The file with this name. `None` for a name that no process gives to a file of the job.
    fn parse(name: &str, ranges: usize) -> Option<Self> {
        let parsed = Self::parse_any(name, ranges)?;
        let own = match parsed {
            Self::Claim(Take { range, attempt }) => format!("claim-{range}-{attempt}"),
            Self::Done(range) => format!("done-{range}"),
            Self::Process(owner) => format!("process-{owner:016x}"),
            Self::Job | Self::New => return Some(parsed),
        };
        (own == name).then_some(parsed)
    }

    fn parse_any(name: &str, ranges: usize) -> Option<Self> {
        let owner = |text: &str| Owner::from_str_radix(text, 16).ok();
        let range = |text: &str| text.parse().ok().filter(|range| *range < ranges);
        if name == "job" {
            Some(Self::Job)
        } else if let Some(rest) = name.strip_prefix("claim-") {
            let (one, attempt) = rest.split_once('-')?;
            Some(Self::Claim(Take { range: range(one)?, attempt: attempt.parse().ok()? }))
        } else if let Some(rest) = name.strip_prefix("done-") {
            Some(Self::Done(range(rest)?))
        } else if let Some(rest) = name.strip_prefix("process-") {
            Some(Self::Process(owner(rest)?))
        } else if name.starts_with("new-") || name.starts_with('.') {
            // Network file systems keep deleted files that are open under hidden names.
            Some(Self::New)
        } else {
            None
        }
    }
}

/// Whether a file or a folder does not exist any more. To a machine that has it open, a network
/// file system reports it as stale if another machine has replaced or deleted it.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::StaleNetworkFileHandle)
}

impl ClaimFolder {
    pub(super) fn new(path: &Path, own: Owner) -> Self {
        Self { path: path.to_owned(), own, owners: BTreeMap::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn io(&self, path: &Path, error: io::Error) -> trijet::Error {
        file_error::io("claim", path, error)
    }

    /// The path under which this process may create a file before the file gets its name.
    pub(super) fn new_path(&self, what: &str) -> PathBuf {
        self.path.join(format!("new-{:016x}-{what}", self.own))
    }

    /// Creates the folder if it does not exist.
    pub(super) fn create(&self) -> Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(self.io(&self.path, error))
            }
            _ => match fs::symlink_metadata(&self.path) {
                Ok(state) if state.is_dir() => Ok(()),
                Ok(_) => {
                    let cause = "is not a folder of claims; move it elsewhere";
                    Err(file_error::refused("claim", &self.path, cause))
                }
                Err(error) => Err(self.io(&self.path, error)),
            },
        }
    }

    /// Writes a whole file under a name of this process. The name is free before: a file that also
    /// has its own name must not change.
    fn write_new(&self, text: &str) -> io::Result<PathBuf> {
        let new = self.new_path("file");
        match fs::remove_file(&new) {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        Ok(new)
    }

    /// Creates a file with this text, unless the name is taken.
    fn create_file(&self, name: &str, text: &str) -> Result<Created> {
        let path = self.path.join(name);
        let created = self.write_new(text).and_then(|new| {
            let named = rename_new(&new, &path).map_err(io::Error::from);
            if named.is_err() {
                drop(fs::remove_file(&new));
            }
            named
        });
        match created {
            Ok(()) => Ok(Created::New),
            Err(error) if is_gone(&error) => Ok(Created::NoFolder),
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
                Ok(Created::Exists)
            }
            Err(error) => Err(self.io(&path, error)),
        }
    }

    pub(super) fn create_job(&self, job: &JobRecord) -> Result<Created> {
        self.create_file("job", &job.text())
    }

    /// Reads the record of the job. `None` if it is missing or incomplete.
    pub(super) fn job(&self) -> Result<Option<JobRecord>> {
        let path = self.path.join("job");
        match self.read(&path)? {
            Some(text) => JobRecord::parse(&path, &text),
            None => Ok(None),
        }
    }

    /// The path of the record of the job, for messages.
    pub(super) fn job_path(&self) -> PathBuf {
        self.path.join("job")
    }

    /// Takes a range. Returns whether the claim is one of this process. A network file system may
    /// lose the answer to the creation and make the call again, which then fails.
    pub(super) fn take(&mut self, take: Take) -> Result<Created> {
        let Take { range, attempt } = take;
        let name = format!("claim-{range}-{attempt}");
        let created = self.create_file(&name, &claim_text(self.own))?;
        if created == Created::Exists && self.owner(take)? == Some(self.own) {
            return Ok(Created::New);
        }
        Ok(created)
    }

    fn owner(&mut self, take: Take) -> Result<Option<Owner>> {
        if let Some(owner) = self.owners.get(&take) {
            return Ok(Some(*owner));
        }
        let path = self.path.join(format!("claim-{}-{}", take.range, take.attempt));
        let Some(text) = self.read(&path)? else { return Ok(None) };
        let owner = owner_of(&path, &text)?;
        self.owners.extend(owner.map(|owner| (take, owner)));
        Ok(owner)
    }

    /// States that the bytes of a range are on the disk.
    pub(super) fn mark_done(&self, range: usize) -> Result<Created> {
        let path = self.path.join(format!("done-{range}"));
        let mut options = File::options();
        match options.write(true).create(true).truncate(false).custom_flags(NOFOLLOW).open(&path) {
            Ok(_) => Ok(Created::New),
            Err(error) if is_gone(&error) => Ok(Created::NoFolder),
            Err(error) => Err(self.io(&path, error)),
        }
    }

    /// Writes the state of this process. Returns whether the folder still exists.
    pub(super) fn show(&self, state: &ProcessState) -> io::Result<bool> {
        let (new, path) =
            (self.new_path("state"), self.path.join(format!("process-{:016x}", self.own)));
        match fs::write(&new, state.text()).and_then(|()| fs::rename(&new, path)) {
            Ok(()) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the folder. `None` if the folder is gone.
    pub(super) fn look(&mut self, ranges: usize) -> Result<Option<FolderLook>> {
        let Some(names) = self.names(ranges)? else { return Ok(None) };
        let mut look =
            FolderLook { ranges: vec![RangeClaim::Free; ranges], ..FolderLook::default() };
        let mut latest: BTreeMap<usize, u32> = BTreeMap::new();
        for name in &names {
            match name {
                FileName::Claim(Take { range, attempt }) => {
                    let known = latest.entry(*range).or_insert(*attempt);
                    *known = (*known).max(*attempt);
                }
                FileName::Done(range) => look.ranges[*range] = RangeClaim::Done,
                FileName::Job | FileName::Process(_) | FileName::New => {}
            }
        }
        for (range, attempt) in latest {
            if look.ranges[range] != RangeClaim::Done {
                let owner = self.owner(Take { range, attempt })?;
                look.ranges[range] = RangeClaim::Claimed { attempt, owner };
            }
        }
        for owner in names.into_iter().filter_map(|name| match name {
            FileName::Process(owner) => Some(owner),
            _ => None,
        }) {
            let state = self.state(owner)?;
            let beat =
                |state: ProcessState| Beat { count: state.beat, is_over: state.activity.is_over() };
            look.beats.extend(state.map(|state| (owner, beat(state))));
        }
        Ok(Some(look))
    }

    /// The states of all processes, by their random numbers.
    pub(super) fn states(&self, ranges: usize) -> Result<Vec<ProcessState>> {
        let mut states = Vec::new();
        for name in self.names(ranges)?.unwrap_or_default() {
            if let FileName::Process(owner) = name {
                states.extend(self.state(owner)?);
            }
        }
        Ok(states)
    }

    /// Reads the state of a process. `None` if it cannot be read: the process may be replacing it,
    /// and a server then has no bytes for a file that is open. A sign of life that cannot be read
    /// is none.
    fn state(&self, owner: Owner) -> Result<Option<ProcessState>> {
        let path = self.path.join(format!("process-{owner:016x}"));
        match self.read(&path) {
            Ok(Some(text)) => ProcessState::parse(&path, &text),
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// The names in the folder. `None` if the folder is gone.
    fn names(&self, ranges: usize) -> Result<Option<Vec<FileName>>> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(self.io(&self.path, error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = match entry {
                Ok(entry) => entry.file_name(),
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(self.io(&self.path, error)),
            };
            let parsed = name.to_str().and_then(|name| FileName::parse(name, ranges));
            names.push(parsed.ok_or_else(|| {
                let cause = "is no file of this job; move it elsewhere";
                file_error::refused("claim", &self.path.join(&name), cause)
            })?);
        }
        Ok(Some(names))
    }

    /// Reads a file. `None` if it does not exist.
    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        // Without `NONBLOCK`, opening a pipe would wait for a program that writes to the pipe.
        let flags = NOFOLLOW | rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let read = || -> io::Result<Vec<u8>> {
            let file = File::options().read(true).custom_flags(flags).open(path)?;
            let mut text = Vec::new();
            file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut text)?;
            Ok(text)
        };
        match read() {
            Ok(text) => Ok(Some(text)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(self.io(path, error)),
        }
    }

    /// Removes the second name that the partial output has if its creator died, or is just about
    /// to remove it: where no rename refuses to replace, a file gets its name as a hard link.
    pub(super) fn remove_second_name(&self) -> Result<()> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(self.io(&self.path, error)),
        };
        for entry in entries {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return Err(self.io(&self.path, error)),
            };
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let is_new = name.starts_with(b"new-") && name.ends_with(b"-partial");
            let has_other_name = |state: Metadata| state.is_file() && state.nlink() != 1;
            if is_new && fs::symlink_metadata(&path).is_ok_and(has_other_name) {
                match fs::remove_file(&path) {
                    Err(error) if !is_gone(&error) => {
                        return Err(self.io(&path, error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Deletes the folder of a job that is over. The folder gets another name first, so that no
    /// process sees a part of its files.
    pub(super) fn sweep(&self) -> Result<()> {
        let mut swept = self.path.clone().into_os_string();
        swept.push(format!("-over-{:016x}", self.own));
        match fs::rename(&self.path, &swept) {
            Err(error) if is_gone(&error) => return Ok(()),
            renamed => renamed.map_err(|error| self.io(&self.path, error))?,
        }
        // A process that has the folder open, or a machine that still knows it by its old name, may
        // create further files in it for some time.
        let mut pause = PAUSES[0];
        loop {
            match fs::remove_dir_all(&swept) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if is_gone(&error) => return Ok(()),
                removed => return removed.map_err(|error| self.io(Path::new(&swept), error)),
            }
            if pause > PAUSES[1] {
                // The job is complete all the same, and no process reads this folder.
                return Ok(());
            }
            wait(pause);
            pause *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, openat};
    use std::sync::atomic::{AtomicBool, Ordering};

    const RANGES: usize = 3;

    fn folder(own: Owner) -> (tempfile::TempDir, ClaimFolder) {
        let place = tempfile::tempdir().unwrap();
        let folder = ClaimFolder::new(&place.path().join("claims"), own);
        folder.create().unwrap();
        (place, folder)
    }

    #[test]
    fn one_of_two_processes_gets_a_claim() {
        let (_place, mut one) = folder(1);
        let mut other = ClaimFolder::new(one.path(), 2);
        let take = Take { range: 1, attempt: 0 };
        assert_eq!(one.take(take).unwrap(), Created::New);
        assert_eq!(other.take(take).unwrap(), Created::Exists);
        // The answer to the first call was lost.
        assert_eq!(one.take(take).unwrap(), Created::New);
        let claimed = RangeClaim::Claimed { attempt: 0, owner: Some(1) };
        let look = other.look(RANGES).unwrap().unwrap();
        assert_eq!(look.ranges, [RangeClaim::Free, claimed, RangeClaim::Free]);
        one.mark_done(1).unwrap();
        other.mark_done(1).unwrap();
        let look = other.look(RANGES).unwrap().unwrap();
        assert_eq!(look.ranges[1], RangeClaim::Done);
        let names: Vec<_> = fs::read_dir(one.path()).unwrap().collect();
        assert_eq!(names.len(), 2, "no file of a process is left: {names:?}");
    }

    #[test]
    fn a_folder_that_is_gone_ends_the_job() {
        let (place, mut one) = folder(1);
        let mut other = ClaimFolder::new(one.path(), 2);
        one.take(Take { range: 0, attempt: 0 }).unwrap();
        one.sweep().unwrap();
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
        assert_eq!(other.take(Take { range: 0, attempt: 1 }).unwrap(), Created::NoFolder);
        assert_eq!(other.mark_done(0).unwrap(), Created::NoFolder);
        assert_eq!(other.look(RANGES).unwrap(), None);
        other.sweep().unwrap();
    }

    /// A late process has the folder open, and does not see its new name.
    #[test]
    fn files_that_appear_while_the_folder_is_deleted_do_not_fail_the_job() {
        for files in [1000, u32::MAX] {
            let (place, one) = folder(1);
            let handle = File::open(one.path()).unwrap();
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for number in (0..files).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                        let (flags, mode) = (OFlags::WRONLY | OFlags::CREATE, Mode::RUSR);
                        drop(openat(&handle, format!("done-{number}"), flags, mode));
                    }
                });
                one.sweep().unwrap();
                is_over.store(true, Ordering::Relaxed);
            });
            assert!(!one.path().exists());
            let left = place.path().read_dir().unwrap().count();
            assert!(left <= usize::from(files == u32::MAX), "{left}");
        }
    }

    #[test]
    fn files_of_others_are_errors_that_name_them() {
        let names = [
            "claim-3-0",
            "claim-0",
            "done-x",
            "done-3",
            "process-1",
            "claim-01-0",
            "notes.txt",
            "claim-0-4294967296",
        ];
        for name in names {
            let (_place, mut folder) = folder(1);
            fs::write(folder.path().join(name), "").unwrap();
            let error = folder.look(RANGES).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("no file of this job"), "{error}");
        }
        for (name, text) in
            [("claim-0-0", "hello\n"), ("process-0000000000000001", "{}\n"), ("claim-1-2", "9\n")]
        {
            let (_place, mut folder) = folder(1);
            fs::write(folder.path().join(name), text).unwrap();
            let error = folder.look(RANGES).unwrap_err().to_string();
            assert!(error.contains("damaged"), "{name}: {error}");
        }
    }

    #[test]
    fn a_claim_that_a_loss_of_power_has_emptied_has_no_owner() {
        let (_place, mut folder) = folder(1);
        fs::write(folder.path().join("claim-0-4"), [0; 30]).unwrap();
        let look = folder.look(RANGES).unwrap().unwrap();
        assert_eq!(look.ranges[0], RangeClaim::Claimed { attempt: 4, owner: None });
    }
}
