//! Queries, futures, and threads that make no other call.

use super::live::{by_hand, devices};
use super::log::{A, B, D, E, Log, log, part, r, w};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use trijet::check::{CheckOptions, Checker, FindingClass, Verdict, check};
use trijet::sim::HostConfig;
use trijet::trace::Handled::{Cloned, Dropped, Made, Used};
use trijet::trace::Mode;
use trijet::trace::Signalled::{Found, Gone, Set, Wait};
use trijet::trace::{Op, WaitOutcome, Waited};
use trijet::{Device, Event, Readiness, Result, Stream, StreamOptions};

const S: u64 = 1;

fn classes(ops: &[Op]) -> Vec<FindingClass> {
    check(ops).findings.iter().map(|finding| finding.class).collect()
}

/// Law A45: one thread polls an event and records the event again, while another thread may still
/// wait for it.
#[test]
fn polling_hides_no_wait_of_another_thread() {
    let polled = |polls: usize| {
        let first = log().k(A, &[w(D)]).rec(E, A).signal(S, Set);
        let second = first.by(1).signal(S, Found).wait(E, B).k(B, &[w(D)]).by(0);
        (0..polls).fold(second, |log, _| log.esync(E)).rec(E, A)
    };
    let demanded = polled(0).verdict().findings.len();
    assert!(demanded > 0);
    for polls in [1, 16, 17, 100] {
        assert_eq!(polled(polls).verdict().findings.len(), demanded, "{polls} polls");
    }
}

/// A thread whose query found work pending continues, and can still set the signals that others
/// wait for.
#[test]
fn a_query_that_finds_work_pending_holds_no_thread_up() {
    let waits = || log().host_fn(A).inside(A, 1, S, Wait);
    waits().synced(Waited::Stream, A, WaitOutcome::Failed).is_silent();
    waits().synced(Waited::Stream, A, WaitOutcome::Pending).finds(&[FindingClass::Deadlock]);
}

/// The same, in a program that runs.
#[test]
fn a_verdict_after_a_query_that_found_work_pending_is_clean() -> Result<()> {
    let device = Device::builder().host(HostConfig::default());
    let device = device.check(CheckOptions::default()).open()?;
    let stream = device.stream()?;
    let signal = device.signal();
    let waits = signal.clone();
    let (begins, begun) = channel();
    stream.host_fn(move || {
        begins.send(()).expect("the test listens");
        waits.wait();
    })?;
    begun.recv().expect("the host function begins");
    // In some of these rounds the wait of the host function is in the ledger.
    let mut verdicts = (0..300).map(|_| -> Result<Verdict> {
        assert_eq!(stream.query()?, Readiness::NotReady);
        Ok(device.verdict().expect("it is checked"))
    });
    let said = verdicts.find(|verdict| !matches!(verdict, Ok(v) if v.findings.is_empty()));
    signal.set();
    stream.synchronize()?;
    assert!(said.is_none(), "{said:?}");
    Ok(())
}

fn block_on(future: impl Future<Output = Result<()>>) -> Result<()> {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return outcome;
        }
    }
}

/// The ledger of a program in which another thread uses an event of the first one.
fn handed_over(
    program: impl FnOnce(&Stream, &Event) -> Result<()>,
    other: impl FnOnce(&Event) -> Result<()> + Send,
    last: impl FnOnce(&Stream) -> Result<()>,
) -> Result<Vec<Op>> {
    let device = &devices(1)[0];
    let a = device.stream()?;
    device.start_trace(&a)?;
    let event = device.event()?;
    program(&a, &event)?;
    std::thread::scope(|scope| scope.spawn(|| other(&event)).join().expect("no panic"))?;
    last(&a)?;
    device.synchronize()?;
    device.take_trace().map(|trace| trace.ops)
}

/// Law A46: a future stands for the record that the event had when the future was made.
#[test]
fn a_future_of_an_event_may_be_awaited_by_another_thread() -> Result<()> {
    let device = &devices(1)[0];
    let (a, b) = (device.stream()?, device.stream()?);
    let mut y = by_hand(&a, 64)?;
    device.start_trace(&a)?;
    let event = device.event()?;
    a.fill_bytes(&mut y, 1)?;
    event.record(&a)?;
    let ready = event.ready();
    let other = || -> Result<()> {
        block_on(ready)?;
        b.fill_bytes(&mut y, 2)?;
        b.synchronize()
    };
    std::thread::scope(|scope| scope.spawn(other).join().expect("no panic"))?;
    let ops = device.take_trace()?.ops;
    assert_eq!(classes(&ops), [], "{}", check(&ops));
    Ok(())
}

