//! A journal of any bytes: the body of the fuzz target `journal`.

use crate::desk;
use std::fs;
use trijet_cli::format::{self, Array, Dtype};
use trijet_cli::journal::{Fingerprint, Journal, Rows};
use trijet_cli::output::Target;

/// The length of the file below.
const ROWS: u64 = 16;

/// A run over a file of `ROWS` bytes, which is the same run in every check of this thread.
fn fingerprint() -> Fingerprint {
    let path = desk::path("in.raw");
    if !path.exists() {
        desk::file("in.raw", &[7; 16]);
    }
    let array = Array::new(Dtype::U8, vec![ROWS]).expect("a small array");
    let input = format::open(&path, Some(array.clone())).expect("a sound file");
    let target = Target::new(&desk::path("out.raw"), array, &input).expect("a new name");
    Fingerprint::new(&input, "copy", &target)
}

/// Every row is either done or missing, once.
fn whole(rows: &Rows) {
    let mut all: Vec<_> = rows.ranges().iter().cloned().chain(rows.missing(ROWS)).collect();
    all.sort_by_key(|range| range.start);
    let end = all.iter().fold(0, |end, range| {
        assert!(end == range.start && range.start < range.end, "{rows:?}");
        range.end
    });
    assert_eq!(end, ROWS, "{rows:?}");
}

/// The lowest bit of the first byte says whether the rest follows the header of this very run.
///
/// # Panics
/// When a journal is continued that does not say what it did, or that says something else when
/// it is read again; when an error does not name the file.
pub(crate) fn check(bytes: &[u8]) {
    let fingerprint = fingerprint();
    let path = desk::path("out.raw.journal");
    let mut journal = Journal::lock(&path).expect("nobody else holds it");
    let (first, rest) = bytes.split_first().unwrap_or((&0, bytes));
    journal.create(&fingerprint).expect("space for a small file");
    let mut content = if first & 1 == 1 { fs::read(&path).expect("readable") } else { Vec::new() };
    content.extend_from_slice(rest);
    // Written through, because the lock belongs to the file that is there.
    fs::write(&path, &content).expect("space for a small file");
    let rows = match journal.resume(&fingerprint) {
        Ok(Some(rows)) => rows,
        Ok(None) => return assert!(!content.contains(&b'\n'), "a whole line counts"),
        Err(error) => return desk::refused(&error, &path),
    };
    whole(&rows);
    let kept = fs::read(&path).expect("readable");
    assert!(content.starts_with(&kept) && kept.ends_with(b"\n"));
    let again = journal.resume(&fingerprint).expect("it was taken before");
    assert_eq!(again.as_ref(), Some(&rows));
    if let Some(missing) = rows.missing(ROWS).first() {
        journal.append(missing).expect("space for a line");
        let more = journal.resume(&fingerprint).expect("a line of ours").expect("some lines");
        assert!(!more.missing(ROWS).contains(missing), "{more:?}");
    }
}
