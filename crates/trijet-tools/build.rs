//! Finds the commit that the program is built from: the variable TRIJET_COMMIT if it is set.
//! Otherwise, in release builds, it is the commit of git, with `-dirty` if the tree has changed or
//! new files. Other builds have none, so that a new commit does not compile them again.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TRIJET_COMMIT");
    if let Some(commit) = env::var("TRIJET_COMMIT").ok().or_else(of_git) {
        println!("cargo::rustc-env=TRIJET_COMMIT={commit}");
    }
}

/// The commit of a release build in a clone of the repository. A package has none, even inside a
/// clone.
fn of_git() -> Option<String> {
    let folder = env::var("CARGO_MANIFEST_DIR").ok()?;
    if env::var("PROFILE").ok()? != "release" {
        return None;
    }
    git(&folder, &["ls-files", "--error-unmatch", "build.rs"])?;
    let log = git(&folder, &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    println!("cargo::rerun-if-changed={}", Path::new(&folder).parent()?.display());
    let commit = git(&folder, &["rev-parse", "HEAD"])?;
    let mark = if git(&folder, &["status", "--porcelain"])?.is_empty() { "" } else { "-dirty" };
    Some(format!("{commit}{mark}"))
}

/// Returns the output of git, or `None` if it fails.
fn git(folder: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
