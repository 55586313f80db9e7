//! Programs in safe Rust that misuse the library: objects of another driver, drops inside host
//! functions, concurrent calls. They get an error or the right bytes, never a race, a hang or an
//! abort.

use std::cell::RefCell;
use std::panic::{panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use trijet::kernels::{ArgBlock, Code, Cost, KernelSpec, Shape, Tile, Twin, Update};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, MIX};
use trijet::{Buffer, Bytes, Device, ErrorKind, Kernel, Readiness, Result, Stream};

const EXECUTORS: [Executor; 3] =
    [Executor::Threads, Executor::Virtual(Order::Greedy), Executor::Virtual(Order::Seeded(1))];

/// Longer than any call here takes: a call without an answer by then hangs.
const HUNG: Duration = Duration::from_secs(600);

fn open(executor: &Executor) -> Device {
    open_all(executor, 1).remove(0)
}

fn open_all(executor: &Executor, devices: u32) -> Vec<Device> {
    let config = HostConfig::new().executor(executor.clone()).devices(devices);
    Device::host(config).expect("the machine starts a few threads")
}

const fn declared(name: &'static str, twin: Twin) -> KernelSpec {
    KernelSpec::new(name, Code::ptx(""), Shape::Elements { per_thread: 1 }).twin(twin)
}

fn add_one(tile: &mut Tile<'_>) {
    tile.write::<u64>(0).iter_mut().for_each(|word| *word += 1);
}

const PLAIN: Twin =
    Twin { tile_elements: |_| 16, run: add_one, cost: |_| Cost { bytes: 0, ops: 0 } };

static FAULTY: Kernel<(Update<u64>,)> =
    // SAFETY: its twin panics before it touches anything.
    unsafe {
        let run = |_: &mut Tile<'_>| resume_unwind(Box::new("a fault"));
        Kernel::declare(declared("faulty", Twin { run, ..PLAIN }))
    };

/// Loses the context of the device of `stream`.
fn fault(stream: &Stream) -> Result<()> {
    let mut x = stream.alloc::<u64>(64)?;
    stream.launch(&FAULTY, (&mut x,))?;
    let error = stream.synchronize().expect_err("the twin panicked");
    assert_eq!(error.kind(), ErrorKind::Launch);
    Ok(())
}

/// Each driver numbers its lanes. A buffer of another driver would be ordered by the wrong numbers,
/// and its guard could be lent while this driver still writes the bytes.
#[test]
fn objects_of_two_drivers_do_not_mix() -> Result<()> {
    for executor in EXECUTORS {
        let (ours, theirs) = (open(&executor), open(&executor));
        let (s, foreign) = (ours.stream()?, theirs.stream()?);
        let mut h = ours.pinned::<u64>(64)?;
        let mut x = s.alloc::<u64>(64)?;
        let mut y = foreign.alloc::<u64>(64)?;
        let event = ours.event()?;
        event.record(&s)?;
        let (begin, end) = (ours.timed_event()?, theirs.timed_event()?);
        begin.record(&s)?;
        end.record(&foreign)?;
        end.synchronize()?;
        begin.synchronize()?;
        let outcomes = [
            foreign.copy(&h, &mut y),
            foreign.copy(&y, &mut h),
            foreign.fill_bytes(&mut x, 1),
            foreign.launch(&MIX, (1, &x, &mut y)),
            foreign.wait(&event),
            event.record(&foreign),
            ours.start_trace(&foreign),
            end.elapsed_since(&begin).map(|_| ()),
        ];
        for (index, outcome) in outcomes.into_iter().enumerate() {
            let error = outcome.expect_err("the two have different drivers");
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{executor:?}, call {index}");
        }
        assert_eq!(h.write()?.len(), 64);
    }
    Ok(())
}

