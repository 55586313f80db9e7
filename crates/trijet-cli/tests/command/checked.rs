//! Every command that does device work runs under the checker without a finding.

use crate::doctor;
use crate::workdir::{Images, Workdir, bytes_of, noise, numbers_of};
use serde_json::Value;

/// Commands whose device work is checked by the tests of this file.
const CHECKED: [&str; 4] = ["map", "overlap", "doctor", "replay"];

/// Commands that use no device of their own.
const WITHOUT_A_DEVICE: [&str; 10] = [
    "devices",
    "trace",
    "what-if",
    "check",
    "status",
    "explain",
    "sample",
    "completions",
    "man",
    "help",
];
/// A command whose programs race on purpose. It checks each of them itself.
const RACES: [&str; 1] = ["lesson"];

/// Commands that are programs of their own, with tests of their own.
const PROGRAMS: [&str; 1] = ["bench"];

/// Asserts that the checker reports nothing, not even a warning.
#[track_caller]
fn clean(report: &Value) {
    let check = &report["check"];
    assert_eq!(check["findings"], serde_json::json!([]), "{check:#}");
    assert_eq!((&check["clean"], &check["more_findings"]), (&true.into(), &0.into()), "{check:#}");
}

/// Asserts that the checker has seen accesses and reports nothing, not even a warning.
#[track_caller]
fn without_finding(report: &Value) {
    clean(report);
    let check = &report["check"];
    assert!(check["accesses"].as_u64() > Some(10), "{check:#}");
}

/// The commands that `trijet --help` lists, in its order.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect()
}

/// A new command fails this test until it has the option and a test, or is known to need neither.
#[test]
fn every_command_that_uses_a_device_has_the_option() {
    let workdir = Workdir::new();
    let help = workdir.trijet(&["--help"]).done();
    let mut known = [&CHECKED[..], &WITHOUT_A_DEVICE, &PROGRAMS, &RACES].concat();
    let mut listed = commands(&help);
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known, "{help}");
    for command in CHECKED {
        assert!(workdir.trijet(&[command, "--help"]).done().contains(" --check"), "{command}");
    }
    for command in WITHOUT_A_DEVICE.into_iter().filter(|command| *command != "help") {
        let help = workdir.trijet(&[command, "--help"]).done();
        assert!(!help.contains(" --check"), "{command} has the option and no test here");
        assert!(!help.contains(" --device"), "{command} uses a device");
    }
}

/// A working directory with inputs of every format and type, and the arguments that read each.
fn inputs() -> (Workdir, Vec<(&'static str, Vec<&'static str>)>) {
    let workdir = Workdir::new();
    let bytes = noise(3 * 20 * 16 * 4, 1);
    let (narrow, wide) = (&bytes[..3 * 20 * 16], &bytes[..3 * 20 * 16 * 2]);
    workdir.npy("u8.npy", "|u1", &[3, 20, 16], narrow);
    workdir.npy("u16.npy", "<u2", &[3, 20, 16], wide);
    workdir.file("u16.raw", wide);
    workdir.images("u8", [16, 20], &Images::U8(narrow));
    workdir.images("u16", [16, 20], &Images::U16(&numbers_of(wide)));
    let raw = vec!["u16.raw", "--shape", "3x20x16", "--dtype", "u16"];
    let plain = ["u8.npy", "u16.npy", "u8", "u16"].map(|name| (name, vec![name]));
    (workdir, plain.into_iter().chain([("u16.raw", raw)]).collect())
}

#[test]
fn map_has_no_finding_for_any_operation_and_format() {
    let (workdir, inputs) = inputs();
    let operations = [
        ["--op", "median", "--radius", "2"],
        ["--op", "affine", "--scale", "0.5"],
        ["--op", "median:3", "--op", "median:1"],
        ["--op", "affine:2,-1", "--op", "median:2"],
    ];
    for (input, arguments) in &inputs {
        for operation in &operations {
            for output in ["npy", "raw", "images"] {
                let name = operation.concat().replace(['-', ':', ',', '.'], "");
                let name = match output {
                    "images" => format!("{}-{name}", input.replace('.', "-")),
                    kind => format!("{input}-{name}.{kind}"),
                };
                let sizes = ["--chunk=320", "--depth=2", "--check", "--json"];
                let call = [&arguments[..], operation, &["-o", &name], &sizes].concat();
                without_finding(&workdir.map(&call).json());
            }
        }
    }
}

