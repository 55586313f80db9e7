//! Nothing waits for ever: the library holds no lock while a call may wait, and inside host
//! functions it refuses calls that could wait for them.

use crate::{Gate, PATIENCE, ask, open, virtual_host};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread::spawn;
use trijet::Uses;
use trijet::check::CheckOptions;
use trijet::explore::{Strategy, explore};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::trace::{OpKind, StreamClass, StreamMark};
use trijet::{
    Batch, Buffer, Device, ErrorKind, PinnedBuffer, Readiness, Result, Select, SourceOrder, Stream,
    StreamOptions,
};

/// The call in which one thread waits.
#[derive(Debug, Clone, Copy)]
enum Inside {
    Synchronize,
    CopyNow,
    FillNow,
    CopyWithinHost,
}

/// The stream and the memory that the threads use.
struct Memory {
    stream: Stream,
    x: Buffer<u32>,
    h: PinnedBuffer<u32>,
    g: PinnedBuffer<u32>,
}

impl Inside {
    fn wait(self, device: &Device, memory: &mut Memory) -> Result<()> {
        let Memory { stream, x, h, g } = memory;
        match self {
            Self::Synchronize => stream.synchronize(),
            Self::CopyNow => device.copy_now(&*x, h),
            Self::FillNow => device.fill_now(h, 1),
            Self::CopyWithinHost => stream.copy(&*h, g),
        }
    }
}

type Call = fn(&[Device], &mut Buffer<u32>) -> Result<()>;

/// The calls of the other thread. `y` was last used in the stream that is held back.
const CALLS: [(&str, Call); 10] = [
    ("a stream of the same device", |devices, _| devices[0].stream().map(drop)),
    ("a stream of another device", |devices, _| devices[1].stream().map(drop)),
    ("a blocking stream of another device", |devices, _| {
        devices[1].stream_with(StreamOptions::new().blocking()).map(drop)
    }),
    ("a per-thread stream of the same device", |devices, _| {
        devices[0].per_thread_stream().map(drop)
    }),
    ("a per-thread stream of another device", |devices, _| {
        devices[1].per_thread_stream().map(drop)
    }),
    ("an operation in another blocking stream", |devices, _| {
        fill_in(&devices[0].stream_with(StreamOptions::new().blocking())?)
    }),
    ("an operation in the legacy stream", |devices, _| fill_in(&devices[0].legacy_stream()?)),
    ("a record in the legacy stream", |devices, _| {
        devices[0].event()?.record(&devices[0].legacy_stream()?)
    }),
    ("page-locked memory", |devices, _| devices[0].pinned::<u32>(64).map(drop)),
    ("a copy from memory last used there", |devices, y| {
        let stream = devices[0].stream()?;
        let mut z = stream.alloc::<u32>(64)?;
        stream.copy(&*y, &mut z)
    }),
];

fn fill_in(stream: &Stream) -> Result<()> {
    let mut z = stream.alloc::<u32>(64)?;
    stream.fill_bytes(&mut z, 1)
}

/// Whether `call` returns while another thread is inside a wait. On the virtual executor the thread
/// that waits runs the host functions, so a running host function shows that the thread is inside.
fn returns_during(inside: Inside, call: Call) -> Result<bool> {
    let executor = Executor::Virtual(Order::Greedy);
    let devices = Device::host(HostConfig::new().devices(2).executor(executor))?;
    let stream = devices[0].stream_with(StreamOptions::new().blocking())?;
    let (x, mut y) = (stream.alloc::<u32>(64)?, stream.alloc::<u32>(64)?);
    let (h, g) = (devices[0].pinned::<u32>(64)?, devices[0].pinned::<u32>(64)?);
    stream.synchronize()?;
    stream.fill_bytes(&mut y, 1)?;
    let ((enter, entered), (open, opened)) = (channel(), channel::<()>());
    stream.host_fn(move || {
        enter.send(()).expect("the test waits for it");
        let _dropped = opened.recv();
    })?;
    let mut memory = Memory { stream, x, h, g };
    let device = devices[0].clone();
    let waits = spawn(move || inside.wait(&device, &mut memory).map(|()| memory));
    entered.recv_timeout(PATIENCE).expect("the wait runs the host function");
    let (tell, told) = channel();
    let calls = spawn(move || {
        let result = call(&devices, &mut y);
        // The receiver is gone if the call came too late.
        let _late = tell.send(result);
        (devices, y)
    });
    let result = told.recv_timeout(PATIENCE);
    drop(open);
    waits.join().expect("no panic")?;
    drop(calls.join().expect("no panic"));
    result.map_or(Ok(false), |result| result.map(|()| true))
}

