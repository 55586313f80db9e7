//! The commit that `build.rs` finds.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::path::Path;
use std::process::Command;

/// Runs a command that succeeds, with no variable but PATH, and returns what it prints.
#[track_caller]
fn printed(command: &mut Command, more: &[(&str, &str)]) -> String {
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
    let output = command.envs(more.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commit that the build script finds in a build of this profile, if it finds one.
fn commit_found(folder: &Path, profile: &str, more: &[(&str, &str)]) -> Option<String> {
    let mut script = Command::new(folder.join("script"));
    let clone = folder.join("clone/tools");
    let of_cargo = [("CARGO_MANIFEST_DIR", clone.to_str().unwrap()), ("PROFILE", profile)];
    let printed = printed(&mut script, &[&of_cargo[..], more].concat());
    let found = |line: &str| Some(line.strip_prefix("cargo::rustc-env=TRIJET_COMMIT=")?.to_owned());
    printed.lines().find_map(found)
}

/// The rows of a release build, and its version, once had no commit.
#[test]
fn a_release_build_of_a_clone_knows_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    std::fs::create_dir_all(folder.join("clone/tools")).unwrap();
    std::fs::copy(&source, folder.join("clone/tools/build.rs")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut compiler = Command::new(Path::new(&cargo).with_file_name("rustc"));
    compiler.args(["--edition=2024", "-o"]).arg(folder.join("script")).arg(source);
    assert!(compiler.status().unwrap().success());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        printed(git.current_dir(folder.join("clone")), &[])
    };
    assert_eq!(commit_found(folder, "release", &[]), None, "there is no clone");
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=one"]);
    assert_eq!(commit_found(folder, "release", &[]), None, "a package within a clone");
    git(&["add", "tools"]);
    git(&["commit", "--quiet", "--message=two"]);
    let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(commit_found(folder, "release", &[]), Some(commit.clone()));
    assert_eq!(commit_found(folder, "debug", &[]), None);
    assert_eq!(commit_found(folder, "debug", &[("TRIJET_COMMIT", "x")]), Some("x".into()));
    std::fs::write(folder.join("clone/new.rs"), "").unwrap();
    assert_eq!(commit_found(folder, "release", &[]), Some(format!("{commit}-dirty")));
}
