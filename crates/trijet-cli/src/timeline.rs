//! The timeline of a run as a file. The extension of its name determines the format.
//!
//! The file is written under another name and renamed when it is complete, so that a reader never
//! finds an incomplete file. No existing file is replaced.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use trijet::trace::file::Writer;
use trijet::{Report, Result};
use trijet_io::file_error;

#[derive(Debug, Clone, Copy)]
enum Format {
    Page,
    Perfetto,
    Chrome,
    Ledger,
}

/// A description of a timeline file, before it is written.
#[derive(Debug, Clone)]
pub struct Target {
    path: PathBuf,
    partial: PathBuf,
    format: Format,
}

impl Target {
    /// Describes a timeline at `path`, whose extension is `html`, `pftrace`, `json` or `ledger`.
    ///
    /// # Errors
    /// `InvalidValue` for another extension, and when something exists at `path`. `Io` when the
    /// folder of `path` is missing.
    pub fn new(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("html") => Format::Page,
            Some("pftrace") => Format::Perfetto,
            Some("json") => Format::Chrome,
            Some("ledger") => Format::Ledger,
            _ => {
                let cause = "unknown extension: use .html, .pftrace, .json or .ledger";
                return Err(file_error::refused("trace", path, cause));
            }
        };
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let target = Self { path: path.to_owned(), partial: partial.into(), format };
        target.check_free()?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
                Err(file_error::damaged("trace", path, "the folder does not exist"))
            }
            _ => Ok(target),
        }
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the timeline of a traced run; `job` describes the run.
    ///
    /// # Errors
    /// `InvalidValue` when something exists at the path by now, `Io` when the file cannot be
    /// written.
    pub fn write(&self, report: &Report, job: &str) -> Result<()> {
        let bytes = match self.format {
            Format::Page => {
                let mut page = report.page();
                page.title = job.to_owned();
                page.render().into_bytes()
            }
            Format::Perfetto => report.perfetto(),
            Format::Chrome => report.chrome().into_bytes(),
            Format::Ledger => ledger(report, job)?,
        };
        // An existing file of that name is not ours to replace; it may be the input.
        let mut file = fs::File::create_new(&self.partial)
            .map_err(|error| file_error::io("trace", &self.partial, error))?;
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        drop(file);
        let done = written
            .map_err(|error| file_error::io("trace", &self.partial, error))
            .and_then(|()| self.check_free())
            .and_then(|()| {
                fs::rename(&self.partial, &self.path)
                    .map_err(|error| file_error::io("trace", &self.path, error))
            });
        // An incomplete timeline is of no use.
        match done {
            Err(error) => match fs::remove_file(&self.partial) {
                Ok(()) => Err(error),
                Err(second) => Err(error.context(second.to_string())),
            },
            Ok(()) => Ok(()),
        }
    }

    fn check_free(&self) -> Result<()> {
        if fs::symlink_metadata(&self.path).is_ok() {
            return Err(file_error::refused("trace", &self.path, "already exists"));
        }
        Ok(())
    }
}

/// The ledger file of the run.
fn ledger(report: &Report, job: &str) -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &report.about(job))?;
    report.ops.iter().try_for_each(|op| writer.push(op))?;
    writer.finish()
}