/// A thread waits for an event. Before the wait returns, another thread records the event again,
/// for work that is not complete. The first thread once took that work for complete.
#[test]
fn a_wait_does_not_cover_a_record_that_another_thread_makes_during_it() -> Result<()> {
    let device = open(&Executor::Virtual(Order::Greedy));
    let (a, b) = (device.stream()?, device.stream()?);
    let (event, x) = (device.event()?, device.pinned::<u8>(4096)?);
    let (waiting, go) = channel();
    let (recorded, resume) = channel();
    // This executor runs nothing until a thread waits, so the function runs inside `synchronize`.
    a.host_fn(move || {
        waiting.send(()).expect("the other thread waits");
        resume.recv().expect("the other thread answers");
    })?;
    event.record(&a)?;
    let x = std::thread::scope(|scope| {
        let (event, b) = (&event, &b);
        let other = scope.spawn(move || {
            go.recv().expect("the function runs");
            let mut x = x;
            b.fill_bytes(&mut x, 7).expect("memory at hand");
            event.record(b).expect("a stream of its device");
            recorded.send(()).expect("the function waits");
            x
        });
        event.synchronize().expect("nothing fails");
        other.join().expect("it does not panic")
    });
    assert!(x.read()?.iter().all(|byte| *byte == 7), "the guard waits for the other stream");
    Ok(())
}

/// After a fault a worker may still use bytes of the lost device. Guards and tickets report the
/// loss, even if the stream of the work was dropped.
#[test]
fn a_lost_device_lends_nothing_when_the_stream_is_gone_too() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(&executor);
        let (stream, bad) = (device.stream()?, device.stream()?);
        let mut h = device.pinned::<u64>(64)?;
        stream.fill_bytes(&mut h, 1)?;
        let ticket = stream.ticket()?;
        fault(&bad)?;
        drop(stream);
        for outcome in [h.read().map(|_| ()), ticket.wait(), ticket.query().map(|_| ())] {
            let error = outcome.expect_err("the context is lost");
            assert_eq!(error.kind(), ErrorKind::Launch, "{executor:?}");
        }
        assert_eq!(h.write().expect_err("the context is lost").kind(), ErrorKind::Launch);
    }
    Ok(())
}

/// Page-locked memory that a lost device used is not reused, and other devices still get
/// page-locked memory.
#[test]
fn a_lost_device_does_not_keep_others_from_page_locked_memory() -> Result<()> {
    for executor in EXECUTORS {
        let devices = open_all(&executor, 2);
        let bad = devices[0].stream()?;
        let mut h = devices[0].pinned::<u64>(512)?;
        bad.fill_bytes(&mut h, 1)?;
        fault(&bad)?;
        drop(h);
        let mut other = devices[1].pinned::<u64>(512)?;
        assert_eq!(other.write()?.len(), 512, "{executor:?}");
    }
    Ok(())
}

/// An allocation of page-locked memory queries whether kept memory is idle. On the simulated device
/// the query may run a host function, which may drop such memory itself.
#[test]
fn page_locked_memory_may_be_dropped_during_an_allocation() -> Result<()> {
    let (done, answer) = channel();
    std::thread::spawn(move || {
        let case = || -> Result<()> {
            let device = open(&Executor::Virtual(Order::Greedy));
            let (s, other) = (device.stream()?, device.stream()?);
            let mut kept = device.pinned::<u8>(4096)?;
            let held = device.pinned::<u8>(4096)?;
            other.host_fn(move || drop(held))?;
            for value in 0..20 {
                s.fill_bytes(&mut kept, value)?;
            }
            drop(kept);
            let next = device.pinned::<u8>(4096)?;
            assert_eq!(next.len(), 4096);
            device.synchronize()
        };
        drop(done.send(case()));
    });
    answer.recv_timeout(HUNG).expect("it does not hang")
}

/// Closing one device does not affect the pending host functions of another.
#[test]
fn closing_a_device_drops_no_host_function_of_another() -> Result<()> {
    for executor in EXECUTORS {
        let mut devices = open_all(&executor, 2);
        let stream = devices[1].stream()?;
        let (open_gate, gate) = channel::<()>();
        let ran = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&ran);
        stream.host_fn(move || gate.recv().unwrap_or(()))?;
        stream.host_fn(move || count.store(1, Ordering::Relaxed))?;
        devices.remove(0).close()?;
        drop(open_gate);
        stream.synchronize()?;
        assert_eq!(ran.load(Ordering::Relaxed), 1, "{executor:?}");
    }
    Ok(())
}

