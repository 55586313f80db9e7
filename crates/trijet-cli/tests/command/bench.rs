//! `trijet bench` on the host device.

use crate::workdir::{Ran, Workdir};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use trijet_bench::benchmarks::BENCHMARKS;
use trijet_bench::results::HEADER;

/// This once moved a gigabyte 840 times, which took more than ten minutes without a line of output.
#[test]
fn the_benchmark_of_overlap_fits_a_host_device_and_shows_its_steps() {
    let ran = Workdir::new().trijet(&["bench", "overlap", "--device", "host"]);
    let steps = ran.progress();
    assert!(steps.len() == 8 && steps[0] == "[1/8] measuring the link", "{steps:?}");
    let printed = ran.done();
    for name in ["tuned rounds=0", "role-streams chunk=4MiB slots=3 rounds=0"] {
        assert!(printed.contains(name), "{printed}");
    }
}

/// The command of the definition is the command that is tested, and every output has the bytes of
/// the definition.
#[test]
fn the_benchmark_of_files_runs_this_command_and_leaves_no_files() {
    let workdir = Workdir::new();
    let printed = workdir.trijet(&["bench", "files", "--device", "host", "--csv"]).done();
    let rows = |part: &str| printed.lines().filter(|row| row.contains(part)).count();
    let processes = rows("new output: trijet map, process\",s,");
    assert!(processes > 0, "{printed}");
    assert_eq!(rows("new output: trijet map, run\",s,"), processes, "{printed}");
    // A system may lack a file system in memory.
    assert_eq!(processes + rows("new output\",,,,,,,,not run: "), 3, "{printed}");
    assert_eq!(workdir.names(), [""; 0]);
}

#[test]
fn the_benchmark_of_uploads_fits_a_host_device() {
    let printed = Workdir::new().trijet(&["bench", "staging", "--device", "host", "--csv"]).done();
    assert!(printed.contains("pipeline from a mapped file,ms,"), "{printed}");
}

/// As one of several processes the benchmark sums over a device of each process. Rank 0 prints the
/// results and the ranks.
#[test]
fn the_benchmark_of_sums_is_a_program_of_ranks() {
    let workdir = Workdir::new();
    // An address of this process, so that no other test listens at the same port there.
    let process = std::process::id();
    let host = format!("127.{}.{}.9", process / 250 % 250 + 1, process % 250 + 1);
    let start = |rank: &str| {
        let mut command = workdir.command(&["bench", "allreduce", "--device", "host"]);
        command.env("RANK", rank).env("WORLD_SIZE", "2").env("LOCAL_RANK", rank);
        command.env("MASTER_ADDR", &host).env("MASTER_PORT", "29510");
        command.spawn().unwrap()
    };
    let both = ["0", "1"].map(start);
    let [first, second] = both.map(|child| Ran::from(child.wait_with_output().unwrap()));
    let printed = first.done();
    for row in
        ["host ranks 1 KiB time", "host ranks 1 KiB bus", "2 (torchrun)", "number 1 on its host"]
    {
        assert!(printed.contains(row), "{printed}");
    }
    assert_eq!(second.done(), "");
}

#[test]
fn a_benchmark_with_contradictory_variables_of_a_launcher_is_refused() {
    let workdir = Workdir::new();
    let mut command = workdir.command(&["bench", "allreduce", "--device", "host"]);
    command.env("PMI_RANK", "2").env("PMI_SIZE", "2");
    let refused = Ran::from(command.output().unwrap());
    assert!(refused.err.contains("PMI_RANK is 2 and PMI_SIZE is 2"), "{}", refused.err);
}

#[test]
fn without_a_name_each_benchmark_is_listed_with_what_it_measures() {
    let workdir = Workdir::new();
    let printed = workdir.trijet(&["bench"]).done();
    let list: Vec<&str> = printed.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(list.len(), BENCHMARKS.len());
    for (line, one) in list.iter().zip(BENCHMARKS) {
        let (name, measures) = line.split_once(' ').unwrap();
        assert_eq!((name, measures.trim()), (one.name, one.measures));
        assert!(line.len() <= 112, "{line}");
    }
    workdir.trijet(&["bench", "nonsense"]).refused(2, &["nonsense", "overlap"]);
    workdir.trijet(&["bench", "--csv"]).refused(2, &["<NAME>"]);
    workdir.trijet(&["bench", "gemm", "--csv", "--json"]).refused(2, &["--csv", "--json"]);
}

