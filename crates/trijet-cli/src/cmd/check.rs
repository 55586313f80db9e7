//! `trijet check`: checks the ledger of a run that was saved in a file.
#![forbid(unsafe_code)]

use super::document::print_json;
use super::{print, verdict};
use crate::args::{Assumption, CheckOptions};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;
use trijet::check::lint::{Lint, lints};
use trijet::check::{self, Assume, Checker, Names, Verdict, check_with};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::file::{About, Reader};
use trijet::trace::{Op, TimeSource};
use trijet::{Error, ErrorKind, Result};
use trijet_io::shown;

/// The most entries that are held in memory. A longer ledger is checked too, but without witnesses
/// and remarks about performance, which need all entries at once.
const ENTRIES_MAX: usize = 1 << 18;

/// The results for a ledger.
struct Checked {
    about: About,
    verdict: Verdict,
    /// `None` for a ledger that is too long or has no times.
    lints: Option<Vec<Lint>>,
}

pub(crate) fn run(options: &CheckOptions) -> Result<ExitCode> {
    let assume = match options.assume {
        Assumption::Documented => Assume::Documented,
        Assumption::DriverObserved => Assume::DriverObserved,
    };
    let checked = check_file(&options.file, assume)?;
    if options.json {
        print_json("check", &json(&options.file, &checked))?;
    } else {
        text(&options.file, &checked)?;
    }
    Ok(verdict::exit_code(&checked.verdict))
}

fn check_file(path: &Path, assume: Assume) -> Result<Checked> {
    let file = File::open(path).map_err(|error| {
        let cause = format!("{}: {error}", shown(path));
        Error::new(ErrorKind::Io, "check", cause).caused_by(error)
    })?;
    let in_file = |error: trijet::Error| error.context(shown(path).to_string());
    let mut reader = Reader::new(BufReader::new(file)).map_err(in_file)?;
    let about = reader.about().clone();
    let options = check::CheckOptions { assume, ..check::CheckOptions::default() };
    let mut checker = Checker::new(options.clone());
    let mut held: Option<Vec<Op>> = Some(Vec::new());
    for op in &mut reader {
        let op = op.map_err(in_file)?;
        checker.push(&op);
        match &mut held {
            Some(ops) if ops.len() < ENTRIES_MAX => ops.push(op),
            _ => held = None,
        }
    }
    let kernels = match about.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    let timed = held.as_ref().filter(|_| about.times != TimeSource::Missing);
    let graph = |ops| Dag::with_times(ops, kernels, about.times);
    let lints = timed.map(|ops| lints(ops, &graph(ops), about.hardware_queues));
    let verdict = held.map_or_else(|| checker.finish(), |ops| check_with(&ops, options));
    Ok(Checked { about, verdict, lints })
}

fn text(path: &Path, checked: &Checked) -> Result<()> {
    let Checked { about, verdict, lints } = checked;
    print(format_args!("{}: {} ({} entries)", shown(path), about.program, verdict.ops))?;
    print(verdict.text(&Names::default()))?;
    if about.dropped > 0 {
        print(format_args!("{} entries are missing: this is not the whole run", about.dropped))?;
    }
    match lints {
        Some(lints) if lints.is_empty() => print("performance: no remarks"),
        Some(lints) => {
            print("performance remarks, each with the most that it could save:")?;
            lints.iter().try_for_each(|lint| print(format_args!("  {lint}")))
        }
        None if about.times == TimeSource::Missing => {
            print("performance: not checked, because the ledger has no times")
        }
        None => print(format_args!(
            "performance: not checked, and no witnesses: more than {ENTRIES_MAX} entries"
        )),
    }
}

fn json(path: &Path, checked: &Checked) -> serde_json::Value {
    let Checked { about, verdict, lints } = checked;
    let mut value = verdict::json(verdict);
    value["file"] = path.to_string_lossy().into_owned().into();
    value["program"] = about.program.as_str().into();
    value["entries_missing"] = about.dropped.into();
    value["lints"] = lints.as_ref().map(|lints| lints.iter().map(lint).collect::<Vec<_>>()).into();
    value
}

fn lint(lint: &Lint) -> serde_json::Value {
    serde_json::json!({
        "rule": lint.rule.name(),
        "saved_ns": lint.saved.0,
        "ops": lint.ops,
        "text": lint.text,
        "fix": lint.rule.fix(),
    })
}