fn no_call_hangs_during(inside: Inside) -> Result<()> {
    for (name, call) in CALLS {
        assert!(returns_during(inside, call)?, "{name} hangs during {inside:?}");
    }
    Ok(())
}

#[test]
fn other_calls_return_during_a_synchronisation() -> Result<()> {
    no_call_hangs_during(Inside::Synchronize)
}

#[test]
fn other_calls_return_during_a_synchronous_copy() -> Result<()> {
    no_call_hangs_during(Inside::CopyNow)
}

#[test]
fn other_calls_return_during_a_synchronous_fill() -> Result<()> {
    no_call_hangs_during(Inside::FillNow)
}

#[test]
fn other_calls_return_during_a_copy_within_the_host() -> Result<()> {
    no_call_hangs_during(Inside::CopyWithinHost)
}

/// An event in the legacy stream may hold back the blocking streams (law A14), and work that is
/// complete when its call returns needs no event.
#[test]
fn synchronous_copies_and_fills_record_nothing_in_the_legacy_stream() -> Result<()> {
    let device = open(virtual_host(Vec::new()))?;
    let (s, other) = (device.stream()?, device.stream_with(StreamOptions::new().blocking())?);
    let (mut x, mut y) = (s.alloc::<u32>(64)?, other.alloc::<u32>(64)?);
    let (mut h, mut g) = (device.pinned::<u32>(64)?, device.pinned::<u32>(64)?);
    device.start_trace(&s)?;
    device.fill_now(&mut h, 1)?;
    device.copy_now(&h, &mut x)?;
    device.copy_now(&x, &mut g)?;
    // Later uses of all this memory, on streams of both kinds.
    s.copy(&x, &mut h)?;
    other.copy(&g, &mut y)?;
    device.copy_now(&y, &mut g)?;
    device.synchronize()?;
    let ops = device.take_trace()?.ops;
    let records =
        ops.iter().filter(|op| matches!(op.kind, OpKind::Mark(StreamMark::Record { .. })));
    let of_legacy = records.filter(|op| op.stream == StreamClass::Legacy);
    assert_eq!(of_legacy.count(), 0, "{ops:#?}");
    assert_eq!(g.read()?[0], 0x0101_0101);
    Ok(())
}

/// A synchronous copy does not cover work that another thread enqueues in its stream during the
/// call. The copy does not follow that work, and the work need not be complete when the call
/// returns.
#[test]
fn a_synchronous_copy_does_not_cover_work_enqueued_during_it() -> Result<()> {
    let device = open(virtual_host(Vec::new()))?;
    let (held, legacy) =
        (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
    let x = held.alloc::<u32>(64)?;
    let (mut h, mut late) = (device.pinned::<u32>(64)?, device.pinned::<u32>(64)?);
    late.write()?.fill(1);
    let ((enter, entered), (open, opened)) = (channel(), channel::<()>());
    held.host_fn(move || {
        enter.send(()).expect("the test waits for it");
        let _dropped = opened.recv();
    })?;
    let ((tell, told), copying) = (channel::<PinnedBuffer<u32>>(), device.clone());
    let copies = spawn(move || -> Result<(Poll<Result<u32>>, PinnedBuffer<u32>)> {
        copying.copy_now(&x, &mut h)?;
        let late = told.recv().expect("the other thread hands it over");
        Ok((ask(&late), late))
    });
    // The thread that waits runs the host function, so it is inside its call.
    entered.recv_timeout(PATIENCE).expect("the wait runs the host function");
    legacy.host_fn(|| ())?;
    legacy.fill_bytes(&mut late, 9)?;
    tell.send(late).expect("the other thread takes it");
    drop(open);
    let (answer, late) = copies.join().expect("no panic")?;
    if let Poll::Ready(value) = answer {
        assert_eq!(value?, 0x0909_0909, "the memory is lent before it is written");
    }
    assert_eq!(late.read()?[0], 0x0909_0909);
    Ok(())
}

#[test]
fn the_last_handle_of_a_device_may_go_inside_a_host_function() -> Result<()> {
    let device = open(HostConfig::default())?;
    let stream = device.stream()?;
    let ((let_go, may_go), (end, ended)) = (channel::<()>(), channel::<()>());
    stream.host_fn(move || {
        let _dropped = may_go.recv();
        drop(device);
        end.send(()).expect("the test waits for it");
    })?;
    drop(stream);
    drop(let_go);
    ended.recv_timeout(PATIENCE).expect("the host function returns");
    Ok(())
}

/// Law A28: a batch that reads out of stream order waits for the writers of its sources. Inside a
/// host function it must not wait, because the writers may come after the host function.
#[test]
fn a_batch_inside_a_host_function_is_refused_before_it_waits() -> Result<()> {
    let device = open(HostConfig::default())?;
    let stream = Arc::new(device.stream()?);
    let (mut h, mut x) = (device.pinned::<u8>(64)?, stream.alloc::<u8>(64)?);
    let (give, take) = channel::<PinnedBuffer<u8>>();
    let (tell, told) = channel();
    let inner = Arc::clone(&stream);
    stream.host_fn(move || {
        let h = take.recv().expect("it is given");
        let mut batch = Batch::new();
        batch.add(&h, &mut x).expect("the lengths are equal");
        let refused = inner.copy_batch(batch, SourceOrder::DuringCall);
        tell.send(refused.map_err(|error| error.kind())).expect("the test listens");
    })?;
    stream.fill_bytes(&mut h, 1)?;
    give.send(h).expect("it listens");
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Err(ErrorKind::InCallback)));
    stream.synchronize()
}

