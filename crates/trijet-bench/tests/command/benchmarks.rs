//! The benchmarks on the host device.

use crate::built::empty_driver;
use crate::on_terminal::{Shown, WIDTHS, fits, on_terminal};
use crate::ran::{Ran, quiet};
use crate::tables::{Reader, is_of_benchmarks};
use crate::workdir::Workdir;
use std::fs::File;
use std::sync::OnceLock;
use trijet_bench::benchmarks::BENCHMARKS;
use trijet_bench::results::HEADER;

/// This once moved a gigabyte 840 times, which took more than ten minutes without a line of output.
#[test]
fn the_benchmark_of_overlap_fits_a_host_device_and_shows_its_steps() {
    let ran = Workdir::new().bench(&["overlap", "--device", "host"]);
    let steps = ran.progress();
    assert!(steps.len() == 8 && steps[0] == "[1/8] measuring the link", "{steps:?}");
    let printed = ran.done();
    for name in ["tuned rounds=0", "role-streams chunk=4MiB slots=3 rounds=0"] {
        assert!(printed.contains(name), "{printed}");
    }
}

#[test]
fn the_benchmark_of_uploads_fits_a_host_device() {
    let printed = Workdir::new().bench(&["staging", "--device", "host", "--csv"]).done();
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
        let mut command = workdir.command(&["allreduce", "--device", "host"]);
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
    let mut command = workdir.command(&["allreduce", "--device", "host"]);
    command.env("PMI_RANK", "2").env("PMI_SIZE", "2");
    let refused = Ran::from(command.output().unwrap());
    assert!(refused.err.contains("PMI_RANK is 2 and PMI_SIZE is 2"), "{}", refused.err);
}

#[test]
fn without_a_name_each_benchmark_is_listed_with_what_it_measures() {
    let workdir = Workdir::new();
    let printed = workdir.bench(&[]).done();
    let list: Vec<&str> = printed.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(list.len(), BENCHMARKS.len());
    for (line, one) in list.iter().zip(BENCHMARKS) {
        let (name, measures) = line.split_once(' ').unwrap();
        assert_eq!((name, measures.trim()), (one.name, one.measures));
        assert!(line.len() <= 112, "{line}");
    }
    workdir.bench(&["nonsense"]).refused(2, &["nonsense", "overlap"]);
    workdir.bench(&["--csv"]).refused(2, &["<NAME>"]);
    workdir.bench(&["gemm", "--csv", "--json"]).refused(2, &["--csv", "--json"]);
}

#[test]
fn the_help_of_a_benchmark_has_its_parameters_and_columns() {
    let workdir = Workdir::new();
    for one in BENCHMARKS {
        for help in ["--help", "-h"] {
            let printed = workdir.bench(&[one.name, help]).done();
            assert!(
                printed.starts_with(&format!("{}: {}.\n", one.name, one.measures)),
                "{printed}"
            );
            let column = |name: &str| printed.contains(&format!("\n  {name} "));
            assert!(printed.contains(" = ") && column("bound_over_median"), "{printed}");
        }
    }
    let printed = workdir.bench(&["--help"]).done();
    assert!(printed.contains("Usage: trijet-bench [OPTIONS] [NAME]"), "{printed}");
    assert_eq!(printed, workdir.bench(&["-h"]).done());
}

/// The document of the benchmark of calls. It makes a million calls, so all tests share one run.
fn calls() -> &'static Ran {
    static CALLS: OnceLock<Ran> = OnceLock::new();
    let call = ["enqueue", "--device", "host", "--json"];
    CALLS.get_or_init(|| Workdir::new().bench(&call))
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
    let printed = workdir.bench(&["training", "--device", "host"]).done();
    assert!(printed.contains("\ntraining: not run: "), "{printed}");
    let printed = workdir.bench(&["gemm", "--device", "host"]).done();
    assert!(printed.contains(" TFLOP/s ") && printed.contains("40 x 72 x 32"), "{printed}");
}

#[test]
fn results_are_a_table_or_rows_of_csv_or_json() {
    let workdir = Workdir::new();
    let call = ["gemm", "--device", "host"];
    let printed = workdir.bench(&call).done();
    let first = "gemm: products of bf16 matrices";
    assert!(printed.starts_with(first) && !printed.contains(HEADER), "{printed}");
    let csv = workdir.bench(&[&call[..], &["--csv"]].concat()).done();
    assert_eq!(csv.lines().next(), Some(HEADER));
    let json = workdir.bench(&[&call[..], &["--json"]].concat()).json();
    assert_eq!(json["rows"].as_array().unwrap().len(), csv.lines().count() - 1);
    assert_eq!(printed.lines().count(), csv.lines().count() - 1 + 4, "{printed}");
}

