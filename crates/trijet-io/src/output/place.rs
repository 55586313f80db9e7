//! The paths of an output, and the checks of these paths. No existing file is overwritten, and
//! above all not the input.

use super::shard::Shard;
use crate::file_error;
use crate::format::{is_at, state_of};
use crate::input::Input;
use crate::names::{NAME_BYTES_MAX, folder_of, identity, rename_new, short_name};
use crate::shown::shown;
use rustix::io::Errno;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trijet::{Error, Result};

/// The paths that a run uses for its output.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The final path of the output. Nothing is at this path before the output is complete.
    pub(crate) out: PathBuf,
    /// The path of the output while it is being written.
    pub(crate) partial: PathBuf,
    /// The path of the journal of this process, which lists the rows that are written. If several
    /// processes write one output, each process has its own journal.
    pub(crate) journal: PathBuf,
    /// The path of the journal that all processes of the output share, which names their job. A
    /// process locks this journal while it creates or finishes the output. `None` if one process
    /// writes the output.
    pub(super) shared: Option<PathBuf>,
    /// The folder of the claims of processes that write the output together. `None` if the
    /// processes do not claim rows.
    pub(crate) claims: Option<PathBuf>,
    /// The path of the mark of a finished output, where the file system has no extended attributes.
    pub(super) mark: PathBuf,
}

impl Place {
    pub(crate) fn new(out: &Path) -> Result<Self> {
        // `components` removes a slash at the end, because a suffix must follow the name directly.
        let out = out.components().as_path();
        if out == Path::new("-") {
            let cause = "standard output is not supported here; use the name of a file";
            return Err(file_error::refused("create", out, cause));
        }
        let Some(name) = out.file_name() else {
            return Err(file_error::refused("create", out, "is not the name of a file"));
        };
        let stem = short_name(name, NAME_BYTES_MAX - ".finished".len());
        let suffixed = |suffix: &str| {
            let mut name = stem.clone();
            name.push(suffix);
            out.with_file_name(name)
        };
        let [partial, journal, mark] = [".partial", ".journal", ".finished"].map(suffixed);
        let (shared, claims) = (None, None);
        Ok(Self { out: out.to_owned(), partial, journal, shared, claims, mark })
    }

    /// The same output, with all files but the complete output in the folder `state`. Called before
    /// [`of_shard`](Self::of_shard) and [`with_claims`](Self::with_claims).
    pub(crate) fn in_state(mut self, state: Option<&Path>) -> Result<Self> {
        let Some(state) = state else { return Ok(self) };
        let folder = |path: &Path| {
            let found =
                fs::metadata(path).map_err(|error| file_error::io("create", path, error))?;
            match found.is_dir() {
                true => Ok(found.dev()),
                false => Err(file_error::refused("create", path, "is not a folder")),
            }
        };
        // The complete output gets its final name by a rename, which no file survives that must
        // move to another file system.
        if folder(state)? != folder(self.parent()?)? {
            let cause = format!(
                "is on another file system than the output {}; choose a folder on the same one",
                shown(&self.out)
            );
            return Err(file_error::refused("create", state, cause));
        }
        for path in [&mut self.partial, &mut self.journal, &mut self.mark] {
            *path = state.join(path.file_name().unwrap_or_default());
        }
        Ok(self)
    }

    /// The same output, which processes write together by claims.
    pub(crate) fn with_claims(mut self) -> Self {
        self.claims = Some(self.partial.with_extension("claims"));
        self
    }

    /// The paths for the process `shard`, which is one of several processes.
    pub(super) fn of_shard(mut self, shard: Shard) -> Self {
        let journal = self.journal_of(shard);
        self.shared = Some(std::mem::replace(&mut self.journal, journal));
        self
    }

    /// The path of the journal of the process `shard`.
    pub(super) fn journal_of(&self, shard: Shard) -> PathBuf {
        let suffix = format!(".{}-of-{}.journal", shard.index(), shard.count());
        let name = self.out.file_name().unwrap_or_default();
        let mut name = short_name(name, NAME_BYTES_MAX - suffix.len());
        name.push(suffix);
        self.partial.with_file_name(name)
    }

    /// Refuses an output that already exists, or that would damage the input.
    pub(super) fn check(&self, input: &Input) -> Result<()> {
        let refused = |cause: String| Err(file_error::refused("create", &self.out, cause));
        let source = input.canonical_path();
        if fs::canonicalize(self.parent()?)
            .map_err(|error| file_error::io("create", &self.out, error))?
            .starts_with(source)
        {
            return refused(format!("is inside the input {}", shown(input.path())));
        }
        for own in [&self.out, &self.partial, &self.journal] {
            let Some(own) = identity(own) else { continue };
            if let Some(file) = input.files().iter().find(|file| identity(file) == Some(own)) {
                let cause = format!("would overwrite the input {}", shown(file));
                return refused(cause);
            }
        }
        if fs::canonicalize(&self.partial).is_ok_and(|partial| source.starts_with(partial)) {
            return refused(format!(
                "the input is inside {}, where the partial output would be written",
                shown(&self.partial)
            ));
        }
        Ok(())
    }

    /// Refuses an output that already exists. A dangling symbolic link counts as existing, because
    /// a write through the link would create the file to which it leads.
    pub(super) fn check_free(&self) -> Result<()> {
        match state_of("create", &self.out)? {
            None => Ok(()),
            Some(_) => Err(self.taken()),
        }
    }

    /// Gives the complete output its final name. `root` is the open file or folder of the output.
    /// If a file with the final name has appeared since the run began, that file is not replaced.
    pub(crate) fn publish(&self, root: &File) -> Result<()> {
        let io = |error| file_error::io("finish", &self.partial, error);
        if !is_at(root, &self.partial).map_err(io)? {
            let cause = "is not the partial output of this run any more: it was moved or replaced";
            return Err(file_error::refused("finish", &self.partial, cause));
        }
        rename_new(&self.partial, &self.out).map_err(|error| match error {
            Errno::EXIST => self.taken(),
            error => file_error::io("finish", &self.out, error.into()),
        })
    }

    /// Whether one file has both the partial name and the final name of the output. The reason is
    /// that a run died between two steps: it had given the file the final name, and had not removed
    /// the partial name yet.
    pub(super) fn has_both_names(&self) -> bool {
        let own = |path| fs::symlink_metadata(path).ok().filter(Metadata::is_file);
        let number = |state: Metadata| (state.dev(), state.ino());
        let out = own(&self.out).map(number);
        out.is_some() && out == own(&self.partial).map(number)
    }

    fn taken(&self) -> Error {
        file_error::refused("create", &self.out, "already exists")
    }

    /// The folder that contains the output.
    pub(crate) fn folder(&self) -> &Path {
        folder_of(&self.out)
    }

    fn parent(&self) -> Result<&Path> {
        let parent = self.folder();
        let cause = match fs::metadata(parent) {
            Ok(metadata) if metadata.is_dir() => return Ok(parent),
            Ok(_) => format!("{} is not a folder", shown(parent)),
            Err(error) => {
                let error = file_error::io("create", parent, error);
                return Err(error.context(format!("the folder of {}", shown(&self.out))));
            }
        };
        Err(file_error::refused("create", &self.out, cause))
    }
}