/// The thread that makes the future determines the record that the future stands for (law A45).
#[test]
fn a_future_of_an_event_that_another_thread_records_is_unordered() -> Result<()> {
    let made = |event: &Event| block_on(event.ready());
    let ops = handed_over(|a, event| event.record(a), made, |_| Ok(()))?;
    assert_eq!(classes(&ops), [FindingClass::EventUnordered], "{}", check(&ops));
    Ok(())
}

/// Two threads make futures of one buffer. Each future stands for the work that its creator knew.
#[test]
fn futures_of_one_buffer_by_two_threads_are_told_apart() -> Result<()> {
    let device = &devices(1)[0];
    let a = device.stream()?;
    let (x, mut h) = (by_hand(&a, 64)?, device.pinned::<u64>(64)?);
    device.start_trace(&a)?;
    a.copy(&x, &mut h)?;
    a.synchronize()?;
    std::thread::scope(|scope| {
        let first = h.ready();
        let makes = || drop(h.ready());
        scope.spawn(makes).join().expect("no panic");
        let awaits = || {
            let mut first = std::pin::pin!(first);
            let mut context = Context::from_waker(Waker::noop());
            loop {
                if let Poll::Ready(read) = first.as_mut().poll(&mut context) {
                    return read.map(|words| assert_eq!(words.len(), 64));
                }
            }
        };
        scope.spawn(awaits).join().expect("no panic")
    })?;
    let ops = device.take_trace()?.ops;
    assert_eq!(classes(&ops), [], "{}", check(&ops));
    Ok(())
}

/// A thread that only set a signal and then ended sets no more signals.
#[test]
fn a_thread_that_used_nothing_but_a_signal_is_known_to_have_ended() -> Result<()> {
    let device = Device::builder().host(HostConfig::default());
    let device = device.check(CheckOptions::default()).open()?;
    let (never, first) = (device.signal(), device.signal());
    let _spare = never.clone();
    let sets = first.clone();
    std::thread::spawn(move || sets.set()).join().expect("no panic");
    first.wait();
    assert!(!never.wait_timeout(Duration::ZERO));
    let verdict = device.verdict().expect("it is checked");
    let found: Vec<FindingClass> = verdict.findings.iter().map(|finding| finding.class).collect();
    assert_eq!(found, [FindingClass::WaitGivesUp], "{verdict}");
    Ok(())
}

/// Law A38, for memory that was allocated before the trace began.
#[test]
fn a_copy_between_devices_orders_memory_that_the_record_does_not_know() -> Result<()> {
    let devices = devices(2);
    let (a, c) = (devices[0].stream()?, devices[1].stream_with(StreamOptions::new().blocking())?);
    let (x, mut far) = (by_hand(&a, 64)?, by_hand(&c, 64)?);
    devices[0].start_trace(&a)?;
    c.fill_bytes(&mut far, 3)?;
    devices[0].copy_now(&x, &mut far)?;
    c.fill_bytes(&mut far, 4)?;
    devices[0].synchronize()?;
    devices[1].synchronize()?;
    let ops = devices[0].take_trace()?.ops;
    assert_eq!(classes(&ops), [], "{}", check(&ops));
    Ok(())
}

fn most_held(rounds: u64, round: impl Fn(u64) -> Log) -> [usize; 2] {
    let mut checker = Checker::new(CheckOptions::default());
    let mut most = [0; 2];
    for number in 0..rounds {
        round(number).ops.iter().for_each(|op| checker.push(op));
        let half = usize::from(number >= rounds / 2);
        most[half] = most[half].max(checker.held_state());
    }
    most
}

/// The program makes a signal for each item. The signal is never set.
#[test]
fn signals_that_are_asked_and_never_set_are_forgotten() {
    let most = most_held(20_000, |number| {
        let made = log().handle(number, 1, Made).handle(number, 2, Cloned);
        let used =
            made.handle(number, 1, Used).handle(number, 1, Dropped).handle(number, 2, Dropped);
        used.signal(number, Gone)
    });
    assert!(most[1] <= most[0] && most[1] < 10_000, "{most:?}");
}

/// The checker forgets the knowledge of a thread that has ended.
#[test]
fn a_thread_for_each_item_leaves_nothing_behind() {
    let words = |number: u64| part(7, number % 8 * 8..number % 8 * 8 + 8, Mode::Write);
    let mut checker = Checker::new(CheckOptions::default());
    for number in 0..5000 {
        let item = log().by(number + 1).k(A, &[words(number)]).sync(A).host(r(9)).ends();
        item.ops.iter().for_each(|op| checker.push(op));
    }
    let held = checker.held_state();
    assert!(held < 300_000, "{held}");
    let verdict = checker.finish();
    assert!(verdict.findings.is_empty(), "{verdict}");
}