/// The list, the help, the help of a benchmark, and an error.
#[test]
fn what_is_printed_fits_into_a_terminal() {
    let workdir = Workdir::new();
    for (args, shown) in [
        (&[][..], Shown::Both),
        (&["--help"], Shown::Out),
        (&["overlap", "--help"], Shown::Out),
        (&["pitfalls", "--help"], Shown::Out),
        (&["no-such-benchmark"], Shown::Err),
    ] {
        for columns in WIDTHS {
            fits(columns, &on_terminal(workdir.command(args), columns, shown));
        }
    }
}

#[test]
fn every_example_of_the_help_runs() {
    let workdir = Workdir::new();
    let help = workdir.bench(&["--help"]).done();
    let examples: Vec<&str> =
        help.lines().filter_map(|line| line.trim().strip_prefix("trijet-bench")).collect();
    assert_eq!(examples.len(), 4, "{help}");
    for example in examples {
        let call = example.split(" > ").next().unwrap_or_default();
        workdir.bench(&call.split_whitespace().collect::<Vec<_>>()).done();
    }
}

#[test]
fn a_benchmark_that_uses_no_device_of_ours_refuses_the_checker() {
    for name in ["virtual", "check", "files"] {
        let call = [name, "--device", "host", "--check"];
        Workdir::new().bench(&call).refused(2, &[name, "leave out `--check`"]);
    }
}

/// On a driver of empty functions, which the measurement of the host time of calls uses.
#[test]
fn the_benchmark_of_calls_has_no_finding() {
    let workdir = Workdir::new();
    let mut command = workdir.command(&["enqueue", "--device", "cuda:0", "--check"]);
    command.env("TRIJET_LIBCUDA", empty_driver());
    let printed = Ran::from(command.output().unwrap()).done();
    let verdict = printed.lines().last().unwrap();
    assert!(verdict.starts_with("check: for the calls this run made"), "{verdict}");
    assert!(verdict.contains("every conflict is ordered by a documented CUDA edge"), "{verdict}");
}

#[test]
fn a_missing_gpu_is_an_error_and_not_replaced_by_the_host() {
    for device in ["cuda:0", "cuda:999"] {
        let refused = Workdir::new().bench(&["enqueue", "--device", device]);
        refused.refused(1, &["libcuda.so.1"]);
    }
}

/// The command is built alone, and lies in a folder without `trijet`.
#[test]
fn without_the_command_that_it_measures_a_benchmark_is_not_run() {
    let workdir = Workdir::new();
    let alone = workdir.path("trijet-bench");
    std::fs::hard_link(env!("CARGO_BIN_EXE_trijet-bench"), &alone).unwrap();
    let mut command = quiet(&alone, &["files", "--device", "host"], &workdir.path("."));
    let printed = Ran::from(command.env("PATH", workdir.path(".")).output().unwrap()).done();
    assert!(printed.contains("\nfiles: not run: `trijet` cannot be started"), "{printed}");
    assert!(printed.contains("`cargo build --release -p trijet-cli` builds it"), "{printed}");
}

/// The results of a benchmark name its own commit.
#[test]
fn a_command_of_another_version_is_not_measured() {
    let workdir = Workdir::new();
    let alone = workdir.path("trijet-bench");
    std::fs::hard_link(env!("CARGO_BIN_EXE_trijet-bench"), &alone).unwrap();
    std::os::unix::fs::symlink("/bin/echo", workdir.path("trijet")).unwrap();
    let command = &mut quiet(&alone, &["files", "--device", "host"], &workdir.path("."));
    let printed = Ran::from(command.output().unwrap()).done();
    assert!(printed.contains("\nfiles: not run: the command is `"), "{printed}");
    assert!(printed.contains(concat!("not `trijet ", env!("CARGO_PKG_VERSION"))), "{printed}");
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::from(Workdir::new().command(&["-h"]).stdout(full).output().unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("No space left on device"), "{}", ran.err);
}

/// The list, and documents of results with figures and notes, with and without a verdict.
#[test]
fn documents_of_json_have_the_fields_of_their_tables() {
    let workdir = Workdir::new();
    let mut reader = Reader::new();
    reader.document("bench", &workdir.bench(&["--json"]));
    reader.document("bench NAME", calls());
    for name in ["gemm", "training"] {
        let call = [name, "--device", "host", "--json"];
        reader.document("bench NAME", &workdir.bench(&call));
    }
    let call = ["gemm", "--device", "host", "--json", "--check"];
    reader.document("bench NAME", &workdir.bench(&call));
    reader.demand_all(is_of_benchmarks);
}