#[test]
fn map_over_floats_and_without_elements_has_no_finding() {
    let workdir = Workdir::new();
    let floats: Vec<u8> = (0..400_u16).flat_map(|n| f32::from(n).to_le_bytes()).collect();
    workdir.npy("f32.npy", "<f4", &[400], &floats);
    workdir.npy("empty.npy", "<u2", &[0, 4, 5], &[]);
    let run = |input, output, ops: &[&str]| {
        let call = [input, "-o", output, "--chunk=160", "--check", "--json"];
        workdir.map(&[&call[..], ops].concat()).json()
    };
    let (one, two) = (["--op", "affine"], ["--op=affine:2", "--op=affine:0.5,3"]);
    without_finding(&run("f32.npy", "a.npy", &one));
    without_finding(&run("f32.npy", "c.npy", &two));
    // Without elements there is no access.
    clean(&run("empty.npy", "b.npy", &one));
    clean(&run("empty.npy", "d.npy", &two));
}

#[test]
fn overlap_has_no_finding_with_either_source_of_times() {
    let workdir = Workdir::new();
    workdir.npy("u8.npy", "|u1", &[4, 48, 64], &noise(4 * 48 * 64, 2));
    workdir.npy("u16.npy", "<u2", &[4, 48, 64], &noise(2 * 4 * 48 * 64, 3));
    for (input, times) in [("u8.npy", "events"), ("u16.npy", "engines")] {
        let trace = format!("{times}.ledger");
        let call = ["overlap", input, "--device", "host", "--repeats=1", "--chunk=4KiB"];
        let more = ["--times", times, "--trace", &trace, "--check", "--json"];
        let report = workdir.trijet(&[&call[..], &more].concat()).json();
        without_finding(&report);
        for schedule in report["schedules"].as_array().unwrap() {
            assert_eq!(schedule["summary"]["hazards"], 0, "{schedule:#}");
        }
    }
}

/// The checker does work: without a needed wait, it has a finding and the command fails.
#[test]
fn overlap_without_a_wait_has_a_finding_and_fails() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &bytes_of(&numbers_of(&noise(65_536, 4))));
    let call = ["overlap", "in.npy", "--device", "host", "--drop-wait", "1", "--chunk", "8KiB"];
    let ran = workdir.trijet(&[&call[..], &["--check", "--json"]].concat());
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.code, &report["check"]["clean"]), (Some(1), &false.into()), "{report:#}");
    let found = report["check"]["findings"].as_array().unwrap();
    assert!(found[0]["class"].as_str().unwrap().starts_with("RACE/"), "{report:#}");
    let ran = workdir.trijet(&[&call[..], &["--check", "--overwrite"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("\ncheck: ") && ran.out.contains("error[RACE/"), "{}", ran.out);
}

#[test]
fn doctor_has_no_finding() {
    without_finding(&doctor::examined().json());
}

#[test]
fn replay_has_no_finding() {
    let workdir = Workdir::new();
    let rows = (0..20).map(|n| format!("allocate,{n},5000,{}\nuse,{n},,{}\n", n % 3, n % 3));
    let frees = (0..20).map(|n| format!("free,{n},,{}\n", n % 2));
    let text: String = rows.chain(frees).collect();
    workdir.file("a.csv", format!("Action,Pointer,Size,Stream\n{text}").as_bytes());
    let call = ["replay", "a.csv", "--device", "host", "--check", "--json"];
    without_finding(&workdir.trijet(&call).json());
}

#[test]
fn a_command_without_the_option_has_no_verdict() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[4, 4], &noise(16, 5));
    let call = ["in.npy", "-o", "out.npy", "--op", "median"];
    assert!(workdir.map(&[&call[..], &["--json"]].concat()).json().get("check").is_none());
    let call = ["in.npy", "-o", "checked.npy", "--op", "median", "--check"];
    let printed = workdir.map(&call).done();
    assert!(printed.contains("\ncheck: for the calls this run made"), "{printed}");
}
