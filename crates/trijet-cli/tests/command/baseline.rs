//! `trijet check --baseline`: findings of programs that do not fail a check.

use crate::workdir::Workdir;
use serde_json::{Value, json};

/// Calls of a program with one race, and of one with a possible race, recorded on an H100.
const RACE: &[u8] = include_bytes!("../../../trijet-calls/tests/golden/race.calls");
const KERNEL: &[u8] = include_bytes!("../../../trijet-calls/tests/golden/kernel.calls");

const KEY: &str = "declared RACE/RAW: copy to the device from upload in race from main in race | copy to the host \
     from download in race from main in race";

fn workdir() -> Workdir {
    let workdir = Workdir::new();
    workdir.file("race.calls", RACE);
    workdir.file("kernel.calls", KERNEL);
    workdir
}

fn check(workdir: &Workdir, args: &[&str], code: i32) -> String {
    let ran = workdir.trijet(&[&["check"], args].concat());
    assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.out, ran.err);
    ran.out
}

fn file(findings: Value) -> Vec<u8> {
    json!({ "version": 1, "findings": findings }).to_string().into_bytes()
}

#[test]
fn a_finding_of_a_baseline_fails_no_check_until_its_day_is_over() {
    let workdir = workdir();
    let found = check(&workdir, &["race.calls", "--write-baseline", "b.json"], 1);
    assert!(found.contains("error[RACE/RAW]"), "{found}");
    let written: Value = serde_json::from_slice(&workdir.read("b.json")).unwrap();
    let entry = json!([{ "key": KEY, "reason": "", "until": null }]);
    assert_eq!(written, json!({ "version": 1, "findings": entry }));

    let found = check(&workdir, &["race.calls", "--baseline", "b.json"], 0);
    let line = format!("in the baseline: {KEY} (no reason is given)");
    assert!(found.contains(&line) && !found.contains("error["), "{found}");
    assert!(found.contains("no new error; 1 finding in the baseline"), "{found}");
    let found = check(&workdir, &["race.calls", "--baseline", "b.json", "--only", "NEW"], 0);
    assert!(!found.contains(KEY) && found.contains("1 finding in the baseline"), "{found}");

    let until = |day| file(json!([{ "key": KEY, "reason": "the next version", "until": day }]));
    workdir.file("b.json", &until("2999-12-31"));
    let found = check(&workdir, &["race.calls", "--baseline", "b.json"], 0);
    assert!(found.contains("(until 2999-12-31: the next version)"), "{found}");
    workdir.file("b.json", &until("2020-12-31"));
    let found = check(&workdir, &["race.calls", "--baseline", "b.json"], 1);
    let over = "no longer in the baseline: until 2020-12-31: the next version";
    assert!(found.contains("error[RACE/RAW]") && found.contains(over), "{found}");
}

/// A baseline hides neither other findings nor the same pair at the other level.
#[test]
fn a_baseline_accepts_its_own_findings_only() {
    let workdir = workdir();
    check(&workdir, &["kernel.calls", "--write-baseline", "b.json"], 0);
    let found = check(&workdir, &["race.calls", "--baseline", "b.json"], 1);
    assert!(found.contains("error[RACE/RAW]"), "{found}");
    assert!(found.contains("in the baseline and not found: possible RACE/RAW"), "{found}");
    workdir.file("b.json", &file(json!([{ "key": KEY.replace("declared", "possible") }])));
    check(&workdir, &["race.calls", "--baseline", "b.json"], 1);
}

#[test]
fn a_possible_finding_of_a_baseline_is_not_listed() {
    let workdir = workdir();
    let args = ["kernel.calls", "--json"];
    let before: Value = serde_json::from_str(&check(&workdir, &args, 0)).unwrap();
    let key = &before["processes"][0]["possible"][0]["key"];
    workdir.file("b.json", &file(json!([{ "key": key, "until": "2999-12-31" }])));
    let args = [&args[..], &["--baseline", "b.json"]].concat();
    let after: Value = serde_json::from_str(&check(&workdir, &args, 0)).unwrap();
    assert_eq!(after["processes"][0]["possible"], json!([]));
    let accepted = json!([{ "key": key, "reason": "", "until": "2999-12-31" }]);
    assert_eq!(after["processes"][0]["accepted"], accepted);
    assert_eq!(after["baseline_missing"], json!([]));
}

#[test]
fn a_baseline_grows_and_is_kept_without_permission() {
    let workdir = workdir();
    workdir.file("b.json", &file(json!([{ "key": "old", "reason": "why" }])));
    let before = workdir.read("b.json");
    let both = ["--baseline", "b.json", "--write-baseline", "b.json"];
    let args = [&["check", "race.calls"], &both[..]].concat();
    workdir.trijet(&args).refused(1, &["b.json", "--overwrite"]);
    assert_eq!(workdir.read("b.json"), before);
    check(&workdir, &[&args[1..], &["--overwrite"]].concat(), 1);
    let written: Value = serde_json::from_slice(&workdir.read("b.json")).unwrap();
    let old = json!({ "key": "old", "reason": "why", "until": null });
    let new = json!({ "key": KEY, "reason": "", "until": null });
    assert_eq!(written["findings"], json!([old, new]));
}

#[test]
fn wrong_baselines_are_refused_by_name() {
    let workdir = workdir();
    let refused = |args: &[&str], code, words: &[&str]| {
        workdir.trijet(&[&["check"], args].concat()).refused(code, words);
    };
    refused(&["race.calls", "--only", "new"], 2, &["--baseline"]);
    refused(&["race.calls", "--baseline", "none.json"], 1, &["none.json", "read the baseline"]);
    workdir.file("b.json", &file(json!([{ "key": KEY, "until": "soon" }])));
    let words = ["b.json: findings[0]: `until` must be a day as 2027-03-31, not `soon`"];
    refused(&["race.calls", "--baseline", "b.json"], 1, &words);
    let keep = ["overlap", "--device", "host", "--size", "2MiB", "--radius=1", "--repeats=1"];
    workdir.trijet(&[&keep[..], &["--trace", "run.ledger"]].concat()).done();
    refused(&["run.ledger", "--baseline", "b.json"], 1, &["run.ledger is a ledger"]);
    // A program without a call has no baseline.
    refused(&["--write-baseline", "w.json", "--", "true"], 1, &["no call was recorded"]);
    assert!(!workdir.exists("w.json"));
}
