//! Futures under several executors, and futures that are dropped or forgotten before they are
//! ready.

use crate::executor::{block_on, poll_once};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::{MIX, WORK};
use trijet::{Device, ErrorKind, Readiness, Result, Stream};

const EXECUTORS: [Executor; 5] = [
    Executor::Threads,
    Executor::Virtual(Order::Greedy),
    Executor::Virtual(Order::Seeded(1)),
    Executor::Virtual(Order::Seeded(2)),
    Executor::Virtual(Order::Pct { seed: 3, depth: 3, steps: 200 }),
];

/// Long enough for any thread to be scheduled. Only a test that fails takes this long.
const HUNG: Duration = Duration::from_secs(600);

fn open(config: HostConfig) -> Device {
    Device::host(config).expect("the machine starts a few threads").remove(0)
}

fn open_with(executor: &Executor) -> Device {
    open(HostConfig::new().executor(executor.clone()))
}

/// Holds back a stream of a device on CPU threads until the sender is dropped.
fn hold(stream: &Stream) -> Result<Sender<()>> {
    let (send, receive) = channel::<()>();
    stream.host_fn(move || receive.recv().unwrap_or(()))?;
    Ok(send)
}

/// Sends the id of the thread that wakes it.
struct WakeLog(Sender<ThreadId>);

impl Wake for WakeLog {
    fn wake(self: Arc<Self>) {
        // The receiver is gone after the test.
        self.0.send(thread::current().id()).unwrap_or(());
    }
}

fn wake_log() -> (Arc<WakeLog>, Waker, Receiver<ThreadId>) {
    let (send, receive) = channel();
    let log = Arc::new(WakeLog(send));
    (Arc::clone(&log), Waker::from(log), receive)
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Fills and downloads in rounds. Awaits the stream after each step.
async fn work(device: &Device, salt: u8, rounds: u8) -> Result<()> {
    let stream = device.stream()?;
    let mut host = device.pinned::<u8>(300)?;
    let mut x = stream.alloc::<u8>(300)?;
    for round in 0..rounds {
        stream.fill_bytes(&mut x, salt ^ round)?;
        stream.copy(&x, &mut host)?;
        assert_eq!(&*host.ready().await?, &[salt ^ round; 300], "task {salt}, round {round}");
        stream.ready().await?;
        assert_eq!(stream.query()?, Readiness::Ready);
        let event = device.event()?;
        event.record(&stream)?;
        event.ready().await?;
        stream.ticket()?.ready().await?;
    }
    Ok(())
}

type Boxed<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Sends the number of a task to the threads that run tasks.
struct Turn(usize, Sender<usize>);

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.1.send(self.0).unwrap_or(());
    }
}

