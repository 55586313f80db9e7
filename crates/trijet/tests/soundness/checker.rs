//! Verdicts: they do not depend on what the library does internally, and they are complete after a
//! loss.

use crate::{Gate, let_time_pass, virtual_host};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;
use trijet::check::{CheckOptions, Verdict};
use trijet::explore::{Strategy, explore};
use trijet::kernels::FILL_U32;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::{Device, Result, StreamOptions};

fn codes(verdict: &Verdict) -> Vec<&'static str> {
    verdict.findings.iter().map(|finding| finding.class.code()).collect()
}

fn checked(config: HostConfig) -> Result<Device> {
    Device::builder().host(config).check(CheckOptions::default()).open()
}

/// Whether and when the stream of the write is dropped.
#[derive(Debug, Clone, Copy)]
enum Writer {
    Stays,
    /// It is dropped when its work is complete. No call of the program has observed the completion.
    DroppedComplete,
    DroppedPending,
}

/// The verdict on a write in one stream and a read in the next one, with no order between them.
fn race_with(writer: Writer) -> Result<Verdict> {
    let device = checked(virtual_host(Vec::new()))?;
    let n = device.stream()?;
    let mut x = n.alloc::<u32>(64)?;
    n.fill_bytes(&mut x, 1)?;
    n.synchronize()?;
    // SAFETY: the two operations that race only move numbers, and nothing else depends on these.
    unsafe { x.order_manually() };
    let writes = device.stream()?;
    writes.launch(&FILL_U32, (9u32, &mut x))?;
    let kept = match writer {
        Writer::Stays => Some(writes),
        Writer::DroppedComplete => {
            drop(writes);
            let_time_pass(&n)?;
            None
        }
        Writer::DroppedPending => {
            drop(writes);
            None
        }
    };
    let reads = device.stream()?;
    let mut h = device.pinned::<u32>(64)?;
    reads.copy(&x, &mut h)?;
    device.synchronize()?;
    drop(kept);
    Ok(device.verdict().expect("the device is checked"))
}

/// A query that the library makes gives the program no order.
#[test]
fn a_race_is_found_whether_a_lane_was_handed_on_or_not() -> Result<()> {
    for writer in [Writer::Stays, Writer::DroppedComplete, Writer::DroppedPending] {
        assert_eq!(codes(&race_with(writer)?), ["RACE/RAW"], "{writer:?}");
    }
    Ok(())
}

/// The stream in which the event of the blocking stream's wait is recorded. All work that the event
/// stands for is complete.
#[derive(Debug, Clone, Copy)]
enum Recorded {
    /// The blocking stream, which holds nothing.
    There,
    /// Another stream, whose only operation is complete.
    Elsewhere,
}

/// A write in the legacy stream, a blocking stream that only waits for an event, and a read in a
/// non-blocking stream. The blocking stream gets no operation, so it does not follow the legacy
/// stream (laws A4 and A13), and a wait for it does not order the read.
fn a_wait_is_no_operation(devices: &[Device], recorded: Recorded) -> u32 {
    let run = || -> Result<u32> {
        let device = &devices[0];
        let (n, b, legacy) = (
            device.stream()?,
            device.stream_with(StreamOptions::new().blocking())?,
            device.legacy_stream()?,
        );
        let mut x = n.alloc::<u32>(1)?;
        n.fill_bytes(&mut x, 1)?;
        n.synchronize()?;
        // SAFETY: the two operations that race only move a number, which nothing else depends on.
        unsafe { x.order_manually() };
        legacy.launch(&FILL_U32, (9u32, &mut x))?;
        let event = device.event()?;
        event.record(match recorded {
            Recorded::There => &b,
            Recorded::Elsewhere => &n,
        })?;
        b.wait(&event)?;
        b.synchronize()?;
        let mut h = device.pinned::<u32>(1)?;
        n.copy(&x, &mut h)?;
        let value = h.read()?[0];
        device.synchronize()?;
        Ok(value)
    };
    run().expect("nothing failed")
}

#[test]
fn the_exhaustive_search_finds_what_seeded_runs_find() -> Result<()> {
    for recorded in [Recorded::There, Recorded::Elsewhere] {
        let found = |strategy| -> Result<BTreeSet<u32>> {
            let program = |devices: &[Device]| a_wait_is_no_operation(devices, recorded);
            let found = explore(&HostConfig::default(), strategy, program)?;
            // The bytes of a torn value depend on the point at which the operation was cut.
            let whole = |value| if [9, 0x0101_0101].contains(&value) { value } else { 0 };
            Ok(found.outcomes.iter().map(|one| whole(one.value)).collect())
        };
        let seeded = found(Strategy::Seeded { runs: 300, seed: 1 })?;
        assert!(seeded.len() > 1, "{recorded:?}: {seeded:x?}: the program races");
        let all = found(Strategy::Exhaustive { runs_max: 5000 })?;
        assert!(all.is_superset(&seeded), "{recorded:?}: seeded {seeded:x?}, all {all:x?}");
    }
    Ok(())
}

