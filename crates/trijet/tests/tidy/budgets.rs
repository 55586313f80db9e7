//! Budgets: a folder stays small enough that a reader can know all of it.
//!
//! The files of a folder are its direct children. A folder that needs more is in the table
//! [`EXCEPTIONS`], with its own limits and a sentence that explains them. A commit that makes such a
//! folder grow beyond its limits changes the sentence too.

use std::collections::BTreeMap;

use crate::{File, Finding, demand_none, files};

/// The limit for the Rust files of a folder.
const FILES_MAX: usize = 30;
/// The limit for the lines of the Rust files of a folder.
const LINES_MAX: usize = 5000;

/// A folder with limits of its own.
struct WideFolder {
    path: &'static str,
    files_max: usize,
    lines_max: usize,
    /// The sentence that explains the limits.
    reason: &'static str,
}

const EXCEPTIONS: &[WideFolder] = &[
    WideFolder {
        path: "crates/trijet-bench/src",
        files_max: 36,
        lines_max: 8000,
        reason: "Each benchmark is a file, and no benchmark knows another one.",
    },
    WideFolder {
        path: "crates/trijet-cli/tests/command",
        files_max: 40,
        lines_max: 8000,
        reason: "Each verb of the command and each kind of document has a file of tests, in one program.",
    },
    WideFolder {
        path: "crates/trijet/tests/oracle",
        files_max: 22,
        lines_max: 6800,
        reason: "A judge that shares nothing with the library states all of its laws a second time.",
    },
];

/// The Rust files of a folder, and their lines.
#[derive(Debug, Default, Clone, Copy)]
struct Contents {
    files: usize,
    lines: usize,
}

fn contents(files: &[File]) -> BTreeMap<&str, Contents> {
    let mut folders: BTreeMap<&str, Contents> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some((folder, _)) = file.path.rsplit_once('/') else { continue };
        let contents = folders.entry(folder).or_default();
        contents.files += 1;
        contents.lines += file.text.lines().count();
    }
    folders
}

fn over_budget(files: &[File], exceptions: &[WideFolder]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut complain = |folder: &str, message: String| {
        findings.push(Finding { path: folder.to_owned(), line: 1, message });
    };
    let folders = contents(files);
    for (folder, Contents { files, lines }) in &folders {
        let own = exceptions.iter().find(|exception| exception.path == *folder);
        let (files_max, lines_max) =
            own.map_or((FILES_MAX, LINES_MAX), |own| (own.files_max, own.lines_max));
        if *files > files_max {
            complain(folder, format!("{files} files, and {files_max} are the limit"));
        }
        if *lines > lines_max {
            complain(folder, format!("{lines} lines, and {lines_max} are the limit"));
        }
    }
    for WideFolder { path, reason, .. } in exceptions {
        let needs = |Contents { files, lines }| files > FILES_MAX || lines > LINES_MAX;
        if !folders.get(path).copied().is_some_and(needs) {
            complain(path, "needs no exception: remove its line".to_owned());
        }
        if !(reason.contains(' ') && reason.ends_with('.')) {
            complain(path, "has no sentence that explains its limits".to_owned());
        }
    }
    findings
}

#[test]
fn every_folder_keeps_its_budget() {
    demand_none("folders stay small", &over_budget(&files(), EXCEPTIONS));
}

#[test]
fn a_folder_with_too_many_files_or_lines_is_found() {
    let mut sample: Vec<File> =
        (0..=FILES_MAX).map(|n| File::new(&format!("a/src/many/{n}.rs"), "")).collect();
    sample.push(File::new("a/src/long/one.rs", &"\n".repeat(LINES_MAX)));
    sample.push(File::new("a/src/long/two.rs", "\n"));
    // Other kinds of files do not count, and neither do the files of folders inside.
    sample.push(File::new("a/src/many/kernel.cu", "\n"));
    sample.push(File::new("a/src/few/one.rs", &"\n".repeat(LINES_MAX)));
    sample.push(File::new("a/src/few/inside/two.rs", "\n"));
    let found = over_budget(&sample, &[]);
    let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["a/src/long", "a/src/many"]);
    assert!(found[0].message.starts_with("5001 lines"), "{}", found[0].message);
}

#[test]
fn an_exception_has_limits_and_a_sentence_and_is_needed() {
    let wide = |lines_max, reason| WideFolder { path: "a/src", files_max: 1, lines_max, reason };
    let sample = [File::new("a/src/lib.rs", &"\n".repeat(LINES_MAX + 1))];
    let found = |exception| over_budget(&sample, &[exception]).len();
    assert_eq!(found(wide(LINES_MAX + 1, "It has one reason.")), 0);
    assert_eq!(found(wide(LINES_MAX, "It has one reason.")), 1);
    assert_eq!(found(wide(LINES_MAX + 1, "")), 1);
    let small = [File::new("a/src/lib.rs", "\n")];
    assert_eq!(over_budget(&small, &[wide(LINES_MAX + 1, "It has one reason.")]).len(), 1);
    assert_eq!(over_budget(&[], &[wide(LINES_MAX + 1, "It has one reason.")]).len(), 1);
}
