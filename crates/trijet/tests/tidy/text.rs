//! Rules about plain text.

use crate::source::is_word;
use crate::{File, Finding, demand_none, files, lines};

/// Folders of one machine, which have no meaning on another. Split, so that this file passes.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp", "/h/")];

/// A README longer than this is a manual (style, rule 21 and smell 10).
const README_LINES_MAX: usize = 120;

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, line) in file.text.lines().enumerate() {
        for path in MACHINE_PATHS {
            // In the middle of a longer path, it is not an absolute path.
            let starts = |at: usize| {
                let before = line.as_bytes()[..at].last();
                before.is_none_or(|&b| !is_word(b) && !matches!(b, b'.' | b'-' | b'~'))
            };
            if line.match_indices(path).any(|(at, _)| starts(at)) {
                findings.push(file.finding(n + 1, format!("`{path}` is a path of one machine")));
            }
        }
    }
    findings
}

fn long_readme(file: &File) -> Option<Finding> {
    let count = file.text.lines().count();
    (file.path == "README.md" && count > README_LINES_MAX)
        .then(|| file.finding(README_LINES_MAX + 1, format!("{count} lines: the rest is a manual")))
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let findings: Vec<Finding> = files().iter().flat_map(machine_paths).collect();
    demand_none("no path of one machine", &findings);
}

#[test]
fn the_readme_is_short() {
    let findings: Vec<Finding> = files().iter().filter_map(long_readme).collect();
    demand_none("the README is short", &findings);
}

#[test]
fn a_path_of_one_machine_is_found() {
    let bad = MACHINE_PATHS.iter().map(|path| format!("see `{path}x`\nnet{path}x\n"));
    let bad = File::new("docs/tour.md", &bad.collect::<String>());
    assert_eq!(lines(&machine_paths(&bad)), [1, 3, 5]);
}

#[test]
fn a_long_readme_is_found() {
    let text = |count: usize| "line\n".repeat(count);
    assert!(long_readme(&File::new("README.md", &text(121))).is_some());
    assert!(long_readme(&File::new("README.md", &text(120))).is_none());
    assert!(long_readme(&File::new("docs/manual.md", &text(121))).is_none());
}
