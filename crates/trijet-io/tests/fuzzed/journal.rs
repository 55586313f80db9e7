//! The body of the fuzz target `journal`: a journal of any bytes.

use crate::workdir;
use std::fs;
use trijet_io::{Array, Dtype, Fingerprint, Input, Journal, Rows, Target, Written};

/// The rows of the input: one byte each.
const ROWS: u64 = 16;

/// The fingerprint of a run, which is the same for every input of this thread.
fn fingerprint() -> Fingerprint {
    let path = workdir::path("in.raw");
    if !path.exists() {
        workdir::file("in.raw", &[7; 16]);
    }
    let array = Array::new(Dtype::U8, vec![ROWS]).expect("a small array");
    let input = Input::open(&path, Some(array.clone())).expect("a sound file");
    let target = Target::new(&workdir::path("out.raw"), array, &input).expect("a new name");
    Fingerprint::new(&input, "copy", &target)
}

/// Asserts that every row is either done or missing, and not both.
fn assert_partition(rows: &Rows) {
    let mut all: Vec<_> = rows.ranges().iter().cloned().chain(rows.missing(ROWS)).collect();
    all.sort_by_key(|range| range.start);
    let end = all.iter().fold(0, |end, range| {
        assert!(end == range.start && range.start < range.end, "{rows:?}");
        range.end
    });
    assert_eq!(end, ROWS, "{rows:?}");
}

/// Resumes a journal of these bytes. If the lowest bit of the first byte is set, they follow the
/// header of the run.
///
/// # Panics
/// If the rows are inconsistent, or differ when the journal is read again, or if an error does not
/// name the file.
pub(crate) fn check(bytes: &[u8]) {
    let fingerprint = fingerprint();
    let path = workdir::path("out.raw.journal");
    // An earlier input may have left another kind of entry than a journal.
    if path.exists() {
        fs::remove_file(&path).expect("the file is ours");
    }
    let mut journal = Journal::lock(&path).expect("no other run has locked it");
    let (first, rest) = bytes.split_first().unwrap_or((&0, bytes));
    journal.begin(&fingerprint).expect("space for a small file");
    let mut content = if first & 1 == 1 { fs::read(&path).expect("readable") } else { Vec::new() };
    content.extend_from_slice(rest);
    // The file is overwritten, not replaced, because the lock belongs to it.
    fs::write(&path, &content).expect("space for a small file");
    let progress = match journal.read(&fingerprint) {
        Ok(Some(progress)) => progress,
        Ok(None) => return assert!(!content.contains(&b'\n'), "there is no complete line"),
        Err(error) => return workdir::refused(&error, &path),
    };
    let rows = progress.done.clone();
    assert_partition(&rows);
    journal.resume(&progress).expect("it can be cut");
    let kept = fs::read(&path).expect("readable");
    assert!(content.starts_with(&kept) && kept.ends_with(b"\n"));
    let again = journal.read(&fingerprint).expect("it was accepted before");
    assert_eq!(again, Some(progress));
    if let Some(missing) = rows.missing(ROWS).first() {
        journal
            .append(&fingerprint, &Written::new(missing.clone(), &[]))
            .expect("space for a line");
        let more = journal.read(&fingerprint).expect("the line is ours").expect("some lines");
        assert!(!more.done.missing(ROWS).contains(missing), "{more:?}");
    }
}
