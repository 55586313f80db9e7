//! Files that a program writes as a whole: a report, a picture, a timeline, a page of a manual.
//!
//! These files follow similar rules as outputs that are written row by row. A source is never
//! replaced, even if it has several paths. An existing file is replaced only if the user requests
//! this. A file with the final name is always complete: the bytes are written to a temporary file
//! in the same folder, and the complete temporary file gets the final name. If anything fails, the
//! temporary file is deleted.

use crate::file_error;
use crate::names::{NAME_BYTES_MAX, folder_of, identity, rename_new, short_name};
use crate::shown::shown;
use rustix::fs::rename;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use trijet::Result;

/// The treatment of an existing file that has the name of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The existing file is kept, and the new file is refused.
    Kept,
    /// An existing regular file is replaced when the new file is complete. Other hard links of the
    /// existing file still lead to the old bytes. If a folder or anything else that is not a
    /// regular file has the name, it is not replaced, and the new file is refused.
    Replaced,
}

/// A file that is written as a whole.
///
/// ```
/// use std::io::Write;
/// use trijet_io::{Existing, NewFile};
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("report.txt");
/// let source = folder.path().join("source.csv");
/// std::fs::write(&source, "1,2")?;
/// NewFile::new("report", &path, Existing::Kept, &[&source])?.write(|file| file.write_all(b"3"))?;
/// assert_eq!(std::fs::read(&path)?, b"3");
/// let again = NewFile::new("report", &path, Existing::Kept, &[&source]);
/// assert!(again.unwrap_err().to_string().contains("already exists"));
/// let onto_source = NewFile::new("report", &source, Existing::Replaced, &[&source]);
/// assert!(onto_source.unwrap_err().to_string().contains("would overwrite the input"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct NewFile {
    op: &'static str,
    path: PathBuf,
    existing: Existing,
    /// Files that must not be replaced, and folders in which nothing must be created or replaced.
    sources: Vec<PathBuf>,
    /// The other outputs of the same run. They must not be replaced either.
    outputs: Vec<PathBuf>,
}

/// A file that is complete, but still has a temporary name. If this value is dropped before
/// [`name`](Self::name) has succeeded, the file is deleted.
#[derive(Debug)]
pub struct Complete<'a> {
    target: &'a NewFile,
    beside: PathBuf,
    is_named: bool,
}

/// Maximum number of names that are tried for the temporary file.
const ATTEMPTS: u32 = 1000;

impl NewFile {
    /// Describes a new file at `path`. The operation `op` writes the file, and reads the files and
    /// folders `sources`.
    ///
    /// `InvalidValue` if `path` is a source or lies in a source, or if something that must not be
    /// replaced exists at `path`. `Io` if the folder of `path` is missing or cannot be read.
    pub fn new(
        op: &'static str,
        path: &Path,
        existing: Existing,
        sources: &[&Path],
    ) -> Result<Self> {
        let refused = |cause| Err(file_error::refused(op, path, cause));
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.file_name().is_none() {
            return refused("is not the name of a file");
        }
        match fs::metadata(folder_of(path)) {
            Ok(folder) if folder.is_dir() => {}
            Ok(_) => return refused("its parent is not a folder"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(file_error::damaged(op, path, "the folder does not exist"));
            }
            Err(error) => return Err(file_error::io(op, path, error)),
        }
        let sources = sources.iter().map(|source| (*source).to_owned()).collect();
        let file = Self { op, path: path.to_owned(), existing, sources, outputs: Vec::new() };
        file.check()?;
        Ok(file)
    }

    /// Declares that the same run writes another file at `other`.
    ///
    /// # Errors
    /// `InvalidValue` if the two paths are the same.
    pub fn beside(mut self, other: &Path) -> Result<Self> {
        let folder = |path: &Path| fs::canonicalize(folder_of(path)).ok();
        if self.path.file_name() == other.file_name() && folder(&self.path) == folder(other) {
            let cause = format!("is the output {} of this run; choose another name", shown(other));
            return Err(file_error::refused(self.op, &self.path, cause));
        }
        self.outputs.push(other.to_owned());
        Ok(self)
    }

    /// The final path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file and gives it its final name.
    ///
    /// # Errors
    /// Errors of [`new`](Self::new), and errors of `write`. After an error, no file remains.
    pub fn write(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        self.complete(write)?.name()
    }