/// A thread that waits for a value in the closure, here the other end of its channel, must not wait
/// for ever.
#[test]
fn a_refused_host_function_is_dropped_at_once() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(&executor);
        let stream = device.stream()?;
        fault(&stream)?;
        let (held, other_end) = channel::<()>();
        let refused = stream.host_fn(move || drop(held));
        assert_eq!(refused.expect_err("the context is lost").kind(), ErrorKind::Launch);
        let heard = other_end.recv_timeout(HUNG);
        assert_eq!(heard, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "{executor:?}");
    }
    Ok(())
}

static BAD_TILE: Kernel<(Update<u64>,)> =
    // SAFETY: its tile size panics, so it never runs.
    unsafe {
        let tile_elements = |_: &ArgBlock| -> u64 { resume_unwind(Box::new("no tile")) };
        Kernel::declare(declared("bad_tile", Twin { tile_elements, ..PLAIN }))
    };

static BAD_COST: Kernel<(Update<u64>,)> =
    // SAFETY: its cost panics, so it never runs.
    unsafe {
        let cost = |_: &ArgBlock| -> Cost { resume_unwind(Box::new("no cost")) };
        Kernel::declare(declared("bad_cost", Twin { cost, ..PLAIN }))
    };

static ONE_TILE: Kernel<(Update<u64>,)> =
    // SAFETY: it adds one to each word of its argument.
    unsafe {
        Kernel::declare(declared("one_tile", Twin { tile_elements: |_| u64::MAX, ..PLAIN }))
    };

/// All functions of a twin are code of a user: a panic in any of them is an error of the launch.
#[test]
fn a_twin_whose_tiles_or_cost_panic_is_refused() -> Result<()> {
    for executor in EXECUTORS {
        let (done, answer) = channel();
        std::thread::spawn(move || {
            let case = || -> Result<()> {
                let device = open(&executor);
                let stream = device.stream()?;
                let mut x = device.pinned::<u64>(64)?;
                let mut h = device.pinned::<u64>(64)?;
                stream.host_fn_with(&mut h, |h| h.fill(9))?;
                for kernel in [&BAD_TILE, &BAD_COST] {
                    let error = stream.launch(kernel, (&mut x,)).expect_err("its twin panics");
                    assert_eq!(error.kind(), ErrorKind::Panicked, "{executor:?}");
                    assert!(error.to_string().contains(kernel.name()), "{error}");
                }
                assert_eq!(&*h.read()?, &[9; 64], "{executor:?}: other work of the stream runs");
                x.write()?.fill(1);
                stream.launch(&ONE_TILE, (&mut x,))?;
                assert_eq!(&*x.read()?, &[2; 64], "{executor:?}");
                Ok(())
            };
            drop(done.send(case()));
        });
        answer.recv_timeout(HUNG).expect("it neither hangs nor panics")?;
    }
    Ok(())
}

thread_local! {
    static KEPT: RefCell<Option<Buffer<u64>>> = const { RefCell::new(None) };
}

/// The order in which thread-local values are destroyed is not defined: the library's thread vector
/// may be gone when the buffer is dropped.
#[test]
fn a_buffer_may_outlive_other_thread_local_values() -> Result<()> {
    let device = open(&Executor::Threads);
    let stream = device.stream()?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            KEPT.with_borrow_mut(|kept| {
                *kept = Some(stream.alloc::<u64>(64).expect("memory"));
                stream.synchronize().expect("nothing fails");
            });
        });
        // The end of a scope does not wait for the destructors of thread-local values; a join does.
        thread.join().expect("the thread ends without a panic");
    });
    device.synchronize()?;
    assert_eq!(device.memory_stats()?.used, Bytes(0));
    Ok(())
}

