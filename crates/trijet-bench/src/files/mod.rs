//! From file to file: a run of `trijet map`, as a person starts it. The run is compared with
//! threads that only move the same bytes, and with peers. The definition names the programs, and
//! the output that each program must write.
//!
//! A command has two times. One is the time of its process, from start to end. The other is the
//! time of the run within the process, which the command reports. Threads of this process have only
//! the time of the run. The bound of a case is the fastest way to move its bytes without a GPU.
#![forbid(unsafe_code)]

mod case;
mod definition;
mod place;
mod plain;
mod share;
mod stack;

use crate::peer::Scripts;
use crate::process;
use crate::results::Results;
use crate::setting::Setting;
use case::Comparison;
pub(crate) use definition::Definition;
use definition::Kind;
use stack::{Hashes, Stack, failed};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use trijet::{Error, ErrorKind, Result};
use trijet_tools::command::usage::version;
use trijet_tools::progress::Steps;

/// The free space that a folder needs, in multiples of the size of the stack. It is for the input,
/// for the output, and for the file system itself, which needs a tenth of both.
const ROOM: f64 = 2.2;

/// Maximum time in which the command prints its version.
const VERSION_LIMIT: Duration = Duration::from_secs(60);

/// The sizes that a run uses. They depend on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Gpu,
    Host,
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong output or a wrong definition; `Unsupported` for a command that fails;
/// `Io`; `Cancelled` before the end of the first case. If the benchmark is cancelled later, it
/// returns the rows of the cases that have ended, marked as incomplete.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    if let Some(why) = missing(&setting.trijet) {
        let mut results = Results::of_device(setting.device);
        results.note("files", why);
        return Ok(results);
    }
    let scale = if setting.is_gpu() { Scale::Gpu } else { Scale::Host };
    measure(setting, definition, scale, steps)
}

/// The reason why the command cannot be measured on this machine; `None` if it can be.
fn missing(trijet: &Path) -> Option<String> {
    let words = [trijet.display().to_string(), "--version".to_owned()];
    let why = match process::run(&words, VERSION_LIMIT) {
        Ok(ran) => {
            another(ran.out.lines().next().unwrap_or_default(), &format!("trijet {}", version()))?
        }
        Err(why) => why,
    };
    Some(format!("not run: {why}; `cargo build --release -p trijet-cli` builds it"))
}

/// The reason why the command cannot be measured: its version differs from the version of this
/// benchmark, so the results would name a wrong commit. `None` if the versions are equal.
fn another(found: &str, expected: &str) -> Option<String> {
    (found != expected).then(|| format!("the command is `{found}`, not `{expected}`"))
}

/// A folder with the input, and its parent folder; or the reason why there is none.
type Place<'a> = std::result::Result<(TempDir, &'a Path), String>;

fn measure(
    setting: &Setting<'_>,
    definition: &Definition,
    scale: Scale,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let size = if scale == Scale::Gpu { definition.sizes.gpu } else { definition.sizes.host };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let stack = Stack { size, piece_bytes: definition.piece_bytes, threads };
    let scripts = Scripts::new()?;
    let mut results = Results::of_device(setting.device);
    let bytes = stack.bytes();
    let text =
        format!("{} images of {} x {}, u16, {bytes} bytes", size.pages, size.height, size.width);
    results.note("input", text);
    results.note("verified", "the output of every run, by its hashes; the rules by the definition");
    steps.begin("computing the expected outputs, and writing the inputs");
    let expected = expected(definition, scale, &stack)?;
    let tmpfs = place(Kind::Tmpfs, &definition.places.tmpfs, &stack)?;
    let disk = place(Kind::Disk, &definition.places.disk, &stack)?;
    let cases: usize = definition.jobs.iter().map(|job| job.cases.len()).sum();
    steps.expect((cases * (1 + size.repeats)) as u64);
    let (mut peers, mut missing) = (Vec::new(), Vec::new());
    for peer in &definition.peers {
        match peer.missing() {
            None => peers.push(peer),
            Some(why) => missing.push((peer, why)),
        }
    }
    let unchanged = stack.unchanged().map_err(failed)?;
    let mut has_ended = false;
    for (job, expected) in definition.jobs.iter().zip(&expected) {
        for case in &job.cases {
            let name = format!("{}, {}", job.op.name(), case.name());
            let place = if case.place == Kind::Tmpfs { &tmpfs } else { &disk };
            let folder = match place {
                Ok((folder, _)) => folder.path(),
                Err(why) => {
                    results.note(name, format!("not run: {why}"));
                    continue;
                }
            };
            let comparison = Comparison {
                name,
                setting,
                definition,
                job,
                case: *case,
                stack: &stack,
                expected,
                unchanged: &unchanged,
                folder,
                scripts: &scripts,
                peers: &peers,
            };
            match comparison.run(size.repeats, steps, &mut results) {
                // The cases that have ended took minutes, so their rows are kept.
                Err(error) if error.kind() == ErrorKind::Cancelled && has_ended => {
                    results.stop();
                    return Ok(results);
                }
                outcome => outcome?,
            }
            has_ended = true;
            for (peer, why) in &missing {
                results.note(format!("{}: {}", comparison.name, peer.name), why);
            }
        }
    }
    for (name, place) in [("folder of tmpfs", &tmpfs), ("folder of disk", &disk)] {
        if let Ok((_, folder)) = place {
            results.note(name, folder.display().to_string());
        }
    }
    Ok(results)
}

/// Makes a folder on a file system of this kind and writes the input to it. If the machine has no
/// such folder, the outer result is `Ok`, and the inner result is `Err` with the reason.
fn place<'a>(kind: Kind, folders: &'a [PathBuf], stack: &Stack) -> Result<Place<'a>> {
    #[expect(clippy::cast_possible_truncation, reason = "a number of bytes")]
    #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
    let room = (stack.bytes() as f64 * ROOM) as u64;
    let found = place::find(kind, folders, room);
    if let Ok((folder, _)) = &found {
        stack.write(&case::input(folder.path())).map_err(failed)?;
    }
    Ok(found)
}

/// The expected hashes of each job, computed from its rule. The definition has the digest of these
/// hashes, so a change of a rule is found as an error.
fn expected(definition: &Definition, scale: Scale, stack: &Stack) -> Result<Vec<Hashes>> {
    let mut all = Vec::new();
    for job in &definition.jobs {
        let hashes = stack.expected(job.op).map_err(failed)?;
        let digests = &job.expected;
        let wanted = if scale == Scale::Gpu { &digests.gpu } else { &digests.host };
        let found = hashes.digest();
        if found != *wanted {
            let cause = format!(
                "the rule of {} gives the digest {found}, but the definition expects {wanted}",
                job.op.name()
            );
            return Err(Error::new(ErrorKind::InvalidValue, "bench files", cause));
        }
        all.push(hashes);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