    /// Writes the file under a temporary name in the same folder. A program that writes several
    /// files can complete all of them before it calls [`Complete::name`] for the first file.
    ///
    /// # Errors
    /// Errors of [`write`](Self::write).
    pub fn complete(
        &self,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Complete<'_>> {
        self.check()?;
        let (mut file, beside) = self.create_beside()?;
        let complete = Complete { target: self, beside, is_named: false };
        // A full disk may be reported only when the bytes reach the disk, which is at the latest
        // here.
        write(&mut file)
            .and_then(|()| file.sync_all())
            .map_err(|error| file_error::io(self.op, &self.path, error))?;
        Ok(complete)
    }

    /// Refuses a path that is the path of a source or of another output. Refuses an existing file
    /// that must not be replaced.
    fn check(&self) -> Result<()> {
        for (what, others) in [("input", &self.sources), ("output", &self.outputs)] {
            others.iter().try_for_each(|other| refuse(self.op, &self.path, what, other))?;
        }
        let refused = |cause| Err(file_error::refused(self.op, &self.path, cause));
        match (fs::symlink_metadata(&self.path), self.existing) {
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            (Err(error), _) => Err(file_error::io(self.op, &self.path, error)),
            (Ok(_), Existing::Kept) => refused(TAKEN),
            (Ok(state), Existing::Replaced) if !state.is_file() => {
                refused("is not a regular file, so it is not replaced; choose another name")
            }
            (Ok(_), Existing::Replaced) => Ok(()),
        }
    }

    /// Creates a file with an unused temporary name in the same folder.
    fn create_beside(&self) -> Result<(File, PathBuf)> {
        let io = |error| file_error::io(self.op, &self.path, error);
        let name = self.path.file_name().unwrap_or_default();
        for number in 0..ATTEMPTS {
            let suffix = format!(".{}-{number}.partial", process::id());
            let mut other = short_name(name, NAME_BYTES_MAX - suffix.len());
            other.push(suffix);
            let beside = self.path.with_file_name(other);
            match File::create_new(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((created.map_err(io)?, beside)),
            }
        }
        Err(io(io::ErrorKind::AlreadyExists.into()))
    }
}

impl Complete<'_> {
    /// Gives the file its final name.
    ///
    /// # Errors
    /// Errors of [`NewFile::new`], because a file with the final name may have appeared after that
    /// call.
    pub fn name(mut self) -> Result<()> {
        let NewFile { op, path, existing, .. } = self.target;
        self.target.check()?;
        let named = match existing {
            Existing::Kept => rename_new(&self.beside, path),
            Existing::Replaced => rename(&self.beside, path),
        };
        match named {
            Ok(()) => {
                self.is_named = true;
                Ok(())
            }
            Err(Errno::EXIST) => Err(file_error::refused(op, path, TAKEN)),
            Err(error) => Err(file_error::io(op, path, error.into())),
        }
    }
}

impl Drop for Complete<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // An error of this call is ignored, because the caller gets the error that came first.
            drop(fs::remove_file(&self.beside));
        }
    }
}

/// The reason why an existing file is not replaced.
const TAKEN: &str = "already exists; use --overwrite to replace it";

/// Refuses an output at `path` if `path` leads to one of `sources`, or lies in a folder of
/// `sources`.
///
/// # Errors
/// `InvalidValue` with the name of the source.
pub fn refuse_sources(op: &'static str, path: &Path, sources: &[&Path]) -> Result<()> {
    sources.iter().try_for_each(|source| refuse(op, path, "input", source))
}

fn refuse(op: &'static str, path: &Path, what: &str, other: &Path) -> Result<()> {
    let refused = |how| {
        let cause = format!("{how} the {what} {}; choose another name", shown(other));
        Err(file_error::refused(op, path, cause))
    };
    if identity(path).is_some_and(|own| identity(other) == Some(own)) {
        return refused("would overwrite");
    }
    let folder = fs::canonicalize(other).ok().filter(|other| other.is_dir());
    let own = fs::canonicalize(folder_of(path)).ok();
    if own.zip(folder).is_some_and(|(own, folder)| own.starts_with(folder)) {
        return refused("is inside");
    }
    Ok(())
}