/// Law A28: these calls reach a driver, or take a lock that the thread may hold.
#[test]
fn devices_are_not_opened_and_futures_not_made_inside_a_host_function() -> Result<()> {
    let device = open(HostConfig::default())?;
    let stream = device.stream()?;
    let event = device.event()?;
    let (tell, told) = channel();
    stream.host_fn(move || {
        let mut ready = pin!(event.ready());
        let polled = match ready.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Ok(()),
        };
        let calls = [
            Device::open(Select::Host(0)).map(drop),
            Device::host(HostConfig::default()).map(drop),
            Device::cuda_devices().map(drop),
            polled,
        ];
        let kinds = calls.map(|call| call.map_err(|error| error.kind()));
        tell.send(kinds).expect("the test listens");
    })?;
    let kinds = told.recv_timeout(PATIENCE).expect("it runs");
    assert_eq!(kinds, [Err(ErrorKind::InCallback); 4]);
    stream.synchronize()
}

/// Opening a stream queries many lanes. During a query, the driver may run a host function, and the
/// host function may drop a handle of the same stream.
#[test]
fn a_default_stream_may_be_dropped_while_another_one_is_made() -> Result<()> {
    let executor = Executor::Virtual(Order::Greedy);
    let device = open(HostConfig::new().executor(executor))?;
    let legacy = device.legacy_stream()?;
    let mut streams = (0..64).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let gone = streams.pop().expect("there are 64");
    gone.host_fn(|| ())?;
    drop(gone);
    streams[0].host_fn(move || drop(legacy))?;
    let event = device.event()?;
    // Only the time of the host passes.
    (0..1000).try_for_each(|_| event.record(&streams[1]))?;
    let (tell, told) = channel();
    let other = device.clone();
    spawn(move || tell.send(other.per_thread_stream().map(drop)));
    told.recv_timeout(PATIENCE).expect("it returns")?;
    device.synchronize()
}

/// Law A41: the driver has no room for a free, and the thread that drops may be the one that makes
/// room.
#[test]
fn dropping_memory_of_a_full_stream_does_not_wait() -> Result<()> {
    let device = open(HostConfig::default())?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let (x, mut y) = (stream.alloc::<u8>(64)?, stream.alloc::<u8>(64)?);
    let mut z = other.alloc::<u8>(64)?;
    let used = device.memory_stats()?.used;
    let gate = Gate::on(&stream)?;
    // The last user of `z` is `stream`, and its owner is another stream.
    stream.fill_bytes(&mut z, 1)?;
    for _ in 0..1021 {
        stream.fill_bytes(&mut y, 1)?;
    }
    let (tell, told) = channel();
    spawn(move || {
        drop((x, z));
        tell.send(())
    });
    let dropped = told.recv_timeout(PATIENCE);
    drop(gate);
    dropped.expect("dropping returns");
    // A call that waits makes the frees that were put off.
    device.synchronize()?;
    device.synchronize()?;
    assert!(device.memory_stats()?.used < used, "it is freed in the end");
    Ok(())
}

/// A thread has one per-thread stream, however many handles it had.
#[test]
fn a_ticket_of_a_per_thread_stream_stands_for_the_work_of_earlier_handles() -> Result<()> {
    let device = open(HostConfig::default())?;
    let gate = Gate::on(&device.per_thread_stream()?)?;
    let again = device.per_thread_stream()?;
    assert_eq!(again.query()?, Readiness::NotReady);
    assert_eq!(again.ticket()?.query()?, Readiness::NotReady);
    drop(gate);
    again.ticket()?.wait()
}

