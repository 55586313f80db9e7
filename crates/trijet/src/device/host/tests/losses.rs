//! Tests of the contract: lost devices, the culprit of an error, and host functions with declared
//! bytes.
#![forbid(unsafe_code)]

use crate::base::error::{ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::units::Bytes;
use crate::device::culprit;
use crate::device::driver::{Core, HostFn, Mode, Readiness, StreamHandle, StreamKind, Timing};
use crate::device::host::explore::search::Search;
use crate::device::host::{Executor, Fault, FaultKind, HostConfig, HostDriver, Order, Verb};
use crate::device::memory::Span;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

const GOOD: DeviceId = DeviceId(0);
const BAD: DeviceId = DeviceId(1);

fn open(executor: &Executor, faults: &[Fault]) -> HostDriver {
    let (executor, faults) = (executor.clone(), faults.to_vec());
    let config = HostConfig::new().executor(executor).devices(2).faults(faults);
    HostDriver::open(config).expect("the machine starts a few threads")
}

/// Every executor, and the virtual executor with several orders.
fn executors() -> Vec<Executor> {
    let seeded = (0..20).map(Order::Seeded);
    let pct = (0..60).map(|seed| Order::Pct { seed, depth: 3, steps: 20 });
    let orders = [Order::Greedy, Order::Steps(Arc::default())].into_iter().chain(seeded).chain(pct);
    std::iter::once(Executor::Threads).chain(orders.map(Executor::Virtual)).collect()
}

fn stream(driver: &HostDriver, device: DeviceId) -> StreamHandle {
    driver.stream_create(device, StreamKind::NonBlocking, 0).expect("a stream")
}

fn edge(driver: &HostDriver, device: DeviceId, from: StreamHandle, to: StreamHandle) {
    let event = driver.event_create(device, Timing::Off).expect("an event");
    driver.event_record(event, from).expect("recorded");
    driver.stream_wait(to, event).expect("enqueued");
}

fn memory(driver: &HostDriver, device: DeviceId) -> Span {
    driver.device_alloc(device, Bytes(8)).expect("there is room").span(0..8)
}

/// Enqueues a host function and waits until it has begun. The host function ends when the returned
/// sender drops.
fn held(driver: &HostDriver, on: StreamHandle, touches: &[(Span, Mode)]) -> Sender<()> {
    let ((open, latch), (begun, begins)) = (channel::<()>(), channel());
    let latch = Mutex::new(latch);
    let run = move || {
        begun.send(()).expect("the test waits");
        assert!(latch.lock().expect("one run").recv().is_err(), "the latch only opens");
    };
    driver.host_fn(on, &(Arc::new(run) as HostFn), touches).expect("enqueued");
    begins.recv().expect("it begins");
    open
}

const LOST: Fault = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::DeviceLost };

fn lose(driver: &HostDriver, on: StreamHandle, x: &Span) {
    let error = driver.fill(on, x, 1).expect_err("the device is lost at this call");
    assert_eq!(error.kind(), ErrorKind::ContextLost);
}

/// A running operation still writes its bytes after a loss. A wait for this operation, even on
/// another device, lasts until the operation is done.
#[test]
fn an_operation_of_a_worker_is_complete_after_a_loss_when_the_worker_is_done() -> Result<()> {
    let driver = open(&Executor::Threads, &[LOST]);
    let (bad, good, x) = (stream(&driver, BAD), stream(&driver, GOOD), memory(&driver, BAD));
    let latch = held(&driver, bad, &[(x.clone(), Mode::Write)]);
    edge(&driver, BAD, bad, good);
    lose(&driver, bad, &x);
    assert_eq!(driver.stream_query(good)?, Readiness::NotReady);
    let error = driver.stream_synchronize(bad).expect_err("each call after a loss fails at once");
    assert_eq!(error.kind(), ErrorKind::ContextLost);
    drop(latch);
    driver.stream_synchronize(good)
}

#[test]
fn a_host_function_without_declared_bytes_delays_nothing_after_a_loss() -> Result<()> {
    let driver = open(&Executor::Threads, &[LOST]);
    let (bad, good, x) = (stream(&driver, BAD), stream(&driver, GOOD), memory(&driver, BAD));
    let latch = held(&driver, bad, &[]);
    edge(&driver, BAD, bad, good);
    lose(&driver, bad, &x);
    driver.stream_synchronize(good)?;
    drop(latch);
    Ok(())
}