/// Polls the tasks that were woken, and no other tasks, on `threads` threads.
fn run(tasks: Vec<Boxed<'_>>, threads: usize) {
    let (send, receive) = channel();
    let left = AtomicU64::new(tasks.len() as u64);
    let tasks: Vec<_> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    (0..tasks.len()).for_each(|number| send.send(number).expect("the receiver is here"));
    let receive = Mutex::new(receive);
    let worker = || {
        loop {
            let number = receive.lock().expect("no panic here").recv_timeout(HUNG);
            let number = number.expect("a task is woken, or all have ended");
            let Some(slot) = tasks.get(number) else { break };
            let mut slot = slot.lock().expect("no task panicked");
            let Some(task) = slot.as_mut() else { continue };
            let waker = Waker::from(Arc::new(Turn(number, send.clone())));
            if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                outcome.expect("nothing failed");
                *slot = None;
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    // A number without a task ends a thread.
                    (0..threads).for_each(|_| send.send(usize::MAX).expect("the receiver is here"));
                }
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
}

#[test]
fn tasks_share_one_thread() {
    for executor in &EXECUTORS {
        let device = open_with(executor);
        run((0..6).map(|salt| Box::pin(work(&device, salt, 8)) as Boxed<'_>).collect(), 1);
    }
}

#[test]
fn tasks_move_between_threads() {
    for executor in &EXECUTORS {
        let device = open_with(executor);
        run((0..12).map(|salt| Box::pin(work(&device, salt, 8)) as Boxed<'_>).collect(), 4);
    }
}

/// A poll queries the device, unlocks it, and then asks it to run on. Once, if another thread
/// completed all work in between, the poll reported that the work could never be complete.
#[test]
fn two_threads_that_poll_do_not_take_each_others_work_for_a_stall() -> Result<()> {
    for executor in &EXECUTORS[1..] {
        let device = open_with(executor);
        let stream = device.stream()?;
        let mut x = stream.alloc::<u8>(64)?;
        for _ in 0..2000 {
            stream.fill_bytes(&mut x, 1)?;
            let ready = [stream.ready(), stream.ready()];
            let outcomes = thread::scope(|scope| {
                let threads = ready.map(|ready| scope.spawn(|| block_on(ready)));
                threads.map(|thread| thread.join().expect("it does not panic"))
            });
            outcomes.into_iter().collect::<Result<()>>()?;
        }
    }
    Ok(())
}

/// If a wake-up were missed, a thread would stay parked. This could happen between a poll and its
/// registration, or between two checks.
#[test]
fn no_wake_up_is_missed_in_many_short_waits() -> Result<()> {
    let device = open_with(&Executor::Threads);
    thread::scope(|scope| {
        let threads = [0, 1, 2].map(|_| {
            scope.spawn(|| -> Result<()> {
                let stream = device.stream()?;
                let mut x = stream.alloc::<u8>(64)?;
                for _ in 0..700 {
                    stream.fill_bytes(&mut x, 1)?;
                    block_on(stream.ready())?;
                }
                Ok(())
            })
        });
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}

#[test]
fn a_future_dropped_early_keeps_no_waker_and_wakes_no_task() -> Result<()> {
    let device = open_with(&Executor::Threads);
    let stream = device.stream()?;
    let gate = hold(&stream)?;
    let (log, waker, wakes) = wake_log();
    let before = Arc::strong_count(&log);
    let mut ready = stream.ready();
    assert!(poll_with(&mut ready, &waker).is_pending());
    assert_eq!(Arc::strong_count(&log), before + 1, "the waker is kept while it is awaited");
    drop(ready);
    assert_eq!(Arc::strong_count(&log), before, "the waker is dropped with the future");
    drop(gate);
    block_on(stream.ready())?;
    assert!(wakes.try_recv().is_err(), "no future waits any more");
    device.close()
}

#[test]
fn a_forgotten_future_does_not_disturb_later_ones() -> Result<()> {
    for executor in &EXECUTORS {
        let device = open_with(executor);
        let stream = device.stream()?;
        let mut host = device.pinned::<u8>(64)?;
        stream.fill_bytes(&mut host, 5)?;
        let mut ready = stream.ready();
        let mut reading = host.ready();
        drop((poll_once(&mut ready), poll_once(&mut reading)));
        std::mem::forget((ready, reading));
        assert_eq!(&*block_on(host.ready())?, &[5; 64]);
        stream.fill_bytes(&mut host, 6)?;
        assert_eq!(&*block_on(host.ready())?, &[6; 64]);
        drop((host, stream));
        device.close()?;
    }
    Ok(())
}

#[test]
fn the_waker_of_the_last_poll_is_woken_alone() -> Result<()> {
    let device = open_with(&Executor::Threads);
    let stream = device.stream()?;
    let gate = hold(&stream)?;
    let ((first, one, first_wakes), (_, two, second_wakes)) = (wake_log(), wake_log());
    let before = Arc::strong_count(&first);
    let mut ready = stream.ready();
    assert!(poll_with(&mut ready, &one).is_pending());
    assert!(poll_with(&mut ready, &two).is_pending());
    assert_eq!(Arc::strong_count(&first), before, "the first waker is dropped");
    drop(gate);
    second_wakes.recv_timeout(HUNG).expect("it is woken");
    assert!(first_wakes.try_recv().is_err());
    assert!(matches!(poll_with(&mut ready, &two), Poll::Ready(Ok(()))));
    assert!(
        matches!(poll_with(&mut ready, &two), Poll::Ready(Ok(()))),
        "a ready future stays ready"
    );
    Ok(())
}

/// Law A40: there are pending futures of two streams, an event, a ticket and a buffer.
#[test]
fn a_lost_device_ends_every_pending_future() -> Result<()> {
    // On the last executor the device may take its steps before the last call.
    for executor in &EXECUTORS[..4] {
        let faults = vec![Fault { verb: Verb::Launch, nth: 1, kind: FaultKind::Faults }];
        let config = HostConfig::new().executor(executor.clone()).faults(faults);
        let device = open(config);
        let (a, b) = (device.stream()?, device.stream()?);
        let mut host = device.pinned::<u64>(64)?;
        let (x, mut y) = (a.alloc::<u64>(64)?, a.alloc::<u64>(64)?);
        let event = device.event()?;
        let gate = (*executor == Executor::Threads).then(|| hold(&a)).transpose()?;
        a.launch(&MIX, (1, &x, &mut y))?;
        b.copy(&y, &mut host)?;
        event.record(&b)?;
        let (stream, event, ticket) = (a.ready(), event.ready(), b.ticket()?.ready());
        let buffer = host.ready();
        drop(gate);
        let outcomes = [
            ("stream", block_on(stream)),
            ("event", block_on(event)),
            ("ticket", block_on(ticket)),
            ("buffer", block_on(buffer).map(drop)),
            ("stream, afterwards", block_on(b.ready())),
        ];
        for (what, outcome) in outcomes {
            let error = outcome.expect_err("the kernel faulted");
            let lost = matches!(error.kind(), ErrorKind::Launch | ErrorKind::ContextLost);
            assert!(lost, "{executor:?}, {what}: {error:?}");
        }
    }
    Ok(())
}

/// The completion thread finds the loss. The tasks only wait.
#[test]
fn tasks_that_await_a_device_are_woken_when_it_is_lost() -> Result<()> {
    let faults = vec![Fault { verb: Verb::Launch, nth: 1, kind: FaultKind::Faults }];
    let device = open(HostConfig::new().faults(faults));
    let (a, b) = (device.stream()?, device.stream()?);
    let (x, mut y) = (a.alloc::<u64>(64)?, a.alloc::<u64>(64)?);
    let gate = hold(&b)?;
    b.launch(&MIX, (1, &x, &mut y))?;
    // The futures wait for work after the kernel, which can never be complete because the kernel
    // faults.
    let event = device.event()?;
    event.record(&b)?;
    a.wait(&event)?;
    let (_, waker, wakes) = wake_log();
    let mut ready = [a.ready(), a.ready()];
    assert!(ready.iter_mut().all(|ready| poll_with(ready, &waker).is_pending()));
    drop(gate);
    for _ in &ready {
        wakes.recv_timeout(HUNG).expect("each is woken");
    }
    for ready in ready {
        assert!(block_on(ready).is_err());
    }
    Ok(())
}

fn hung(executor: &Executor) -> Result<(Device, Stream)> {
    let config = HostConfig::new().executor(executor.clone()).never_ends("work_u32");
    let device = open(config);
    let stream = device.stream()?;
    let (x, mut y) = (stream.alloc::<u32>(64)?, stream.alloc::<u32>(64)?);
    stream.launch(&WORK, (1, &x, &mut y))?;
    Ok((device, stream))
}

#[test]
fn simulated_time_that_stands_still_is_reported() -> Result<()> {
    for executor in &EXECUTORS[1..] {
        let (_device, stream) = hung(executor)?;
        let error = block_on(stream.ready()).expect_err("the kernel never ends");
        assert_eq!(error.kind(), ErrorKind::Stalled, "{executor:?}: {error}");
    }
    Ok(())
}

thread_local! {
    static AT_THREAD_END: RefCell<Option<SendOnDrop>> = const { RefCell::new(None) };
}

/// Sends a message when its thread ends.
struct SendOnDrop(Sender<()>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        self.0.send(()).unwrap_or(());
    }
}

/// Puts a value into the thread that wakes it. That thread drops the value when it ends.
struct OnThreadEnd(Mutex<Option<SendOnDrop>>);

impl Wake for OnThreadEnd {
    fn wake(self: Arc<Self>) {
        AT_THREAD_END.set(self.0.lock().expect("no panic here").take());
    }
}

/// A channel that receives when the completion thread of `device` ends.
fn completion_thread_end(device: &Device) -> Result<Receiver<()>> {
    let stream = device.stream()?;
    let (send, receive) = channel();
    let waker = Arc::new(OnThreadEnd(Mutex::new(Some(SendOnDrop(send)))));
    let gate = hold(&stream)?;
    let mut ready = stream.ready();
    assert!(poll_with(&mut ready, &Waker::from(Arc::clone(&waker))).is_pending());
    drop(gate);
    stream.synchronize()?;
    while waker.0.lock().expect("no panic here").is_some() {
        thread::yield_now();
    }
    Ok(receive)
}

#[test]
fn the_completion_thread_ends_with_its_device() -> Result<()> {
    let device = open_with(&Executor::Threads);
    let ended = completion_thread_end(&device)?;
    let (stream, ticket) = (device.stream()?, device.stream()?.ticket()?);
    drop(device);
    assert!(ended.try_recv().is_err(), "a stream and a ticket hold the device");
    drop((stream, ticket));
    ended.recv_timeout(HUNG).expect("the thread ends");
    Ok(())
}

/// The drops and the end of the thread cannot wait for a kernel that never ends.
#[test]
fn a_hung_device_is_dropped_with_its_futures() -> Result<()> {
    let (device, stream) = hung(&Executor::Threads)?;
    let ended = completion_thread_end(&device)?;
    let (_, waker, wakes) = wake_log();
    let mut ready = stream.ready();
    assert!(poll_with(&mut ready, &waker).is_pending());
    drop((device, stream, ready));
    ended.recv_timeout(HUNG).expect("the thread ends");
    assert!(wakes.try_recv().is_err());
    Ok(())
}

/// A waker that panics, without the message on standard error.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("not my turn"));
    }
}

#[test]
fn a_waker_that_panics_leaves_the_others_awake() -> Result<()> {
    let device = open_with(&Executor::Threads);
    let stream = device.stream()?;
    let gate = hold(&stream)?;
    let (_, waker, wakes) = wake_log();
    let (mut bad, mut good) = (stream.ready(), stream.ready());
    assert!(poll_with(&mut bad, &Waker::from(Arc::new(Broken))).is_pending());
    assert!(poll_with(&mut good, &waker).is_pending());
    drop(gate);
    wakes.recv_timeout(HUNG).expect("the thread goes on");
    let later = hold(&stream)?;
    let mut again = stream.ready();
    assert!(poll_with(&mut again, &waker).is_pending());
    drop(later);
    wakes.recv_timeout(HUNG).expect("the thread still runs");
    block_on(bad)
}

#[test]
fn simulated_time_needs_no_thread() -> Result<()> {
    let mut polls = 0;
    for executor in &EXECUTORS[1..] {
        let device = open_with(executor);
        let stream = device.stream()?;
        let mut x = stream.alloc::<u8>(1 << 20)?;
        stream.fill_bytes(&mut x, 1)?;
        let (log, waker, wakes) = wake_log();
        let before = Arc::strong_count(&log);
        let mut ready = stream.ready();
        while poll_with(&mut ready, &waker).is_pending() {
            polls += 1;
            assert_eq!(wakes.try_recv().ok(), Some(thread::current().id()), "woken in the poll");
            assert_eq!(Arc::strong_count(&log), before, "no waker is kept");
        }
    }
    assert!(polls > 0, "the work took time");
    Ok(())
}
