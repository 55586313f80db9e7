//! Every example, as a user runs it, on the host device.
//!
//! `cargo test` builds the examples before it runs this program, and `--test examples` alone does
//! not. A missing example fails. Examples are short, because they are there to be read.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An example has fewer lines than this, its header included.
const LINES_BELOW: usize = 60;
/// An example that is a folder is a whole program. Each of its files has fewer lines than this.
const LINES_OF_A_PART_BELOW: usize = 180;

/// The other folders in the folder of the examples.
const OTHERS: [(&str, &str); 3] = [
    ("README", "the list of the examples"),
    ("common", "what the examples share"),
    ("python", "a library that Python loads on a GPU; the program `gpu` runs it"),
];

/// The files and folders in a folder, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    paths
}

/// The examples, in the order of their names: files, and folders with a `main.rs`.
fn examples() -> Vec<PathBuf> {
    let mut paths = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"));
    paths.retain(|path| path.extension().is_some_and(|e| e == "rs") || is_folder(path));
    paths
}

fn is_folder(example: &Path) -> bool {
    example.join("main.rs").exists()
}

fn name(example: &Path) -> String {
    example.file_stem().expect("an example has a name").to_string_lossy().into_owned()
}

/// The program that cargo built for an example. It is in a folder next to the folder of the tests.
fn command(name: &str, arguments: &[&str]) -> Command {
    let test = std::env::current_exe().expect("this program has a path");
    let built = test.ancestors().nth(2).expect("it lies in `deps`").join("examples");
    let program = built.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn run(name: &str, arguments: &[&str]) -> Output {
    command(name, arguments).output().expect("it can be started")
}

/// The tests below run single files, and folders with a `main.rs`. They would not run anything
/// else.
#[test]
fn every_example_is_found() {
    let all = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"));
    let examples = examples();
    let others = all.iter().filter(|path| !examples.contains(path)).map(|path| name(path));
    assert_eq!(others.collect::<Vec<_>>(), OTHERS.map(|(name, _)| name), "name its reason");
}

/// The list of the examples: each with the first sentence of its documentation.
fn readme() -> String {
    let mut text = "\
# Examples

Each example is a short program whose result is verified. It runs on CPU threads, or on the GPU that its argument names:

```sh
cargo run --release -p trijet --example basic_streams -- cuda:0
```

With `check` as the second argument, the checker runs with the example. For programs that show how much overlap gains,
with times and drawings, see the [lessons](../../../docs/lessons.md).

The folder `python` has programs in PyTorch: one that shares tensors with the library, and the scripts of
[docs/pytorch.md](../../../docs/pytorch.md).

| example | what it shows |
|---|---|
"
    .to_owned();
    for example in examples() {
        let path = if is_folder(&example) { example.join("main.rs") } else { example.clone() };
        let source = std::fs::read_to_string(path).expect("an example can be read");
        let lines = source.lines().take_while(|line| line.starts_with("//! "));
        let header: Vec<&str> = lines.map(|line| &line[4..]).collect();
        let header = header.join(" ");
        let first = header.split_once(". ").map_or(header.as_str(), |(first, _)| first);
        let (name, first) = (name(&example), first.trim_end_matches('.'));
        text += &format!("| `{name}` | {first} |\n");
    }
    text
}

#[test]
fn the_list_of_the_examples_has_each_with_its_first_sentence() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/README.md");
    if std::env::var("TRIJET_EXAMPLES").is_ok_and(|wanted| wanted == "write") {
        std::fs::write(&path, readme()).expect("the list can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the list is there");
    assert!(kept == readme(), "the list differs: run this test with TRIJET_EXAMPLES=write");
}

#[test]
fn every_example_passes_on_the_host_device() {
    let examples = examples();
    assert!(examples.len() >= 7, "{examples:?}");
    for name in examples.iter().map(|example| name(example)) {
        for arguments in [&[][..], &["host"]] {
            let output = run(&name, arguments);
            let said = String::from_utf8(output.stdout).unwrap();
            let failed = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(0), "{name}: {said}{failed}");
            assert!(said.starts_with(&format!("PASS {name}: ")), "{name}: {said}");
            assert_eq!(said.lines().count(), 1, "{name}: {said}");
            assert_eq!(failed, "", "{name}");
        }
    }
}

/// The examples show how programs are written, so the checker must have nothing to report.
#[test]
fn every_example_runs_under_the_checker_without_a_finding() {
    for name in examples().iter().map(|example| name(example)) {
        let output = run(&name, &["host", "check"]);
        let printed = String::from_utf8(output.stdout).unwrap();
        let failed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {printed}{failed}");
        let checked = printed.trim_end().split_once(" (checked: ").map(|(_, rest)| rest);
        let accesses = checked.and_then(|rest| rest.strip_suffix(" accesses, no finding)"));
        assert!(accesses.is_some_and(|n| n.parse::<u64>().unwrap() > 0), "{name}: {printed}");
    }
    let output = run("batches", &["host", "chekc"]);
    assert_eq!(output.status.code(), Some(1), "an unknown argument is an error");
}

/// The example runs as two processes with the variables of torchrun.
#[test]
fn the_example_of_ranks_trains_in_two_processes() {
    let process = std::process::id();
    let host = format!("127.{}.{}.8", process / 250 % 250 + 1, process % 250 + 1);
    let start = |rank: &str| {
        let mut command = command("ranks", &["host", "check"]);
        command.env("RANK", rank).env("WORLD_SIZE", "2").env("LOCAL_RANK", rank);
        command.env("MASTER_ADDR", &host).stdout(std::process::Stdio::piped());
        command.spawn().expect("it can be started")
    };
    for (rank, child) in ["0", "1"].map(start).into_iter().enumerate() {
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8(output.stdout).unwrap();
        let passed = format!("PASS ranks: rank {rank} of 2: ");
        assert!(said.starts_with(&passed) && said.contains("no finding"), "{said}");
    }
}

#[test]
fn a_device_that_cannot_be_served_fails() {
    for name in examples().iter().map(|example| name(example)) {
        for device in ["cuda:4095", "cuda:", "gpu"] {
            let output = run(&name, &[device]);
            assert_eq!(output.status.code(), Some(1), "{name} {device}");
            assert_eq!(output.stdout, b"", "{name} {device}");
            let failed = String::from_utf8(output.stderr).unwrap();
            assert!(failed.starts_with(&format!("FAIL {name}: ")), "{name} {device}: {failed}");
        }
    }
}

#[test]
fn every_example_is_short_and_says_what_it_shows() {
    for example in examples() {
        let (parts, below) = if is_folder(&example) {
            (entries(&example), LINES_OF_A_PART_BELOW)
        } else {
            (vec![example], LINES_BELOW)
        };
        for part in parts {
            let text = std::fs::read_to_string(&part).unwrap();
            let lines = text.lines().count();
            assert!(lines < below, "{}: {lines} lines", part.display());
            let is_rust = part.extension().is_some_and(|e| e == "rs");
            let header = if is_rust { "//! " } else { "// " };
            assert!(text.starts_with(header), "{}", part.display());
        }
    }
}
