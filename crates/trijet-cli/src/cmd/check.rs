//! `trijet check`: checks the ledger of a run that was saved in a file, or the calls of a program.
#![forbid(unsafe_code)]

mod against;
mod baseline;
mod calls;
mod page;
mod process;

use self::against::{ComparedLedger, EntryCounts, LedgerComparison};
use self::baseline::FindingLevel;
use super::document::print_json;
use super::{print, verdict};
use crate::args::{Assumption, CheckOptions};
use crate::timeline;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use trijet::check::lint::{Lint, lints};
use trijet::check::{self, Assume, Checker, Finding, Names, Verdict, check_with};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::file::{About, Reader};
use trijet::trace::summary::Audience;
use trijet::trace::{Engine, Op, TimeSource};
use trijet::{Error, ErrorKind, Result};
use trijet_calls::Judged;
use trijet_io::{file_error, shown};

/// Maximum number of entries that are kept in memory. A longer ledger is checked for races, but
/// without witnesses and remarks about performance, because these need all entries at once.
const ENTRIES_MAX: usize = 1 << 18;

/// The bytes of a file that tell whether it has the calls of a program.
const START_BYTES: u64 = 16;

/// The results of the check of a ledger.
#[derive(Debug)]
pub(crate) struct Checked {
    about: About,
    verdict: Verdict,
    counts: EntryCounts,
    /// The remarks about performance. `None` for a ledger that is too long or has no times.
    lints: Option<Vec<Lint>>,
    /// Whether `trijet` ran the job in place: the kernels accessed host memory directly. Then the
    /// ledger has kernels and no copies. In all other runs of `trijet`, the data pass through a
    /// pipeline, so the ledger has copies.
    in_place: bool,
}

impl Checked {
    fn audience(&self) -> Audience {
        timeline::audience_of(&self.about)
    }

    /// Whether the verdict has no error.
    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.is_clean()
    }

    fn compared(&self) -> ComparedLedger<'_> {
        let is_whole = self.about.dropped == 0;
        ComparedLedger { verdict: &self.verdict, counts: &self.counts, is_whole }
    }

    /// The verdict in a few lines.
    pub(crate) fn verdict(&self) -> String {
        self.verdict.text(&self.names())
    }

    fn names(&self) -> Names {
        Names { audience: self.audience(), ..Names::default() }
    }
}

pub(crate) fn run(options: &CheckOptions) -> Result<ExitCode> {
    let Some(file) = &options.file else {
        return calls::run(options, options.assume.map_or(Assume::DriverObserved, assumed));
    };
    let mut start = Vec::new();
    File::open(file)
        .and_then(|open| open.take(START_BYTES).read_to_end(&mut start))
        .map_err(|error| file_error::io("check", file, error))?;
    if calls::is_calls(&start) {
        if options.against.is_some() {
            let cause = format!(
                "{} has the calls of a program; compare their findings with --baseline",
                shown(file)
            );
            return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
        }
        let assume = options.assume.map_or(Assume::DriverObserved, assumed);
        return calls::file(file, options, assume);
    }
    if options.output.is_some() {
        let cause =
            format!("{} is a ledger; only calls of a program become a page here", shown(file));
        return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
    }
    if options.baseline.is_some() || options.write_baseline.is_some() {
        let cause = format!("{} is a ledger; a baseline has findings of programs", shown(file));
        return Err(Error::new(ErrorKind::InvalidValue, "check", cause));
    }
    let assume = options.assume.map_or(Assume::Documented, assumed);
    let base = options.against.as_deref().map(|base| check_file(base, assume)).transpose()?;
    let checked = check_file(file, assume)?;
    let comparison = options.against.as_deref().zip(base).map(|(path, base)| {
        LedgerComparison::of(path, &options.fail_if, [base.compared(), checked.compared()])
    });
    if options.json {
        let mut report = json(file, &checked);
        report["against"] = comparison.as_ref().map(LedgerComparison::json).into();
        print_json("check", &report)?;
    } else {
        lines(file, &checked).iter().try_for_each(print)?;
        comparison.iter().flat_map(LedgerComparison::lines).try_for_each(print)?;
    }
    if !checked.is_clean() {
        return Ok(verdict::exit_code(&checked.verdict));
    }
    Ok(comparison.map_or(ExitCode::SUCCESS, |one| one.exit_code()))
}

/// The texts of the findings in a program, and whether each is an error.
pub(crate) fn of_program(judged: &Judged) -> Vec<(String, bool)> {
    let text = |finding: &Finding, level| process::whole_text(judged, finding, level);
    let errors =
        { judged.errors.iter() }.map(|one| (text(one, FindingLevel::of_error(judged, one)), true));
    let possible = judged.possible.iter();
    let possible = possible.map(|one| (text(&one.finding, FindingLevel::Possible), false));
    let more = judged.more > 0;
    let more = more.then(|| (format!("{} further findings are not kept", judged.more), true));
    errors.chain(possible).chain(more).collect()
}

