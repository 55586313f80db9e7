//! `trijet bench` on the host device.

use crate::workdir::{Ran, Workdir};

/// This once moved a gigabyte 840 times, which took more than ten minutes without a line.
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

/// The command of the definition is the command that is tested, and every output has the bytes of the
/// definition.
#[test]
fn the_benchmark_of_files_runs_this_command_and_leaves_no_files() {
    let workdir = Workdir::new();
    let printed = workdir.trijet(&["bench", "files", "--device", "host"]).done();
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
    let printed = Workdir::new().trijet(&["bench", "staging", "--device", "host"]).done();
    assert!(printed.contains("pipeline from a mapped file,ms,"), "{printed}");
}

/// As one of several processes the benchmark sums over a device of each. Rank 0 prints the results and the ranks.
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