/// Whether the stream of a host function was still at work when a wait for an operation before that
/// function returned. The operation fills `x`, which another stream copies. Between the two, the
/// stream gets the work that `between` enqueues.
fn ends_before_a_host_function(
    device: &Device,
    between: fn(&Device, &Stream, &Stream) -> Result<()>,
) -> Result<bool> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let mut x = b.alloc::<u32>(4)?;
    let mut h = device.pinned::<u32>(4)?;
    device.synchronize()?;
    a.fill(&mut x, 7)?;
    between(device, &a, &c)?;
    b.copy(&x, &mut h)?;
    b.synchronize()?;
    let is_before = a.query()? == Readiness::NotReady;
    assert_eq!(&*h.read()?, &[7; 4]);
    device.synchronize()?;
    Ok(is_before)
}

/// Enqueues something.
type Between = fn(&Device, &Stream, &Stream) -> Result<()>;

/// Work that may stand between an operation and the first other stream that needs it: a host
/// function, or a wait for one.
const BETWEEN: [(&str, Between); 6] = [
    ("a host function", |_, a, _| a.host_fn(|| ())),
    ("host functions", |_, a, _| (0..3).try_for_each(|_| a.host_fn(|| ()))),
    ("a host function with memory", |device, a, _| {
        let h = device.pinned::<u32>(4)?;
        a.host_fn_with(&h, |_| ())
    }),
    ("a graph with a host function", |device, a, _| {
        let mut graph = device.record(|g| g.host_fn(&g.stream()?, || ()))?;
        a.launch_graph(&mut graph, Uses::new())
    }),
    ("an event after a host function", |device, a, c| {
        let event = device.event()?;
        c.host_fn(|| ())?;
        event.record(c)?;
        a.wait(&event)
    }),
    ("memory of a host function", |device, a, c| {
        let (mut h, mut y) = (device.pinned::<u32>(4)?, a.alloc::<u32>(4)?);
        c.host_fn_with(&mut h, |h| h.fill(1))?;
        a.copy(&h, &mut y)
    }),
];

/// S5: a host function may wait for the program, so nothing waits for it without need.
#[test]
fn an_operation_is_awaited_without_the_host_functions_after_it() -> Result<()> {
    for (what, between) in BETWEEN {
        let device = open(virtual_host(vec![]))?;
        assert!(ends_before_a_host_function(&device, between)?, "{what}");
        let run = |devices: &[Device]| {
            ends_before_a_host_function(&devices[0], between).expect("nothing failed")
        };
        let strategy = Strategy::Exhaustive { runs_max: 3000 };
        let found = explore(&HostConfig::default(), strategy, run)?;
        assert!(found.outcomes.iter().any(|one| one.value), "{what}: no order has it");
    }
    Ok(())
}

/// The program whose over-wait made a deadlock, on threads: the wait ends before the signal is set,
/// and the checker has nothing to report. The same holds if many events were recorded since.
#[test]
fn a_host_function_that_waits_for_the_program_holds_only_what_comes_after_it() -> Result<()> {
    for records in [0, 200] {
        let config = HostConfig::new().executor(Executor::Threads);
        let device = Device::builder().host(config).check(CheckOptions::default()).open()?;
        let (a, b) = (device.stream()?, device.stream()?);
        let (signal, work) = (device.signal(), device.clone());
        let set = signal.clone();
        let (tell, told) = channel();
        let waiter = spawn(move || -> Result<()> {
            let (mut x, mut y) = (a.alloc_zeroed::<u32>(4)?, b.alloc_zeroed::<u32>(4)?);
            let mut z = a.alloc_zeroed::<u32>(4)?;
            work.synchronize()?;
            a.fill(&mut x, 7)?;
            let waits = signal.clone();
            a.host_fn(move || waits.wait())?;
            for _ in 0..records {
                a.fill(&mut z, 1)?;
                drop(a.ticket()?);
            }
            b.copy(&x, &mut y)?;
            b.synchronize()?;
            tell.send(()).expect("the test waits");
            signal.set();
            work.synchronize()
        });
        let ended = told.recv_timeout(PATIENCE);
        set.set();
        let outcome = waiter.join().expect("no panic");
        ended.unwrap_or_else(|_| panic!("{records} records: the wait ends before the signal"));
        outcome?;
        let verdict = device.verdict().expect("the device is checked");
        assert_eq!(verdict.findings, [], "{records} records: {verdict}");
    }
    Ok(())
}
