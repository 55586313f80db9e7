//! Peers: programs of other projects, and programs as the users of those projects would write them.
//! A definition names the peers. Peers run as commands and are never linked.
//!
//! A definition gives a peer a `probe`, a command that succeeds where the peer can run. If the
//! probe fails, the results have a row with the reason. If the probe succeeds, a failure of the
//! peer is an error. On standard output, a peer prints one figure per line: the name, the unit and
//! the value with tabs between them. A line with `note`, a tab and a text goes to the last column
//! of the results. Any other line is an error.
//!
//! The scripts are compiled into this program, so peers also run without a copy of the repository.
#![forbid(unsafe_code)]

use crate::process::{self, Ran};
use crate::results::Results;
use crate::rounds::Value;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use trijet::{Error, ErrorKind, Result};
use trijet_tools::stats::Samples;

/// The scripts that definitions name as `{scripts}/NAME`.
const SCRIPTS: [(&str, &str); 20] = [
    ("alloc_training.py", include_str!("../peers/alloc_training.py")),
    ("chains_torch.py", include_str!("../peers/chains_torch.py")),
    ("gemm_torch.py", include_str!("../peers/gemm_torch.py")),
    ("gradients_ddp.py", include_str!("../peers/gradients_ddp.py")),
    ("memory_pools.cu", include_str!("../peers/memory_pools.cu")),
    ("memory_pools.sh", include_str!("../peers/memory_pools.sh")),
    ("memory_python.py", include_str!("../peers/memory_python.py")),
    ("memory_replay.cu", include_str!("../peers/memory_replay.cu")),
    ("memory_replay.sh", include_str!("../peers/memory_replay.sh")),
    ("tasks_stf.cu", include_str!("../peers/tasks_stf.cu")),
    ("tasks_stf.sh", include_str!("../peers/tasks_stf.sh")),
    ("workers_bare.cu", include_str!("../peers/workers_bare.cu")),
    ("workers_bare.sh", include_str!("../peers/workers_bare.sh")),
    ("small_jobs.sh", include_str!("../peers/small_jobs.sh")),
    ("small_jobs.cu", include_str!("../peers/small_jobs.cu")),
    ("small_jobs_torch.py", include_str!("../peers/small_jobs_torch.py")),
    ("overlap_torch.py", include_str!("../peers/overlap_torch.py")),
    ("files_cupy_rule.py", include_str!("../peers/files_cupy_rule.py")),
    ("files_cupy_loop.py", include_str!("../peers/files_cupy_loop.py")),
    ("files_cupy_streams.py", include_str!("../peers/files_cupy_streams.py")),
];

/// Maximum time of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// A peer, as a definition describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    probe: Vec<String>,
    command: Vec<String>,
    limit_s: u64,
}

/// The result of one run of a peer.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) values: Vec<Value>,
    pub(crate) note: String,
    /// The time from the start of the process to its end.
    pub(crate) seconds: f64,
}

/// A name, and the words that replace it. A command contains the name in braces.
pub(crate) type Words<'a> = (&'a str, Vec<String>);

impl Peer {
    /// The reason why the peer cannot run here; `None` if it can.
    pub(crate) fn missing(&self) -> Option<String> {
        let probed = process::run(&self.probe, PROBE_LIMIT);
        probed.err().map(|why| format!("not run: {why}"))
    }

    /// Whether the command contains a word such as `{library}`.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.command.iter().any(|argument| argument.contains(word))
    }

    /// The file name of the script that the command runs; `None` if the command runs no script.
    #[cfg(test)]
    pub(crate) fn script(&self) -> Option<&str> {
        self.command.iter().find_map(|argument| argument.strip_prefix("{scripts}/"))
    }

    /// Runs the peer once.
    ///
    /// # Errors
    /// `Unsupported` when the peer fails, or prints a line that is neither a figure nor a note.
    pub(crate) fn run(&self, words: &[Words<'_>]) -> Result<Outcome> {
        let failed = |why: String| {
            Error::new(ErrorKind::Unsupported, "run a peer", format!("{}: {why}", self.name))
        };
        let command = filled(&self.command, words).map_err(failed)?;
        let limit = Duration::from_secs(self.limit_s);
        process::run(&command, limit).and_then(outcome).map_err(failed)
    }
}

/// Runs each peer once. The number of samples and the given words replace names in the command of
/// the peer. Adds the figures that the peer printed to the results.
///
/// # Errors
/// Errors of [`Peer::run`]; `Io` if the scripts cannot be written.
pub(crate) fn figures(
    peers: &[Peer],
    samples: usize,
    words: &[Words<'_>],
    results: &mut Results,
) -> Result<()> {
    let scripts = Scripts::new()?;
    for peer in peers {
        if let Some(why) = peer.missing() {
            results.note(peer.name.clone(), why);
            continue;
        }
        let own = [scripts.words(), ("repeats", vec![samples.to_string()])];
        let all: Vec<Words<'_>> = own.into_iter().chain(words.iter().cloned()).collect();
        let outcome = peer.run(&all)?;
        let mut figures: Vec<(String, String, Samples)> = Vec::new();
        for Value { what, unit, value } in outcome.values {
            match figures.iter_mut().find(|figure| figure.0 == what) {
                Some(figure) => figure.2.push(value),
                None => figures.push((what, unit, Samples::one(value))),
            }
        }
        for (what, unit, samples) in figures {
            results.push_with(what, &unit, samples, None, outcome.note.clone());
        }
    }
    Ok(())
}

/// The figures that a peer printed.
fn outcome(ran: Ran) -> std::result::Result<Outcome, String> {
    let (mut values, mut note) = (Vec::new(), String::new());
    for line in ran.out.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells[..] {
            ["note", text] => text.clone_into(&mut note),
            [what, unit, value] => match value.parse() {
                Ok(value) => values.push(Value { what: what.into(), unit: unit.into(), value }),
                Err(_) => return Err(format!("printed `{line}`, where `{value}` is not a number")),
            },
            _ => return Err(format!("printed `{line}`, which is not a name, a unit and a value")),
        }
    }
    Ok(Outcome { values, note, seconds: ran.seconds })
}

