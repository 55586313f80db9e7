//! `trijet check`: ledgers without a finding, with findings, and damaged ones.

use crate::workdir::{Workdir, noise};
use std::time::Duration;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, MIX};
use trijet::trace::file::Writer;
use trijet::trace::{OpKind, SignalStep, Signalled};
use trijet::{Device, Result};

/// The ledger file of a program of two streams; wait number `without` may be left out.
fn ledger(without: Option<u64>) -> Vec<u8> {
    let program = || -> Result<Vec<u8>> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let (a, b) = (device.stream()?, device.stream()?);
        let (mut x, mut y) = (a.alloc::<u64>(64)?, b.alloc::<u64>(64)?);
        device.synchronize()?;
        device.start_trace(&a)?;
        if let Some(number) = without {
            testing::drop_wait(&device, number);
        }
        a.fill_bytes(&mut x, 1)?;
        b.launch(&MIX, (3, &x, &mut y))?;
        device.synchronize()?;
        let recording = device.take_trace()?;
        let mut writer = Writer::new(Vec::new(), &recording.about("two streams"))?;
        recording.ops.iter().try_for_each(|op| writer.push(op))?;
        writer.finish()
    };
    program().expect("the host device refuses nothing")
}

#[test]
fn the_ledger_of_a_correct_run_has_no_finding() {
    let workdir = Workdir::new();
    let keep = ["overlap", "--device", "host", "--size", "2MiB", "--radius=1", "--repeats=1"];
    workdir.trijet(&[&keep[..], &["--trace", "run.ledger"]].concat()).done();
    let printed = workdir.trijet(&["check", "run.ledger"]).done();
    assert!(printed.contains("every conflict is ordered by a documented CUDA edge"), "{printed}");
    assert!(
        printed.contains("0 accesses undeclared") && printed.contains("performance"),
        "{printed}"
    );
    let value = workdir.trijet(&["check", "run.ledger", "--json"]).json();
    assert_eq!((&value["clean"], &value["findings"]), (&true.into(), &serde_json::json!([])));
    assert!(value["accesses"].as_u64() > Some(10), "{value:#}");
    assert!(value["lints"].is_array(), "{value:#}");
}

/// A user cannot change the lines of the command, and has no use for its advice to authors.
#[test]
fn a_ledger_of_the_command_is_checked_for_its_user() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[16, 128, 128], &noise(16 * 128 * 128 * 2, 5));
    let map = ["in.npy", "--op", "median", "--chunk", "32KiB"];
    workdir.map(&[&map[..], &["-o", "a.npy", "--trace", "a.ledger"]].concat()).done();
    let overlap = ["overlap", "in.npy", "--device", "host", "--drop-wait", "1", "--chunk", "32KiB"];
    workdir.trijet(&[&overlap[..], &["--trace", "b.ledger"]].concat());
    for (ledger, code) in [("a.ledger", 0), ("b.ledger", 1)] {
        let ran = workdir.trijet(&["check", ledger]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        for word in [".rs:", "; fix:", "an unknown place", " pos "] {
            assert!(!ran.out.contains(word), "`{word}` is for authors: {}", ran.out);
        }
        let json = workdir.trijet(&["check", ledger, "--json"]).out;
        assert!(!json.contains(".rs:"), "{json}");
    }
}

/// A run in place orders nothing, so a verdict without a finding proves nothing about a GPU.
#[test]
fn the_verdict_about_a_run_in_place_says_that_it_is_not_about_a_gpu() {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "<u2", &[8, 64, 64], &noise(8 * 64 * 64 * 2, 6));
    let map = ["in.npy", "--op", "median"];
    workdir.map(&[&map[..], &["-o", "a.npy", "--trace", "a.ledger"]].concat()).done();
    let check = ["-o", "b.npy", "--check", "--trace", "b.ledger"];
    workdir.map(&[&map[..], &check].concat()).done();
    for (ledger, in_place) in [("a.ledger", true), ("b.ledger", false)] {
        let printed = workdir.trijet(&["check", ledger]).done();
        let says = printed.contains("in place") && printed.contains("nothing about a run on a GPU");
        assert_eq!(says, in_place, "{printed}");
        let value = workdir.trijet(&["check", ledger, "--json"]).json();
        assert_eq!(value["in_place"], in_place, "{value:#}");
    }
}

