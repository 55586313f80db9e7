//! Cases 32 and 33 as programs that run on a host device. The library writes the ledgers.

use super::live::{devices, found, recorded};
use std::time::Duration;
use trijet::check::{CheckOptions, FindingClass, Verdict, check};
use trijet::sim::HostConfig;
use trijet::trace::Signalled::Gone;
use trijet::trace::{OpKind, SignalStep};
use trijet::{Device, Result, Signal, Stream};

const DEADLOCK: &[FindingClass] = &[FindingClass::Deadlock];
const GIVES_UP: &[FindingClass] = &[FindingClass::WaitGivesUp];

/// The verdict on a program with a host function that waits with a limit, and gives up at once.
fn gives_up(then: impl FnOnce(&Device, &Stream, &Stream, &Signal) -> Result<()>) -> Verdict {
    let ops = recorded(|device, a, b| {
        let signal = device.signal();
        let waits = signal.clone();
        a.host_fn(move || assert!(waits.wait_timeout(Duration::ZERO) || !waits.is_set()))?;
        then(device, a, b, &signal)
    });
    check(&ops)
}

fn classes(verdict: &Verdict) -> Vec<FindingClass> {
    verdict.findings.iter().map(|finding| finding.class).collect()
}

/// Case 32 as a program that runs. `recorded` demands that the checker of the device has the same
/// findings as a check of the ledger.
#[test]
fn a_program_that_only_a_timeout_saves_is_flagged() {
    let late = gives_up(|_, a, _, signal| {
        a.synchronize()?;
        signal.set();
        Ok(())
    });
    assert_eq!(classes(&late), GIVES_UP, "{late}");
    assert!(late.is_clean(), "the program cannot hang: {late}");
    let text = late.to_string();
    assert!(text.matches("waits.rs:").count() >= 3, "{text}");
    assert!(text.contains("-> host function #"), "{text}");
    let early = gives_up(|_, a, _, signal| {
        signal.set();
        a.synchronize()
    });
    assert_eq!(classes(&early), [], "{early}");
}

/// Case 33 as a program that runs.
#[test]
fn host_functions_of_two_streams_that_need_an_order_are_flagged() {
    let program = |ordered: bool| {
        recorded(|device, a, b| {
            let (signal, event) = (device.signal(), device.event()?);
            let (sets, waits) = (signal.clone(), signal);
            b.host_fn(move || sets.set())?;
            if ordered {
                event.record(b)?;
                a.wait(&event)?;
            }
            a.host_fn(move || assert!(waits.wait_timeout(Duration::ZERO) || !waits.is_set()))?;
            device.synchronize()
        })
    };
    let (classes, verdict) = found(&program(false));
    assert_eq!(classes, GIVES_UP, "{verdict}");
    let ops = program(true);
    assert_eq!(found(&ops).0, []);
    let ends = ops
        .iter()
        .filter(|op| matches!(op.kind, OpKind::Signal(SignalStep::Use { what: Gone, .. })));
    assert_eq!(ends.count(), 1);
}

/// While the first thread waits for the stream, another one sets the signal, so no thread waits for
/// itself.
#[test]
fn another_thread_sets_while_the_first_one_waits() -> Result<()> {
    let device = Device::builder().host(HostConfig::default());
    let device = device.check(CheckOptions::default()).open()?;
    let stream = device.stream()?;
    let (signal, begun) = (device.signal(), device.signal());
    let (waits, begins) = (signal.clone(), begun.clone());
    stream.host_fn(move || {
        begins.set();
        waits.wait();
    })?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            signal.set();
        });
        stream.synchronize()
    })?;
    let verdict = device.verdict().expect("it is checked");
    assert!(verdict.findings.is_empty(), "{verdict}");
    Ok(())
}

/// A program that hangs has a verdict, which includes the entries after its wait.
#[test]
fn the_verdict_of_a_program_that_hangs_says_why() -> Result<()> {
    // Maximum number of times that the test asks for a verdict. A busy machine needs many.
    const LOOKS_MAX: usize = 10_000_000;
    let device = Device::builder().host(HostConfig::default());
    let device = device.check(CheckOptions::default()).open()?;
    let signal = device.signal();
    let said = std::thread::scope(|scope| {
        let hangs = scope.spawn(|| {
            let (stream, waits) = (device.stream()?, signal.clone());
            stream.host_fn(move || waits.wait())?;
            stream.synchronize()
        });
        let mut looks = (0..LOOKS_MAX).map(|_| {
            std::thread::yield_now();
            device.verdict().expect("it is checked")
        });
        let said = looks.find(|verdict| !verdict.findings.is_empty());
        signal.set();
        hangs.join().expect("no panic")?;
        Ok::<_, trijet::Error>(said)
    })?;
    let said = said.expect("it hung for long enough");
    assert_eq!(classes(&said), DEADLOCK, "{said}");
    assert!(said.to_string().contains("nothing has set"), "{said}");
    let after = device.verdict().expect("it is checked");
    assert!(after.findings.is_empty(), "{after}");
    Ok(())
}

/// Rust hands a tracked buffer over to another thread. The ledger contains the signal, but not the
/// start and the join of a thread (law A44).
#[test]
fn a_tracked_buffer_that_passes_between_threads_is_no_finding() -> Result<()> {
    let program = |signals: bool| -> Result<Verdict> {
        let device = &devices(1)[0];
        let mut h = device.pinned::<u64>(64)?;
        let handed = device.signal();
        h.write()?.fill(1);
        handed.set();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                if signals {
                    assert!(handed.is_set());
                }
                h.write().map(|mut words| words.fill(2))
            });
            other.join().expect("no panic")
        })?;
        Ok(device.verdict().expect("it is checked"))
    };
    assert_eq!(classes(&program(true)?), []);
    assert_eq!(classes(&program(false)?), []);
    Ok(())
}
