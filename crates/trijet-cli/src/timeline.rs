//! The timeline of a run as a file. The extension of the file name determines the format.

use std::io::Write;
use std::path::Path;
use trijet::trace::file::{About, Writer};
use trijet::trace::summary::Audience;
use trijet::{Report, Result};
use trijet_io::{Existing, NewFile, file_error};

#[derive(Debug, Clone, Copy)]
enum Format {
    Page,
    Perfetto,
    Chrome,
    Ledger,
}

impl Format {
    /// The format of a file with this name.
    fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("html") => Ok(Self::Page),
            Some("pftrace") => Ok(Self::Perfetto),
            Some("json") => Ok(Self::Chrome),
            Some("ledger") => Ok(Self::Ledger),
            _ => {
                let cause = "unknown extension: use .html, .pftrace, .json or .ledger";
                Err(file_error::refused("trace", path, cause))
            }
        }
    }
}

/// Refuses a name that is not the name of a timeline.
///
/// # Errors
/// `InvalidValue` for an extension that [`Target::new`] does not accept.
pub fn check_name(path: &Path) -> Result<()> {
    Format::of(path).map(drop)
}

/// A description of a timeline file, before it is written.
#[derive(Debug, Clone)]
pub struct Target {
    file: NewFile,
    format: Format,
}

impl Target {
    /// Describes a timeline at `path`, whose extension is `html`, `pftrace`, `json` or `ledger`, of
    /// a run that reads the files and folders `sources`.
    ///
    /// # Errors
    /// `InvalidValue` for another extension; errors of [`NewFile::new`].
    pub fn new(path: &Path, existing: Existing, sources: &[&Path]) -> Result<Self> {
        let format = Format::of(path)?;
        Ok(Self { file: NewFile::new("trace", path, existing, sources)?, format })
    }

    /// Declares that the run writes another file at `other`.
    ///
    /// # Errors
    /// Errors of [`NewFile::beside`].
    pub fn beside(self, other: &Path) -> Result<Self> {
        Ok(Self { file: self.file.beside(other)?, ..self })
    }

    /// The path that the file has when it is complete.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Writes the timeline of a traced run; `job` describes the run.
    ///
    /// # Errors
    /// Errors of [`NewFile::write`].
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
        self.file.write(|file| file.write_all(&bytes))
    }
}

/// The start of the name of the tool in every ledger that the command writes.
const TOOL: &str = "trijet command ";

/// The audience of a report about a ledger. If this command has written the ledger, the audience is
/// the users of the command, otherwise the author of the program.
#[must_use]
pub fn audience_of(about: &About) -> Audience {
    if about.tool.starts_with(TOOL) { Audience::User } else { Audience::Author }
}

/// The ledger file of the run.
fn ledger(report: &Report, job: &str) -> Result<Vec<u8>> {
    let tool = format!("{TOOL}{}", env!("CARGO_PKG_VERSION"));
    let about = About { tool, ..report.about(job) };
    let mut writer = Writer::new(Vec::new(), &about)?;
    report.ops.iter().try_for_each(|op| writer.push(op))?;
    writer.finish()
}