#[test]
fn the_help_of_a_benchmark_has_its_parameters_and_columns() {
    let workdir = Workdir::new();
    for one in BENCHMARKS {
        for help in ["--help", "-h"] {
            let printed = workdir.trijet(&["bench", one.name, help]).done();
            assert!(
                printed.starts_with(&format!("{}: {}.\n", one.name, one.measures)),
                "{printed}"
            );
            let column = |name: &str| printed.contains(&format!("\n  {name} "));
            assert!(printed.contains(" = ") && column("bound_over_median"), "{printed}");
        }
    }
    let printed = workdir.trijet(&["bench", "--help"]).done();
    assert!(printed.contains("Usage: trijet bench [OPTIONS] [NAME]"), "{printed}");
    assert_eq!(printed, workdir.trijet(&["help", "bench"]).done());
}

/// The document of the benchmark of calls. It makes a million calls, so all tests share one run.
pub(crate) fn calls() -> &'static Ran {
    static CALLS: OnceLock<Ran> = OnceLock::new();
    let call = ["bench", "enqueue", "--device", "host", "--json"];
    CALLS.get_or_init(|| Workdir::new().trijet(&call))
}

/// These once ended with an error of the driver, and with an error about a product with rows of 60
/// bytes.
#[test]
fn benchmarks_of_kernels_and_calls_run_without_a_gpu() {
    let workdir = Workdir::new();
    let printed = calls().clone().json();
    let row = |what: &str| {
        let rows = printed["rows"].as_array().unwrap();
        rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("{printed:#}")).clone()
    };
    assert!(row("launch, tracked, one stream")["median"].is_number(), "{printed:#}");
    assert!(row("bare calls")["note"].as_str().unwrap().starts_with("not run: "), "{printed:#}");
    let printed = workdir.trijet(&["bench", "training", "--device", "host"]).done();
    assert!(printed.contains("\ntraining: not run: "), "{printed}");
    let printed = workdir.trijet(&["bench", "gemm", "--device", "host"]).done();
    assert!(printed.contains(" TFLOP/s ") && printed.contains("40 x 72 x 32"), "{printed}");
}

#[test]
fn results_are_a_table_or_rows_of_csv_or_json() {
    let workdir = Workdir::new();
    let call = ["bench", "gemm", "--device", "host"];
    let printed = workdir.trijet(&call).done();
    let first = "gemm: products of bf16 matrices";
    assert!(printed.starts_with(first) && !printed.contains(HEADER), "{printed}");
    let csv = workdir.trijet(&[&call[..], &["--csv"]].concat()).done();
    assert_eq!(csv.lines().next(), Some(HEADER));
    let json = workdir.trijet(&[&call[..], &["--json"]].concat()).json();
    assert_eq!(json["rows"].as_array().unwrap().len(), csv.lines().count() - 1);
    assert_eq!(printed.lines().count(), csv.lines().count() - 1 + 4, "{printed}");
}

/// The commit that the build script of the benchmarks finds in a build of this profile, if it finds one.
fn commit_found(workdir: &Workdir, profile: &str, more: &[(&str, &str)]) -> Option<String> {
    let mut script = Command::new(workdir.path("script"));
    script.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
    script.env("CARGO_MANIFEST_DIR", workdir.path("clone/bench")).env("PROFILE", profile);
    let printed = Ran::from(script.envs(more.iter().copied()).output().unwrap()).done();
    let found = |line: &str| Some(line.strip_prefix("cargo::rustc-env=TRIJET_COMMIT=")?.to_owned());
    printed.lines().find_map(found)
}

/// The rows of a release build, and its version, once had no commit.
#[test]
fn a_release_build_of_a_clone_knows_its_commit() {
    let workdir = Workdir::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trijet-tools/build.rs");
    std::fs::create_dir_all(workdir.path("clone/bench")).unwrap();
    std::fs::copy(&source, workdir.path("clone/bench/build.rs")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut compiler = Command::new(Path::new(&cargo).with_file_name("rustc"));
    compiler.args(["--edition=2024", "-o"]).arg(workdir.path("script")).arg(source);
    assert!(compiler.status().unwrap().success());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        Ran::from(git.current_dir(workdir.path("clone")).output().unwrap()).done()
    };
    assert_eq!(commit_found(&workdir, "release", &[]), None, "there is no clone");
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=one"]);
    assert_eq!(commit_found(&workdir, "release", &[]), None, "a package within a clone");
    git(&["add", "bench"]);
    git(&["commit", "--quiet", "--message=two"]);
    let commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    assert_eq!(commit_found(&workdir, "release", &[]), Some(commit.clone()));
    assert_eq!(commit_found(&workdir, "debug", &[]), None);
    assert_eq!(commit_found(&workdir, "debug", &[("TRIJET_COMMIT", "x")]), Some("x".into()));
    workdir.file("clone/new.rs", b"");
    assert_eq!(commit_found(&workdir, "release", &[]), Some(format!("{commit}-dirty")));
}
