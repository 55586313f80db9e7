//! Where an output may lie. Nothing that exists is overwritten, and the input least of all.

use crate::fault;
use crate::format::Input;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trijet::Result;

/// The paths that a run uses for its output.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The final name. Nothing lies here before the output is complete.
    pub(super) out: PathBuf,
    /// What is being written.
    pub(super) partial: PathBuf,
    /// Which rows of it are written.
    pub(super) journal: PathBuf,
}

impl Place {
    pub(super) fn new(out: &Path) -> Result<Self> {
        // `components` drops a slash at the end, which a name with a suffix cannot have.
        let out = out.components().as_path();
        if out.file_name().is_none() {
            return Err(fault::refused("create", out, "names no file"));
        }
        let suffixed = |suffix: &str| {
            let mut name = OsString::from(out);
            name.push(suffix);
            PathBuf::from(name)
        };
        let (partial, journal) = (suffixed(".partial"), suffixed(".journal"));
        Ok(Self { out: out.to_owned(), partial, journal })
    }

    pub(super) fn check(&self, input: &Input) -> Result<()> {
        let refused = |cause: String| Err(fault::refused("create", &self.out, cause));
        let source = fs::canonicalize(input.path())
            .map_err(|error| fault::io("create", input.path(), error))?;
        if fs::canonicalize(self.parent()?)
            .map_err(|error| fault::io("create", &self.out, error))?
            .starts_with(&source)
        {
            return refused(format!("lies inside the input {}", input.path().display()));
        }
        for own in [&self.out, &self.partial, &self.journal] {
            let Some(own) = identity(own) else { continue };
            if let Some(file) = input.files().iter().find(|file| identity(file) == Some(own)) {
                let cause = format!("writing it would destroy the input {}", file.display());
                return refused(cause);
            }
        }
        if fs::canonicalize(&self.partial).is_ok_and(|partial| source.starts_with(partial)) {
            return refused(format!("the input lies inside {}", self.partial.display()));
        }
        self.check_free()
    }

    /// A link that leads nowhere exists too: to write through it would create its target.
    pub(super) fn check_free(&self) -> Result<()> {
        if fs::symlink_metadata(&self.out).is_ok() {
            return Err(fault::refused("create", &self.out, "exists already"));
        }
        Ok(())
    }

    fn parent(&self) -> Result<&Path> {
        let parent = match self.out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let cause = match fs::metadata(parent) {
            Ok(metadata) if metadata.is_dir() => return Ok(parent),
            Ok(_) => format!("{} is not a folder", parent.display()),
            Err(error) => {
                let error = fault::io("create", parent, error);
                return Err(error.context(format!("the folder of {}", self.out.display())));
            }
        };
        Err(fault::refused("create", &self.out, cause))
    }
}

/// The same for all names of one file, whether by links or by spelling.
fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