/// A stream of a good device waits for a stream of a bad device. The stream of the bad device
/// waited for the good device.
#[test]
fn an_operation_after_work_of_a_lost_device_comes_after_what_that_work_waited_for() -> Result<()> {
    let fault = Fault { verb: Verb::Fill, nth: 1, kind: FaultKind::Faults };
    for executor in executors() {
        let driver = open(&executor, &[fault]);
        let [first, last] = [stream(&driver, GOOD), stream(&driver, GOOD)];
        let [between, faulty] = [stream(&driver, BAD), stream(&driver, BAD)];
        let x = memory(&driver, BAD);
        let done = Arc::new(AtomicBool::new(false));
        let (sets, reads) = (Arc::clone(&done), Arc::clone(&done));
        let found = Arc::new(AtomicBool::new(false));
        let finds = Arc::clone(&found);
        let set: HostFn = Arc::new(move || sets.store(true, Ordering::SeqCst));
        driver.host_fn(first, &set, &[])?;
        edge(&driver, GOOD, first, between);
        driver.host_fn(between, &nothing(), &[])?;
        edge(&driver, BAD, between, last);
        let look = move || finds.store(reads.load(Ordering::SeqCst), Ordering::SeqCst);
        driver.host_fn(last, &(Arc::new(look) as HostFn), &[])?;
        driver.fill(faulty, &x, 1)?;
        driver.stream_synchronize(faulty).expect_err("the fill faulted");
        driver.stream_synchronize(last)?;
        assert!(found.load(Ordering::SeqCst), "{executor:?}");
    }
    Ok(())
}

/// An operation that hangs is complete when its device is lost.
#[test]
fn a_loss_completes_an_operation_that_never_ends() -> Result<()> {
    let hung = Fault { verb: Verb::HostFn, nth: 1, kind: FaultKind::NeverCompletes };
    for executor in executors() {
        let driver = open(&executor, &[hung, LOST]);
        let (bad, good, x) = (stream(&driver, BAD), stream(&driver, GOOD), memory(&driver, BAD));
        driver.host_fn(bad, &nothing(), &[])?;
        edge(&driver, BAD, bad, good);
        let error =
            driver.stream_synchronize(good).expect_err("the stream waits for a hung operation");
        assert_eq!(error.kind(), ErrorKind::Stalled, "{executor:?}");
        lose(&driver, bad, &x);
        driver.stream_synchronize(good)?;
    }
    Ok(())
}

#[test]
fn the_error_of_a_fault_says_which_operation_it_was() -> Result<()> {
    let fault = Fault { verb: Verb::Fill, nth: 2, kind: FaultKind::Faults };
    let position = |seq| Some(Position { lane: LaneId(3), seq });
    for executor in executors() {
        for said in [true, false] {
            let driver = open(&executor, &[fault]);
            let (s, x) = (stream(&driver, GOOD), memory(&driver, GOOD));
            for seq in 1..4 {
                culprit::set(position(seq).filter(|_| said));
                let enqueued = driver.fill(s, &x, 1);
                culprit::set(None);
                // On CPU threads, the device may be lost while this loop still enqueues.
                assert!(enqueued.is_ok() || seq == 3, "{executor:?}: {enqueued:?}");
            }
            for _ in 0..2 {
                let error = driver.stream_synchronize(s).expect_err("the second fill faulted");
                assert_eq!(error.culprit(), position(2).filter(|_| said), "{executor:?}");
            }
        }
    }
    Ok(())
}

/// One worker runs all fills, the oldest fill first. Here the worker does not run the older fill,
/// because a running host function uses the same bytes.
#[test]
fn no_operation_runs_beside_a_host_function_with_the_same_declared_bytes() -> Result<()> {
    let driver = open(&Executor::Threads, &[]);
    let [a, b, c] = [(); 3].map(|()| stream(&driver, GOOD));
    let (x, y) = (memory(&driver, GOOD), memory(&driver, GOOD));
    let latch = held(&driver, a, &[(x.clone(), Mode::Read)]);
    driver.fill(b, &x, 1)?;
    driver.fill(c, &y, 1)?;
    driver.stream_synchronize(c)?;
    assert_eq!(driver.stream_query(b)?, Readiness::NotReady);
    drop(latch);
    driver.stream_synchronize(b)
}

/// A host function that does nothing.
fn nothing() -> HostFn {
    Arc::new(|| ())
}

fn writes(x: &Span, value: u8) -> HostFn {
    let x = x.clone();
    Arc::new(move || {
        let mut guard = x.lock(Mode::Write).expect("nothing else runs");
        guard.bytes_mut().fill(value);
    })
}

/// A host function and a copy race: either one comes first, or the function runs in the middle of
/// the copy.
#[test]
fn a_search_finds_every_outcome_of_a_host_function_with_declared_bytes() -> Result<()> {
    let search = Arc::new(Mutex::new(Search::default()));
    let lock = || search.lock().expect("no thread panicked while it held this lock");
    let mut found = BTreeSet::new();
    loop {
        lock().begin_run();
        let driver = HostDriver::with_search(HostConfig::default(), Some(Arc::clone(&search)))?;
        let (a, b) = (stream(&driver, GOOD), stream(&driver, GOOD));
        let x = memory(&driver, GOOD);
        let h = driver.pinned_alloc(GOOD, Bytes(8))?.span(0..8);
        driver.host_fn(a, &writes(&x, 9), &[(x.clone(), Mode::Write)])?;
        driver.copy_async(b, &h, &x)?;
        driver.synchronize(GOOD)?;
        let seen = h.lock(Mode::Read).expect("all is done").bytes().to_vec();
        if lock().end_run() {
            found.insert(seen);
        }
        drop(driver);
        if !lock().advance() {
            break;
        }
    }
    let expected = [[0; 8], [0, 0, 0, 0, 9, 9, 9, 9], [9; 8]].map(Vec::from);
    assert_eq!(found, BTreeSet::from(expected));
    Ok(())
}
