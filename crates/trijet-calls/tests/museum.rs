//! The museum of races: programs with a race of a real program, and their cures. Both ran on a GPU,
//! and their calls are in files. docs/museum.md shows the findings.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trijet_calls::{Judged, judge};
use trijet_ledger::check::Assume;

/// Whether a finding is an error. The accesses of kernels are not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    Possible,
}

use Level::{Error, Possible};

/// The name of each piece, the level of its finding, its class, and words of the order that is known.
const PIECES: [(&str, Level, &str, &str); 15] = [
    ("pool_merge", Error, "RACE/WAW", "before any record"),
    ("event_moved", Error, "LIFETIME/FREE-RACES-USE", "and then recorded again"),
    ("free_in_other_stream", Error, "LIFETIME/FREE-RACES-USE", "nothing orders"),
    ("use_not_recorded", Error, "RACE/WAR", "nothing orders"),
    ("legacy_free", Error, "LIFETIME/FREE-RACES-USE", "is non-blocking"),
    ("callback_stream", Possible, "RACE/RAW", "is non-blocking"),
    ("staged_upload", Error, "RACE/RAW", "is non-blocking"),
    ("host_writes_early", Error, "HOST/WAR", "has not waited"),
    ("host_reads_early", Error, "HOST/RAW", "has not waited"),
    ("fork_without_join", Error, "RACE/WAW", "nothing orders"),
    ("waits_once", Error, "RACE/RAW", "nothing orders"),
    ("wrong_stream", Error, "RACE/RAW", "nothing orders"),
    ("next_step", Possible, "RACE/WAW", "nothing orders"),
    ("graph_reads_again", Error, "HOST/WAR", "has waited for `stream 2` only up to"),
    ("snapshot_too_early", Error, "RACE/RAW", "BEFORE"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/museum")
}

fn judged(name: &str, form: &str) -> Judged {
    let bytes = std::fs::read(folder().join(format!("{name}.{form}.calls"))).unwrap();
    let mut all = judge(&bytes, Assume::DriverObserved).unwrap();
    assert_eq!(all.len(), 1, "{name}");
    let one = all.remove(0);
    assert!(one.is_whole(), "{name}: {:?}", one.troubles);
    one
}

#[test]
fn each_race_is_found_with_its_class() {
    for (name, level, class, known) in PIECES {
        let found = judged(name, "race");
        let errors = found.errors.iter();
        let possible = found.possible.iter().map(|one| &one.finding);
        let findings: Vec<_> = match level {
            Error => errors.collect(),
            Possible => possible.clone().collect(),
        };
        assert!(!findings.is_empty(), "{name} has no finding");
        for one in &findings {
            assert_eq!(one.class.code(), class, "{name}: {one:?}");
            assert!(one.known.contains(known), "{name}: {}", one.known);
        }
        let total = found.errors.len() + possible.count();
        assert_eq!(total, findings.len(), "{name} has findings of another level");
    }
}

#[test]
fn no_cure_has_a_finding() {
    for (name, ..) in PIECES {
        let found = judged(name, "cured");
        assert!(found.errors.is_empty(), "{name}: {:?}", found.errors[0]);
        assert!(found.possible.is_empty(), "{name}: {:?}", found.possible[0]);
    }
}

/// Each program has a row and a picture, and the row has the class that the checker gives.
#[test]
fn the_page_of_the_museum_has_each_piece() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = std::fs::read_to_string(docs.join("museum.md")).unwrap();
    let pieces: BTreeSet<_> = PIECES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let of_files = |folder: &Path, extension: &str| -> BTreeSet<String> {
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|one| one == extension));
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of_files(&folder(), "cu"), pieces);
    assert_eq!(of_files(&docs.join("museum"), "png"), pieces);
    for (name, level, class, _) in PIECES {
        let level = if level == Error { "error" } else { "possible" };
        let row = page.lines().find(|line| line.contains(&format!("[{name}]")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        assert!(row.contains(&format!("| {level} | `{class}` |")), "{name}: {row}");
        assert!(page.contains(&format!("](museum/{name}.png)")), "{name} has no picture");
    }
}