#[test]
fn a_wait_in_a_blocking_stream_does_not_follow_the_legacy_stream() -> Result<()> {
    for recorded in [Recorded::There, Recorded::Elsewhere] {
        let executor = Executor::Virtual(Order::Seeded(1));
        let device = checked(HostConfig::new().executor(executor))?;
        a_wait_is_no_operation(std::slice::from_ref(&device), recorded);
        let verdict = device.verdict().expect("the device is checked");
        assert_eq!(codes(&verdict), ["RACE/RAW"], "{recorded:?}: {verdict}");
    }
    Ok(())
}

/// The verdict on a write in a stream and a read in a third one. Another thread waits for the first
/// stream, then opens and drops an idle stream, which may take over the lane.
fn read_after_an_idle_stream(by_hand: bool) -> Result<Verdict> {
    let executor = Executor::Virtual(Order::Seeded(1));
    let device = checked(HostConfig::new().executor(executor))?;
    let written = device.stream()?;
    let mut x = device.stream()?.alloc::<u32>(1)?;
    written.launch(&FILL_U32, (9u32, &mut x))?;
    if by_hand {
        // SAFETY: a read that comes too early gives a number that nothing depends on.
        unsafe { x.order_manually() };
    }
    let other = device.clone();
    let ended = spawn(move || -> Result<()> {
        written.synchronize()?;
        drop(written);
        drop(other.stream()?);
        Ok(())
    });
    ended.join().expect("the thread does not panic")?;
    let (read, mut h) = (device.stream()?, device.pinned::<u32>(1)?);
    read.copy(&x, &mut h)?;
    device.synchronize()?;
    Ok(device.verdict().expect("the device is checked"))
}

#[test]
fn handing_a_lane_to_an_idle_stream_neither_loses_nor_adds_order() -> Result<()> {
    let verdict = read_after_an_idle_stream(false)?;
    assert_eq!(codes(&verdict), [""; 0], "the library orders it: {verdict}");
    let verdict = read_after_an_idle_stream(true)?;
    assert_eq!(
        codes(&verdict),
        ["RACE/RAW"],
        "this thread has not waited for the stream: {verdict}"
    );
    Ok(())
}

struct Counts(Arc<AtomicU32>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A checked device on which a launch faults, with a host function after it that will never run.
struct Faulted {
    device: Device,
    dropped: Arc<AtomicU32>,
    /// The lines of the launch and of the host function.
    lines: [u32; 2],
    signal: trijet::Signal,
}

fn fault() -> Result<Faulted> {
    let faults = vec![Fault { verb: Verb::Launch, nth: 1, kind: FaultKind::Faults }];
    let device = checked(HostConfig::new().faults(faults))?;
    let stream = device.stream()?;
    let mut x = stream.alloc::<u32>(64)?;
    let gate = Gate::on(&stream)?;
    let launch = line!() + 1;
    stream.launch(&FILL_U32, (1u32, &mut x))?;
    let dropped = Arc::<AtomicU32>::default();
    let (counts, signal) = (Counts(Arc::clone(&dropped)), device.signal());
    let sets = signal.clone();
    let sets = move || {
        let _counts = counts;
        sets.set();
    };
    let host_fn = line!() + 1;
    stream.host_fn(sets)?;
    drop(gate);
    let error = stream.synchronize().expect_err("the launch faults");
    assert!(error.to_string().contains("fill"), "{error}");
    Ok(Faulted { device, dropped, lines: [launch, host_fn], signal })
}

#[test]
fn host_functions_that_never_run_are_dropped_when_the_loss_is_reported() -> Result<()> {
    let faulted = fault()?;
    assert_eq!(faulted.dropped.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn after_a_loss_the_verdict_names_the_culprit() -> Result<()> {
    let Faulted { device, lines: [launch, _], .. } = fault()?;
    let verdict = device.verdict().expect("the device is checked");
    let sticky = verdict.findings.iter().find(|finding| finding.class.code() == "ERROR/STICKY");
    let sticky = sticky.unwrap_or_else(|| panic!("the fault is a finding: {verdict}"));
    let text = sticky.text(&Default::default());
    assert!(text.contains(&format!("checker.rs:{launch}")), "line {launch}: {text}");
    Ok(())
}

#[test]
fn after_a_loss_the_verdict_names_waits_for_host_functions_that_never_run() -> Result<()> {
    let Faulted { device, lines: [_, host_fn], signal, .. } = fault()?;
    let ((tell, told), (stay, stays)) = (channel(), channel::<()>());
    let waits = spawn(move || {
        // To the checker this is a wait that ends only by its limit, because the thread does
        // nothing after it.
        let set = signal.wait_timeout(Duration::ZERO);
        tell.send((set, line!() - 1)).expect("the test waits for it");
        let _dropped = stays.recv();
        drop(signal);
    });
    let (set, wait) = told.recv().expect("the thread waits");
    assert!(!set, "the host function did not run");
    let verdict = device.verdict().expect("the device is checked");
    drop(stay);
    waits.join().expect("no panic");
    let text = verdict.to_string();
    assert!(codes(&verdict).contains(&"SYNC/WAIT-GIVES-UP"), "{text}");
    for line in [wait, host_fn] {
        assert!(text.contains(&format!("checker.rs:{line}")), "line {line}: {text}");
    }
    Ok(())
}