#[test]
fn a_race_is_reported_with_its_fix_and_the_command_fails() {
    let workdir = Workdir::new();
    workdir.file("whole.ledger", &ledger(None));
    workdir.trijet(&["check", "whole.ledger"]).done();
    workdir.file("racy.ledger", &ledger(Some(1)));
    let ran = workdir.trijet(&["check", "racy.ledger"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{}", ran.out);
    for word in ["error[RACE/RAW]", "two streams", "check.rs", "fix: ", "witness: ", "1 error, "] {
        assert!(ran.out.contains(word), "no `{word}` in {}", ran.out);
    }
    let ran = workdir.trijet(&["check", "racy.ledger", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(ran.code, Some(1));
    let race = &value["findings"][0];
    assert_eq!((&race["class"], &race["severity"]), (&"RACE/RAW".into(), &"error".into()));
    assert!(race["first"]["site"].as_str().unwrap().contains("check.rs"), "{race:#}");
    assert_eq!(race["ranges"], serde_json::json!([[0, 512]]));
}

/// The program does not hang, because its wait has a limit. Its ledger is the same as without the
/// limit.
#[test]
fn a_deadlock_is_named_with_its_cycle() {
    let program = || -> Result<Vec<u8>> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let (stream, signal) = (device.stream()?, device.signal());
        device.start_trace(&stream)?;
        let waits = signal.clone();
        stream.host_fn(move || assert!(!waits.wait_timeout(Duration::ZERO)))?;
        stream.synchronize()?;
        signal.set();
        let recording = device.take_trace()?;
        let mut writer = Writer::new(Vec::new(), &recording.about("a wait too early"))?;
        recording.ops.into_iter().try_for_each(|mut op| {
            if let OpKind::Signal(SignalStep::Use { what: what @ Signalled::LimitedWait, .. }) =
                &mut op.kind
            {
                *what = Signalled::Wait;
            }
            writer.push(&op)
        })?;
        writer.finish()
    };
    let workdir = Workdir::new();
    workdir.file("stuck.ledger", &program().expect("the host device refuses nothing"));
    let ran = workdir.trijet(&["check", "stuck.ledger"]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{}", ran.out);
    for word in ["error[DEADLOCK]", "-> host function #", "fix: set signal 1 before the wait at #"]
    {
        assert!(ran.out.contains(word), "no `{word}` in {}", ran.out);
    }
    let ran = workdir.trijet(&["check", "stuck.ledger", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let stuck = &value["findings"][0];
    assert_eq!((&stuck["class"], &stuck["severity"]), (&"DEADLOCK".into(), &"error".into()));
    assert_eq!((&stuck["block"], &stuck["witness"]), (&().into(), &().into()), "{stuck:#}");
    // The wait is in a stream; a thread sets the signal.
    assert_eq!(stuck["first"]["position"], 1, "{stuck:#}");
    assert!(stuck["second"]["position"].is_null(), "{stuck:#}");
    assert!(stuck["second"]["site"].as_str().unwrap().contains("check.rs"), "{stuck:#}");
}

#[test]
fn an_incomplete_or_damaged_ledger_is_refused() {
    let workdir = Workdir::new();
    let whole = ledger(None);
    workdir.file("cut.ledger", &whole[..whole.len() - 9]);
    let mut bent = whole.clone();
    bent[whole.len() / 2] ^= 0x20;
    workdir.file("bent.ledger", &bent);
    workdir.file("other.ledger", b"\x89PNG\r\n\x1a\n and more");
    workdir.file("empty.ledger", b"");
    for name in ["cut.ledger", "bent.ledger", "other.ledger", "empty.ledger", "missing.ledger"] {
        workdir.trijet(&["check", name]).refused(1, &[name]);
    }
}
