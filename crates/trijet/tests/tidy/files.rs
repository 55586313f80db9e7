//! The files of the repository, and findings about them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the library's modules, from the root of the repository.
pub(crate) const LIBRARY: &str = "crates/trijet/src/";

/// The folder of the lowest floors, which are a crate of their own.
const LEDGER: &str = "crates/trijet-ledger/src/";

/// Directories without sources. `bundle` and `target` are build outputs.
const SKIPPED: &[&str] = &[".git", ".venv", "__pycache__", "bundle", "node_modules", "target"];

/// Kinds of file that the walk reads.
const TEXT: &[&str] =
    &["rs", "md", "toml", "txt", "csv", "sh", "c", "h", "cu", "cuh", "ptx", "py", "yml", "yaml"];

/// One broken rule at one line. `line` counts from one.
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository; `path` is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The path below the `src/` of the library or of its lowest floors, for a Rust file there.
    pub(crate) fn in_library(&self) -> Option<&str> {
        let below = self.path.strip_prefix(LIBRARY).or_else(|| self.path.strip_prefix(LEDGER));
        below.filter(|_| self.is_rust())
    }

    /// A file that exists only for tests: an integration test, or a separate `tests` module.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
    }

    pub(crate) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

/// Text by its extension; scripts without one live in `.ci`.
fn is_text_path(path: &Path) -> bool {
    let in_ci = path.parent().and_then(Path::file_name).is_some_and(|name| name == ".ci");
    let known = path.extension().and_then(|kind| kind.to_str()).is_some_and(|k| TEXT.contains(&k));
    known || (in_ci && path.extension().is_none())
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the crate lies two folders below the root").to_owned()
}

/// Every readable text file of the repository, in path order.
pub(crate) fn files() -> Vec<File> {
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
            } else if kind.is_file() && is_text_path(&entry.path()) {
                let path = entry.path();
                let below = path.strip_prefix(&root).expect("the walk stays below the root");
                let text = fs::read_to_string(&path).expect("a source file is UTF-8");
                found.push(File { path: below.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        found.iter().any(|file| file.path == "crates/trijet/src/lib.rs"),
        "the walk finds the library"
    );
    found
}

/// Fails with every finding, one per line, in a form that an editor can jump to.
#[track_caller]
pub(crate) fn demand_none(rule: &str, findings: &[Finding]) {
    let list: String = findings.iter().map(|finding| format!("\n  {finding}")).collect();
    assert!(findings.is_empty(), "{rule}: {} finding(s){list}", findings.len());
}

/// The lines of the findings, in order, for tests of bad samples.
pub(crate) fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn the_walk_reads_sources_and_scripts() {
    for path in ["a/b.rs", "README.md", "Cargo.toml", ".ci/run", "k/axpy.ptx"] {
        assert!(is_text_path(Path::new(path)), "{path}");
    }
    for path in ["a.npy", "LICENSE-MIT", "Cargo.lock"] {
        assert!(!is_text_path(Path::new(path)), "{path}");
    }
}