fn assumed(assumption: Assumption) -> Assume {
    match assumption {
        Assumption::Documented => Assume::Documented,
        Assumption::DriverObserved => Assume::DriverObserved,
    }
}

/// Checks the ledger in a file.
pub(crate) fn check_file(path: &Path, assume: Assume) -> Result<Checked> {
    let file = File::open(path).map_err(|error| file_error::io("check", path, error))?;
    let in_file = |error: trijet::Error| error.context(shown(path).to_string());
    let mut reader = Reader::new(BufReader::new(file)).map_err(in_file)?;
    let about = reader.about().clone();
    let audience = timeline::audience_of(&about);
    let names = Names { audience, ..Names::default() };
    let options = check::CheckOptions::new().assume(assume).names(names);
    let (mut has_kernel, mut has_copy) = (false, false);
    let mut checker = Checker::new(options.clone());
    let mut held: Option<Vec<Op>> = Some(Vec::new());
    let mut counts = EntryCounts::default();
    for op in &mut reader {
        let op = op.map_err(in_file)?;
        checker.push(&op);
        counts.add(&op);
        has_kernel |= op.engine == Engine::Compute;
        has_copy |= matches!(op.engine, Engine::Upload | Engine::Download);
        match &mut held {
            Some(ops) if ops.len() < ENTRIES_MAX => ops.push(op),
            _ => held = None,
        }
    }
    let kernels = match about.times {
        TimeSource::Model => Kernels::OneAtATime,
        _ => Kernels::Several,
    };
    let in_place = audience == Audience::User && has_kernel && !has_copy;
    let whole = held.as_ref().map(|ops| check_with(ops, options));
    let verdict = whole.unwrap_or_else(|| checker.finish());
    let timed = held.filter(|_| about.times != TimeSource::Missing);
    let lints = timed.map(|mut ops| {
        if audience == Audience::User {
            ops.iter_mut().for_each(|op| op.site = None);
        }
        lints(&ops, &Dag::with_times(&ops, kernels, about.times), about.hardware_queues)
    });
    Ok(Checked { about, verdict, counts, lints, in_place })
}

/// The lines about a checked ledger.
pub(crate) fn lines(path: &Path, checked: &Checked) -> Vec<String> {
    let Checked { about, verdict, lints, in_place, .. } = checked;
    let entries = match verdict.ops {
        1 => "1 entry".to_owned(),
        many => format!("{many} entries"),
    };
    let mut lines = vec![format!("{}: {} ({entries})", shown(path), about.program)];
    lines.push(verdict.text(&checked.names()));
    lines.extend(in_place.then(|| IN_PLACE.to_owned()));
    if about.dropped > 0 {
        lines.push(format!("missing entries: {}; this is not the whole run", about.dropped));
    }
    match lints {
        Some(lints) if lints.is_empty() => lines.push("performance: no remarks".to_owned()),
        Some(lints) => {
            let remark = |lint: &Lint| match checked.audience() {
                Audience::User => {
                    format!("  {}: {} (up to {})", lint.rule.name(), lint.text, lint.saved)
                }
                _ => format!("  {lint}"),
            };
            let head = "performance remarks, each with the maximum time that it could save:";
            lines.push(head.to_owned());
            lines.extend(lints.iter().map(remark));
        }
        None if about.times == TimeSource::Missing => {
            lines.push("performance: not checked, because the ledger has no times".to_owned());
        }
        None => lines.push(format!(
            "performance: not checked, and findings have no witnesses, because the ledger has more \
             than {ENTRIES_MAX} entries"
        )),
    }
    lines
}

/// The reason, for the user, why a verdict about a run in place proves nothing about a run on a
/// GPU. The text also names a command that checks the waits as on a GPU.
const IN_PLACE: &str = "the run was in place: it has no copies and no waits for them, so this proves nothing about a run \
     on a GPU; `trijet map --check` copies and waits as on a GPU, and checks the waits";

pub(crate) fn json(path: &Path, checked: &Checked) -> serde_json::Value {
    let Checked { about, verdict, lints, in_place, .. } = checked;
    let lint = |one: &Lint| lint(one, checked.audience());
    let mut value = verdict::json(verdict, &checked.names());
    // The command fills it in for a run with `--against`.
    value["against"] = serde_json::Value::Null;
    value["file"] = path.to_string_lossy().into_owned().into();
    value["program"] = about.program.as_str().into();
    value["entries_missing"] = about.dropped.into();
    value["in_place"] = (*in_place).into();
    value["lints"] = lints.as_ref().map(|lints| lints.iter().map(lint).collect::<Vec<_>>()).into();
    value
}

fn lint(lint: &Lint, audience: Audience) -> serde_json::Value {
    serde_json::json!({
        "rule": lint.rule.name(),
        "saved_ns": lint.saved.0,
        "ops": lint.ops,
        "text": lint.text,
        "fix": (audience == Audience::Author).then(|| lint.rule.fix()),
    })
}
