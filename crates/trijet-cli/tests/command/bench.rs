//! `trijet bench` on the host device.

use crate::workdir::Workdir;

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
