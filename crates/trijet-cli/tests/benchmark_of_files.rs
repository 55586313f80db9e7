//! The benchmark of files with this command. It is a program of its own, because the benchmark makes
//! its files in the working directory.

use std::path::{Path, PathBuf};
use trijet::{Cancel, Device, Select};
use trijet_bench::Setting;
use trijet_bench::benchmarks::named;
use trijet_tools::progress::Steps;

/// The command of the definition is the command that is tested, and every output has the bytes of
/// the definition.
#[test]
fn the_benchmark_of_files_runs_this_command_and_leaves_no_files() {
    let workdir = tempfile::tempdir().unwrap();
    std::env::set_current_dir(workdir.path()).unwrap();
    let device = Device::open(Select::Host(0)).unwrap();
    let setting = Setting {
        device: &device,
        trijet: PathBuf::from(env!("CARGO_BIN_EXE_trijet")),
        folder: Path::new(env!("CARGO_BIN_EXE_trijet")).with_file_name(""),
        cancel: Cancel::new(),
    };
    let benchmark = named("files").expect("it is a benchmark");
    let results = benchmark.run(&setting, &mut Steps::new(&mut |_| ())).unwrap();
    let printed = results.to_string();
    let rows = |part: &str| printed.lines().filter(|row| row.contains(part)).count();
    let processes = rows("new output: trijet map, process\",s,");
    assert!(processes > 0, "{printed}");
    assert_eq!(rows("new output: trijet map, run\",s,"), processes, "{printed}");
    // A system may lack a file system in memory.
    assert_eq!(processes + rows("new output\",,,,,,,,not run: "), 3, "{printed}");
    assert_eq!(workdir.path().read_dir().unwrap().count(), 0);
}
