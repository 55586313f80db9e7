//! A page with the findings in a program and the calls around them.
#![forbid(unsafe_code)]

use super::baseline::FindingLevel;
use super::process::{Sorted, whole_text};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use trijet::check::{Assume, Finding};
use trijet::trace::html::{HazardNote, Page};
use trijet::{Error, ErrorKind, Result};
use trijet_calls::{Excerpt, excerpt};
use trijet_io::{NewFile, file_error};

/// Maximum number of findings of a page.
const FINDINGS_MAX: usize = 50;

/// The process that the page is about: the one with the most errors, or else with the most possible
/// conflicts.
pub(super) fn of(processes: &[Sorted]) -> Option<usize> {
    let findings = |one: &Sorted| (one.judged.errors.len(), one.judged.possible.len());
    let numbered = processes.iter().enumerate().filter(|(_, one)| findings(one) > (0, 0));
    // The first of several equal ones.
    numbered.rev().max_by_key(|(_, one)| findings(one)).map(|(number, _)| number)
}

/// Writes the page about the process that [`of`] names, whose calls are in one of `files`.
pub(super) fn write(
    output: &NewFile,
    sorted: &Sorted,
    files: &[PathBuf],
    assume: Assume,
) -> Result<()> {
    let one = &sorted.judged;
    let mut found = None;
    for file in files {
        let bytes = fs::read(file).map_err(|error| file_error::io("check", file, error))?;
        // A file that cannot be read has no process of the verdict.
        found = found.or(excerpt(&bytes, one, assume).ok().flatten());
    }
    let Some(excerpt) = found else {
        let cause = format!("the calls of process {} cannot be read again", one.process);
        return Err(Error::new(ErrorKind::Io, "write the page", cause));
    };
    let note = |finding: &Finding, level| note(&excerpt, finding, whole_text(one, finding, level));
    let errors =
        { one.errors.iter() }.map(|finding| note(finding, FindingLevel::of_error(one, finding)));
    let further = one.possible.iter().map(|one| note(&one.finding, FindingLevel::Possible));
    let times = match excerpt.has_times {
        true => {
            "an operation is drawn at the call that enqueued it; its time on the device is not known"
        }
        false => "the calls in their order, at equal distances; their times were not recorded",
    };
    let provenance = [
        ("process", format!("{}: {}", one.process, one.command)),
        ("times", times.to_owned()),
        ("shown", format!("{} entries of the ledger, around the findings", excerpt.ops.len())),
        ("findings", format!("at most {FINDINGS_MAX}; the text of the check has all")),
    ];
    let page = Page {
        title: format!(
            "{} in {}",
            findings_of(one.errors.len() as u64 + one.more, one.possible.len()),
            one.command
        ),
        hazards: errors.chain(further).flatten().take(FINDINGS_MAX).collect(),
        provenance: provenance.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        ops: excerpt.ops.as_slice().into(),
        calls: Some(excerpt.numbers.clone()),
        ..Page::default()
    };
    let page = page.render();
    output.write(|file| file.write_all(page.as_bytes()))
}

fn findings_of(errors: u64, possible: usize) -> String {
    use trijet::trace::count;
    format!("{}, {}", count(errors, "error"), count(possible as u64, "possible conflict"))
}

fn note(excerpt: &Excerpt, finding: &Finding, text: String) -> Option<HazardNote> {
    let first = finding.first.as_ref().and_then(|party| excerpt.index(party.op));
    Some(HazardNote { text, first, second: excerpt.index(finding.second.op)? })
}
