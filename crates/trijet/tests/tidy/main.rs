//! Tidy: the rules of the house that no compiler lint carries.
//!
//! A rule is a function from text to findings, so that each rule has two tests: the tree must give
//! no finding, and a small bad sample must give one. Everything is read from the source text; the
//! scanner in `source` knows comments, strings and braces, and nothing else of the language. It
//! reads no network and needs no git.

mod calls;
mod docs;
mod faults;
mod imports;
mod safety;
mod shape;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the library's own modules live, from the root of the repository.
const LIBRARY: &str = "crates/trijet/src/";

/// Directories that hold no source of ours. `bundle` and `target` are build outputs.
const SKIPPED: &[&str] = &[".git", ".venv", "__pycache__", "bundle", "node_modules", "target"];

/// One broken rule at one line. `line` counts from one.
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository; `path` is relative to the root and uses `/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The path below the library's `src/`, for a Rust file that lies there.
    fn in_library(&self) -> Option<&str> {
        self.path.strip_prefix(LIBRARY).filter(|_| self.is_rust())
    }

    /// A file that exists only for tests: an integration test, or a `tests` module of its own.
    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the crate lies two folders below the root").to_owned()
}

/// Every readable text file of the repository, in path order.
fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("the repository is readable");
        for entry in entries {
            let entry = entry.expect("the repository is readable");
            let kind = entry.file_type().expect("the file system knows its own entries");
            let name = entry.file_name();
            if kind.is_dir() {
                if !SKIPPED.iter().any(|skipped| name == *skipped) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && text::is_text_path(&entry.path()) {
                let path = entry.path();
                let below = path.strip_prefix(&root).expect("the walk stays below the root");
                let text = fs::read_to_string(&path).expect("a source file is UTF-8");
                found.push(File { path: below.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.iter().any(|file| file.path == "crates/trijet/src/lib.rs"), "the walk is lost");
    found
}

/// Fails with every finding, one per line, in the form an editor can jump to.
#[track_caller]
fn demand_none(rule: &str, findings: &[Finding]) {
    let list: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    assert!(findings.is_empty(), "{rule}: {} finding(s){list}", findings.len());
}

/// For the bad samples: the lines a rule complains about, in order.
fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}
