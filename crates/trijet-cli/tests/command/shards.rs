//! A job of several processes: each writes its rows, and the output is the same as from one
//! process.

use crate::workdir::{Ran, Workdir, noise};

const CALL: [&str; 6] = ["in.npy", "-o", "out.npy", "--op", "median:2", "--chunk=4096"];

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[6, 40, 32], &noise(6 * 40 * 32 * 2, 21));
    workdir
}

/// The standard output of a run, which must succeed. Its rank may be on standard error.
#[track_caller]
fn printed(ran: Ran) -> String {
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    ran.out
}

/// The output of one process.
fn alone() -> Vec<u8> {
    let workdir = workdir();
    workdir.map(&CALL).done();
    workdir.read("out.npy")
}

#[test]
fn shards_give_the_output_of_one_process() {
    let workdir = workdir();
    for shard in ["0/3", "2/3", "1/3"] {
        assert!(!workdir.exists("out.npy"), "before {shard}");
        let printed = printed(workdir.map(&[&CALL[..], &["--shard", shard]].concat()));
        let is_last = shard == "1/3";
        assert_eq!(printed.contains("when all processes have finished"), !is_last, "{printed}");
    }
    assert_eq!(workdir.read("out.npy"), alone());
    assert!(!workdir.exists("out.npy.partial"));
}

/// The call that a launcher makes.
fn launched(workdir: &Workdir, variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let mut command = workdir.command(&[&["map"], &CALL[..], &["--device=host"], more].concat());
    for (name, value) in variables {
        command.env(name, value);
    }
    Ran::from(command.output().unwrap())
}

#[test]
fn a_launcher_says_the_shard() {
    let workdir = workdir();
    for rank in ["1", "0"] {
        let variables = [("RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_RANK", rank)];
        let ran = launched(&workdir, &variables, &[]);
        assert!(ran.err.contains(&format!("rank {rank} of 2 (torchrun): rows")), "{}", ran.err);
        printed(ran);
    }
    assert_eq!(workdir.read("out.npy"), alone());
    // A process that is started again finds the output complete.
    let variables = [("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")];
    let again = launched(&workdir, &variables, &["--resume"]);
    assert!(printed(again).contains("an earlier run of this job has finished it"));
    let refused = launched(&workdir, &[("PMI_RANK", "2"), ("PMI_SIZE", "2")], &[]);
    assert!(refused.err.contains("PMI_RANK is 2 and PMI_SIZE is 2"), "{}", refused.err);
}

#[test]
fn the_shard_is_in_the_json() {
    let workdir = workdir();
    let ran = workdir.map(&[&CALL[..], &["--shard", "1/2", "--json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&printed(ran)).unwrap();
    assert_eq!(report["shard"]["rows"], serde_json::json!([120, 240]));
    assert_eq!((&report["complete"], &report["rows"]), (&false.into(), &120.into()));
}

#[test]
fn a_shard_that_does_not_exist_is_wrong_usage() {
    let workdir = workdir();
    let ran = workdir.map(&[&CALL[..], &["--shard", "2/2"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("0/2 to 1/2"), "{}", ran.err);
}

/// Without a GPU, all devices are the host device.
#[test]
fn all_devices_are_the_host_device_where_there_is_no_gpu() {
    let workdir = workdir();
    let mut command = workdir.command(&[&["map"], &CALL[..], &["--device=all"]].concat());
    command.env("TRIJET_LIBCUDA", "/nonexistent");
    let ran = Ran::from(command.output().unwrap());
    assert!(ran.err.starts_with("--device all: no GPU was found"), "{}", ran.err);
    printed(ran);
    assert_eq!(workdir.read("out.npy"), alone());
}

/// A shell of `srun --pty` has the variables of a rank, and so has a child of a rank.
#[test]
fn a_report_of_a_part_names_the_variables_that_made_it_one() {
    let workdir = workdir();
    let variables = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
    let part = printed(launched(&workdir, &variables, &[]));
    for words in ["SLURM_PROCID and SLURM_STEP_NUM_TASKS are set (Slurm)", "--shard 0/1"] {
        assert!(part.contains(words), "{part}");
    }
    assert!(!workdir.exists("out.npy"));
    let named = printed(workdir.map(&[&CALL[..], &["--shard=0/4", "--resume"]].concat()));
    assert!(!named.contains("--shard 0/1"), "{named}");
}

#[test]
fn a_shell_with_the_variables_of_a_rank_does_the_whole_with_one_shard() {
    let workdir = workdir();
    let variables = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4")];
    let whole = printed(launched(&workdir, &variables, &["--shard=0/1"]));
    assert!(!whole.contains("a part of the job"), "{whole}");
    assert_eq!(workdir.read("out.npy"), alone());
}