/// Replaces every `{NAME}` of a command. An argument that is only `{NAME}` becomes several
/// arguments, one for each word that replaces the name. Within a longer argument, the words are
/// joined by spaces.
///
/// # Errors
/// The name in braces that is not among `words`.
pub(crate) fn filled(
    command: &[String],
    words: &[Words<'_>],
) -> std::result::Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    for argument in command {
        let whole = words.iter().find(|(name, _)| *argument == format!("{{{name}}}"));
        if let Some((_, words)) = whole {
            arguments.extend(words.iter().cloned());
            continue;
        }
        arguments.push(within(argument, words)?);
    }
    Ok(arguments)
}

/// Replaces every `{NAME}` of an argument. Names have lower-case letters only.
fn within(argument: &str, words: &[Words<'_>]) -> std::result::Result<String, String> {
    let (mut filled, mut rest) = (String::new(), argument);
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        let name = after.split_once('}').map_or("", |(name, _)| name);
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase()) {
            // This brace is no name, but a part of the command.
            filled.push('{');
            rest = after;
            continue;
        }
        let found = words.iter().find(|(known, _)| *known == name);
        let (_, words) = found.ok_or_else(|| format!("`{{{name}}}` has no value"))?;
        filled += &words.join(" ");
        rest = &after[name.len() + 1..];
    }
    Ok(filled + rest)
}

/// A folder with the scripts. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Scripts(TempDir);

impl Scripts {
    /// Writes the scripts.
    ///
    /// # Errors
    /// `Io` when the folder for temporary files cannot be written.
    pub(crate) fn new() -> Result<Self> {
        let written = tempfile::tempdir().and_then(|folder| {
            for (name, text) in SCRIPTS {
                fs::write(folder.path().join(name), text)?;
            }
            Ok(Self(folder))
        });
        written.map_err(|error| {
            let cause = format!("cannot write the scripts of the peers: {error}");
            Error::new(ErrorKind::Io, "bench", cause).caused_by(error)
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// The folder as the word that replaces `{scripts}`.
    pub(crate) fn words(&self) -> Words<'static> {
        ("scripts", vec![self.folder().display().to_string()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(probe: &str, script: &str) -> Peer {
        let shell = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        Peer { name: "a peer".to_owned(), probe: shell(probe), command: shell(script), limit_s: 60 }
    }

    #[test]
    fn a_peer_that_cannot_run_here_says_why() {
        let missing = peer("echo 'No module named cupy' >&2; exit 1", "true").missing();
        assert_eq!(missing.as_deref(), Some("not run: exit status: 1: No module named cupy"));
        assert_eq!(peer("true", "false").missing(), None);
    }

    #[test]
    fn a_peer_that_fails_although_it_can_run_is_an_error_with_its_name() {
        let error = peer("true", "echo broken >&2; exit 2").run(&[]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("a peer: exit status: 2: broken"), "{text}");
    }

    #[test]
    fn figures_and_notes_are_read_and_other_lines_refused() -> Result<()> {
        let script = "printf 'note\\tversion 3\\nslots=1\\tms\\t2.5\\nslots=2\\tms\\t4\\n'";
        let Outcome { values, note, seconds } = peer("true", script).run(&[])?;
        let value = |what: &str, value| Value { what: what.into(), unit: "ms".into(), value };
        assert_eq!(values, [value("slots=1", 2.5), value("slots=2", 4.0)]);
        assert_eq!(note, "version 3");
        assert!(seconds > 0.0);
        for script in ["echo hello", "printf 'a\\tms\\tfast\\n'"] {
            let error = peer("true", script).run(&[]).unwrap_err().to_string();
            assert!(error.contains("a peer: printed `"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn names_in_braces_are_replaced_and_unknown_ones_refused() {
        let words = [("in", vec!["x.raw".to_owned()]), ("op", vec!["a".into(), "b".into()])];
        let command = ["{in}", "{op}", "{in}x{op}!", "no{ne {} ${X}"].map(str::to_owned);
        assert_eq!(
            filled(&command, &words).unwrap(),
            ["x.raw", "a", "b", "x.rawxa b!", "no{ne {} ${X}"]
        );
        let unknown = filled(&["{out}".to_owned()], &words);
        assert_eq!(unknown.unwrap_err(), "`{out}` has no value");
    }
}