/// A drop never waits for a host function, even for one that waits for the dropping thread or drops
/// the device itself.
#[test]
fn dropping_a_device_does_not_wait_for_host_functions() -> Result<()> {
    let device = open(&Executor::Threads);
    let stream = device.stream()?;
    let (open_gate, gate) = channel::<()>();
    let (dropped, answer) = channel();
    stream.host_fn(move || gate.recv().unwrap_or(()))?;
    std::thread::spawn(move || {
        drop((stream, device));
        dropped.send(()).expect("the test waits");
    });
    answer.recv_timeout(HUNG).expect("dropping does not wait");
    drop(open_gate);

    let device = open(&Executor::Threads);
    let stream = device.stream()?;
    let (open_gate, gate) = channel::<()>();
    let (dropped, answer) = channel();
    let last = device.clone();
    stream.host_fn(move || {
        gate.recv().unwrap_or(());
        drop(last);
        dropped.send(()).expect("the test waits");
    })?;
    drop((stream, device));
    drop(open_gate);
    answer.recv_timeout(HUNG).expect("the function returns without a panic");
    Ok(())
}

/// At most 1024 streams may exist. Streams dropped inside host functions do not count.
#[test]
fn streams_dropped_inside_host_functions_are_given_back() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(&executor);
        let stream = device.stream()?;
        for _ in 0..1100 {
            let other = device.stream()?;
            stream.host_fn(move || drop(other))?;
            stream.synchronize()?;
        }
        stream.synchronize()?;
        drop(stream);
        device.close()?;
    }
    Ok(())
}

/// A query returns while another thread waits: a host function may wait for the thread that
/// queries.
#[test]
fn a_query_does_not_wait_for_a_host_function() -> Result<()> {
    let device = open(&Executor::Virtual(Order::Greedy));
    let stream = device.stream()?;
    let (started, go) = channel();
    let (answered, resume) = channel();
    stream.host_fn(move || {
        started.send(()).expect("the test waits");
        resume.recv_timeout(HUNG).expect("the query answers");
    })?;
    std::thread::scope(|scope| {
        let stream = &stream;
        scope.spawn(move || {
            go.recv().expect("the function runs");
            assert_eq!(stream.query().expect("nothing fails"), Readiness::NotReady);
            answered.send(()).expect("the function waits");
        });
        stream.synchronize()
    })
}

/// A wait that is left out on request may damage results. The waits of a free are never left out,
/// because memory that is freed too early damages other results.
#[test]
fn a_free_waits_for_every_user_whatever_was_left_out() -> Result<()> {
    for executor in EXECUTORS {
        let config = HostConfig::new().executor(executor).without_ranges();
        let device = Device::host(config)?.remove(0);
        let (home, a, b) = (device.stream()?, device.stream()?, device.stream()?);
        let mut x = home.alloc::<u64>(64)?;
        a.fill_bytes(&mut x, 1)?;
        testing::drop_wait(&device, 1);
        b.fill_bytes(&mut x, 2)?;
        assert!(testing::dropped_wait(&device).is_some(), "the second writer did not wait");
        let before = device.ordering().waits;
        drop(x);
        assert_eq!(device.ordering().waits - before, 2, "the free waits for both writers");

        let mut y = home.alloc::<u64>(64)?;
        a.fill_bytes(&mut y, 1)?;
        testing::drop_wait(&device, 1);
        drop(y);
        assert_eq!(testing::dropped_wait(&device), None, "the wait of a free is not left out");
        let mut z = home.alloc::<u64>(64)?;
        b.fill_bytes(&mut z, 1)?;
        assert_eq!(
            testing::dropped_wait(&device).expect("the next wait is left out").waiter,
            "fill"
        );
    }
    Ok(())
}

