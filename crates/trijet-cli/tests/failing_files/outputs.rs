//! The files that other commands than `map` write, while file calls fail: a name means a complete
//! file, and nothing else is left.

use crate::files::{dictionary, npy};
use crate::job::{Ended, library};
use crate::{EACCES, EIO, ENOSPC};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use trijet::Nanos;
use trijet::trace::activity::{Allocation, AllocationKind, End, MemoryKind};
use trijet::trace::process_file;

/// The commands, each with those of its files that are equal in each run.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("replay in.csv --device host -o out.html", &[]),
    (
        "overlap in.npy --device host --drop-wait 1 --chunk 4KiB --picture out.png --trace out.html",
        &[],
    ),
    ("trace --read in.trijet -o out.html --memory out.csv", &["out.html", "out.csv"]),
    ("man pages", &["pages/trijet.1", "pages/trijet-map.1"]),
];

/// The trace of a program that allocates once.
pub(crate) fn trace() -> Vec<u8> {
    let mut trace = Vec::new();
    process_file::header(&mut trace, 7, 130_001, Nanos(5));
    let one = Allocation {
        what: AllocationKind::Allocate,
        memory: MemoryKind::Device,
        in_order: true,
        device: 0,
        context: 1,
        stream: 7,
        correlation: 0,
        address: 0x100,
        bytes: 4096,
        at: Nanos(10),
    };
    process_file::allocation(&mut trace, &one);
    process_file::end(&mut trace, &End { at: Nanos(20), ..End::default() });
    trace
}

fn workdir() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> =
        (0..8 * 64 * 64_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let file = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    file("in.npy", &npy(&dictionary("|u1", "False", "(8, 64, 64)"), &pixels));
    file("in.csv", b"Action,Pointer,Size,Stream\nallocate,1,4096,0\nfree,1,,0\n");
    file("in.trijet", &trace());
    folder
}

/// Runs a command with the library in front.
fn run(folder: &TempDir, line: &str, settings: &[(&str, String)]) -> Ended {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trijet"));
    command
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .env("TRIJET_LIBCUDA", "/nonexistent/libcuda.so.1")
        .env("LD_PRELOAD", library())
        .env("FAILING_FILES_ROOT", folder.path().canonicalize().unwrap())
        .env("FAILING_FILES_LOG", log.path())
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Ended::of(&mut command, log.path())
}

/// All files below the folder but the inputs.
fn files(folder: &TempDir) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.insert(format!("{name}/"), Vec::new());
                folders.push(path);
            } else if !name.starts_with("in.") {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_full_disk_leaves_no_file() {
    for (line, _) in COMMANDS {
        let folder = workdir();
        let ended = run(&folder, line, &[("FAILING_FILES_WITHOUT", format!("write={ENOSPC}"))]);
        assert_eq!(ended.code, Some(1), "{line}: {}", ended.error);
        assert!(ended.error.contains("no space left"), "{line}: {}", ended.error);
        assert_eq!(files(&folder), BTreeMap::new(), "{line}");
    }
}

/// An existing file is complete, whichever call failed.
#[test]
fn a_file_call_that_fails_leaves_complete_files_only() {
    for (line, equal) in COMMANDS {
        let folder = workdir();
        let whole = run(&folder, line, &[]);
        assert_eq!(whole.code, Some(0), "{line}: {}", whole.error);
        let right = files(&folder);
        assert!(!right.is_empty() && equal.iter().all(|name| right.contains_key(*name)), "{line}");
        let errors = [EIO, ENOSPC, EACCES].map(|error| format!("error={error}"));
        for (first, fault) in errors.into_iter().chain(["short".to_owned()]).enumerate() {
            for at in (1 + first..=whole.calls.len()).step_by(crate::stride().min(5)) {
                let folder = workdir();
                let settings =
                    [("FAILING_FILES_AT", at.to_string()), ("FAILING_FILES_FAULT", fault.clone())];
                let ended = run(&folder, line, &settings);
                let call = ended.calls.get(at - 1).cloned().unwrap_or_default();
                let case = format!("{line}: {fault} of call {at}, {call}: {}", ended.error);
                let found = files(&folder);
                match ended.code {
                    Some(0) => assert!(found.keys().eq(right.keys()), "{case}"),
                    Some(1) => assert!(found.keys().all(|name| right.contains_key(name)), "{case}"),
                    code => panic!("{code:?}: {case}"),
                }
                assert!(
                    found
                        .values()
                        .zip(found.keys())
                        .all(|(bytes, name)| { name.ends_with('/') || !bytes.is_empty() }),
                    "{case}"
                );
                for name in equal.iter().filter(|name| found.contains_key(**name)) {
                    assert!(found[*name] == right[*name], "{name}: {case}");
                }
            }
        }
    }
}

/// If no rename refuses to replace, a file that appears is kept all the same.
#[test]
fn a_file_that_appears_is_kept() {
    let (line, _) = COMMANDS[0];
    let without = ("FAILING_FILES_WITHOUT", "noreplace=95".to_owned());
    let calls = run(&workdir(), line, std::slice::from_ref(&without)).calls;
    let mut kept = 0;
    for at in 1..=calls.len() {
        let folder = workdir();
        let path = folder.path().canonicalize().unwrap().join("out.html");
        let settings = [
            without.clone(),
            ("FAILING_FILES_AT", at.to_string()),
            ("FAILING_FILES_FAULT", format!("appear={}", path.display())),
        ];
        let ended = run(&folder, line, &settings);
        let is_kept = files(&folder)["out.html"] == b"mine";
        kept += i32::from(is_kept);
        let case = format!("a file appears after call {at}: {}", ended.error);
        assert_eq!((ended.code, files(&folder).len()), (Some(i32::from(is_kept)), 1), "{case}");
    }
    assert!(kept > 3, "only {kept} calls came before the name");
}