#[test]
fn an_allocation_that_the_system_refuses_changes_nothing() -> Result<()> {
    for executor in EXECUTORS {
        let memory = Bytes(1 << 61);
        let config = HostConfig::new().executor(executor.clone()).memory(memory);
        let device = Device::host(config)?.remove(0);
        let stream = device.stream()?;
        let error = stream.alloc::<u8>(1 << 60).expect_err("no address space is that large");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert_eq!(device.memory_stats()?.used, Bytes(0), "{executor:?}");
    }
    Ok(())
}

#[test]
fn elements_without_bytes_are_refused() -> Result<()> {
    let device = open(&Executor::Threads);
    let stream = device.stream()?;
    let errors = [
        stream.alloc::<[u64; 0]>(8).map(|_| ()).expect_err("no bytes"),
        device.pinned::<()>(8).map(|_| ()).expect_err("no bytes"),
    ];
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::InvalidValue));
    Ok(())
}

#[test]
#[should_panic(expected = "elements 0..")]
fn a_slice_up_to_the_last_number_is_out_of_range() {
    let device = open(&Executor::Threads);
    let h = device.pinned::<u8>(8).expect("memory");
    let _too_long = h.slice(..=usize::MAX);
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        resume_unwind(Box::new("dropped"));
    }
}

/// Such a panic once ended the thread that runs host functions, and every later wait hung.
#[test]
fn a_host_function_whose_panic_panics_when_dropped_leaves_the_stream_usable() -> Result<()> {
    for executor in EXECUTORS {
        let (done, answer) = channel();
        std::thread::spawn(move || {
            let case = || -> Result<()> {
                let device = open(&executor);
                let stream = device.stream()?;
                stream.host_fn(|| panic_any(PanicsWhenDropped))?;
                let error = stream.synchronize().expect_err("the function panicked");
                assert_eq!(error.kind(), ErrorKind::Panicked, "{executor:?}");
                let held = PanicsWhenDropped;
                stream.host_fn(move || drop(held))?;
                let error = stream.synchronize().expect_err("the drop panicked");
                assert_eq!(error.kind(), ErrorKind::Panicked, "{executor:?}");
                stream.host_fn(|| ())?;
                stream.synchronize()
            };
            drop(done.send(case()));
        });
        answer.recv_timeout(HUNG).expect("it neither hangs nor panics")?;
    }
    Ok(())
}

static BAD_PAYLOAD: Kernel<(Update<u64>,)> =
    // SAFETY: its twin panics before it touches anything.
    unsafe {
        let run = |_: &mut Tile<'_>| panic_any(PanicsWhenDropped);
        Kernel::declare(declared("bad_payload", Twin { run, ..PLAIN }))
    };

/// Tiles of a large buffer run on several threads; each of them panics.
#[test]
fn a_twin_whose_panics_panic_when_dropped_is_an_error_of_the_launch() -> Result<()> {
    for (executor, len) in EXECUTORS.into_iter().flat_map(|e| [(e.clone(), 16), (e, 1 << 17)]) {
        let (done, answer) = channel();
        std::thread::spawn(move || {
            let case = || -> Result<()> {
                let device = open(&executor);
                let stream = device.stream()?;
                let mut x = stream.alloc::<u64>(len)?;
                stream.launch(&BAD_PAYLOAD, (&mut x,))?;
                let error = stream.synchronize().expect_err("the twin panicked");
                assert_eq!(error.kind(), ErrorKind::Launch, "{executor:?}");
                assert!(error.to_string().contains("`bad_payload` panicked: "), "{error}");
                Ok(())
            };
            drop(done.send(case()));
        });
        answer.recv_timeout(HUNG).expect("it neither hangs nor panics")?;
    }
    Ok(())
}

#[test]
fn the_error_of_a_twin_that_panics_has_its_message() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(&executor);
        let stream = device.stream()?;
        let mut x = stream.alloc::<u64>(64)?;
        stream.launch(&FAULTY, (&mut x,))?;
        let error = stream.synchronize().expect_err("the twin panicked");
        assert!(error.to_string().contains("the twin of `faulty` panicked: a fault"), "{error}");
    }
    Ok(())
}
