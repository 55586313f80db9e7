//! States that only a host device can have: out of memory, hung, lost, and several devices.

use crate::peers;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::explore::{Exploration, Strategy, explore, replay};
use trijet::kernels::{Code, Cost, KernelSpec, Shape, Tile, Twin, Update};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{self, MIX, WORK};
use trijet::{Bytes, Device, Error, ErrorKind, Kernel, PinnedBuffer, Readiness, Result, Select};

const EXECUTORS: [Executor; 5] = [
    Executor::Threads,
    Executor::Virtual(Order::Greedy),
    Executor::Virtual(Order::Seeded(1)),
    Executor::Virtual(Order::Seeded(2)),
    Executor::Virtual(Order::Seeded(3)),
];

fn open(config: HostConfig) -> Device {
    Device::host(config).expect("the machine starts a few threads").remove(0)
}

fn filled(device: &Device, value: u64, len: usize) -> Result<PinnedBuffer<u64>> {
    let mut host = device.pinned(len)?;
    host.write()?.fill(value);
    Ok(host)
}

/// A failed allocation changes nothing.
#[test]
fn out_of_memory_names_what_was_wanted_and_leaves_the_device_usable() -> Result<()> {
    for executor in EXECUTORS {
        let memory = Bytes(1 << 20);
        let device = open(HostConfig::new().executor(executor.clone()).memory(memory));
        let stream = device.stream()?;
        let half = stream.alloc::<u8>(512 << 10)?;
        let error = stream.alloc::<u8>(768 << 10).expect_err("768 KiB of the 512 KiB left");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        let text = error.to_string();
        assert!(text.contains("768 KiB requested") && text.contains("512 KiB are free"), "{text}");
        assert_eq!(device.memory_stats()?.used, Bytes(512 << 10));
        drop(half);
        stream.synchronize()?;
        let mut most = stream.alloc::<u64>(96 << 10)?;
        stream.fill_bytes(&mut most, 7)?;
        let mut landed = device.pinned::<u64>(96 << 10)?;
        stream.copy(&most, &mut landed)?;
        assert!(landed.read()?.iter().all(|word| *word == 0x0707_0707_0707_0707));
        drop(most);
        drop(stream);
        device.close()?;
    }
    Ok(())
}

/// Positions and waits work across devices, so a stream of one device may use a buffer of another
/// device.
#[test]
fn copies_between_devices_are_ordered() -> Result<()> {
    for executor in EXECUTORS {
        let devices = Device::host(HostConfig::new().executor(executor).devices(3))?;
        let streams: Vec<_> = devices.iter().map(Device::stream).collect::<Result<_>>()?;
        let host = filled(&devices[0], 5, 300)?;
        let mut ring = Vec::new();
        for stream in &streams {
            ring.push(stream.alloc::<u64>(300)?);
        }
        streams[0].copy(&host, &mut ring[0])?;
        let mut expected = 5;
        for step in 0..9 {
            let (from, to) = (step % 3, (step + 1) % 3);
            let mut target = streams[to].alloc::<u64>(300)?;
            streams[to].copy(&ring[from], &mut target)?;
            ring[to] = target;
            let salt = filled(&devices[to], expected, 300)?;
            streams[to].launch(&MIX, (step as u64, &salt, &mut ring[to]))?;
            let mut landed = devices[to].pinned::<u64>(300)?;
            streams[from].copy(&ring[to], &mut landed)?;
            let landed = landed.read()?;
            assert_ne!(landed[0], expected, "every step changes the words");
            assert!(landed.iter().all(|word| *word == landed[0]), "all words in the same way");
            expected = landed[0];
        }
    }
    Ok(())
}

fn assert_stalled(executor: &Executor, what: &str, error: &Error, chained: bool) {
    assert_eq!(error.kind(), ErrorKind::Stalled, "{executor:?}, {what}: {error}");
    let text = error.to_string();
    assert!(text.contains("kernel `work_u32`"), "{executor:?}, {what}: {text}");
    assert_eq!(text.contains("waits for stream"), chained, "{executor:?}, {what}: {text}");
}

#[test]
fn waiting_for_a_hung_kernel_reports_it_and_the_streams_behind_it() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(HostConfig::new().executor(executor.clone()).never_ends("work_u32"));
        let (hung, other, free) = (device.stream()?, device.stream()?, device.stream()?);
        let x = hung.alloc::<u32>(64)?;
        let mut y = hung.alloc::<u32>(64)?;
        let mut landed = device.pinned::<u32>(64)?;
        let event = device.event()?;
        hung.launch(&WORK, (1, &x, &mut y))?;
        other.copy(&y, &mut landed)?;
        event.record(&other)?;
        let ticket = other.ticket()?;
        let expect_stall = |what, error: Result<()>, chained| {
            let error = error.expect_err("the kernel never ends");
            assert_stalled(&executor, what, &error, chained);
        };
        expect_stall("its stream", hung.synchronize(), false);
        expect_stall("a stream that waits for it", other.synchronize(), true);
        expect_stall("an event of that stream", event.synchronize(), true);
        expect_stall("a ticket of that stream", ticket.wait(), true);
        expect_stall("reading its result", landed.read().map(|_| ()), true);
        expect_stall("writing over its result", landed.write().map(|_| ()), true);
        let mut apart = device.pinned::<u32>(8)?;
        free.fill_bytes(&mut apart, 0)?;
        free.synchronize()?;
        assert_eq!(&*apart.read()?, &[0; 8], "a stream that does not wait for it goes on");
        let error = device.close().expect_err("the kernel never ends");
        assert_eq!(error.kind(), ErrorKind::Stalled);
    }
    Ok(())
}

/// A kernel for tests of the errors of a launch. The host device never compiles its code.
const fn spec(name: &'static str, twin: Option<Twin>) -> KernelSpec {
    let spec = KernelSpec::new(name, Code::ptx(""), Shape::Elements { per_thread: 1 });
    match twin {
        Some(twin) => spec.twin(twin),
        None => spec,
    }
}

static GPU_ONLY: Kernel<(Update<u64>,)> =
    // SAFETY: it has no twin, so the host device, the only device here, cannot run it.
    unsafe { Kernel::declare(spec("gpu_only", None)) };

static FAULTY: Kernel<(Update<u64>,)> =
    // SAFETY: its twin panics before it touches anything.
    unsafe {
        Kernel::declare(spec(
            "faulty",
            Some(Twin {
                tile_elements: |_| 16,
                run: |_: &mut Tile<'_>| resume_unwind(Box::new("a fault")),
                cost: |_| Cost { bytes: 0, ops: 0 },
            }),
        ))
    };

#[test]
fn a_kernel_without_a_twin_is_refused_by_name() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(HostConfig::new().executor(executor));
        let stream = device.stream()?;
        let mut x = stream.alloc::<u64>(8)?;
        let launched = stream.launch(&GPU_ONLY, (&mut x,)).expect_err("it has no twin");
        let loaded = device.load(&GPU_ONLY).expect_err("it has no twin");
        for error in [launched, loaded] {
            assert_eq!(error.kind(), ErrorKind::NoTwin);
            assert!(error.to_string().contains("gpu_only"), "{error}");
        }
        stream.synchronize()?;
    }
    Ok(())
}

/// If a twin panics, its device is lost. The process continues with a new device under the same
/// name.
#[test]
fn a_selected_host_device_that_was_lost_can_be_opened_again() -> Result<()> {
    for _ in 0..2 {
        let device = Device::open(Select::Host(1))?;
        let stream = device.stream()?;
        let mut x = stream.alloc::<u64>(8)?;
        stream.launch(&MIX, (1, &filled(&device, 3, 8)?, &mut x))?;
        stream.synchronize()?;
        let launched = stream.launch(&FAULTY, (&mut x,));
        launched.and_then(|()| stream.synchronize()).expect_err("the twin panicked");
        assert!(stream.fill(&mut x, 1).is_err(), "the handles of the lost device stay lost");
    }
    Ok(())
}

/// Counts its drop.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A kernel would fault on the memory of another device, and the context would be lost. The library
/// therefore refuses the launch before it calls the driver. Copies may cross devices.
#[test]
fn kernels_and_fills_refuse_memory_of_another_device() -> Result<()> {
    let devices = Device::host(HostConfig::new().devices(2))?;
    let (here, there) = (devices[0].stream()?, devices[1].stream()?);
    let (x, mut y) = (here.alloc::<u64>(8)?, there.alloc::<u64>(8)?);
    let launch = here.launch(&MIX, (1u64, &x, &mut y)).expect_err("y is on another device");
    assert_eq!(launch.kind(), ErrorKind::InvalidValue);
    assert!(launch.to_string().contains("memory of device 1"), "{launch}");
    let fill = here.fill_bytes(&mut y, 0).expect_err("y is on another device");
    assert_eq!(fill.kind(), ErrorKind::InvalidValue);
    here.copy(&x, &mut y)?;
    here.synchronize()
}

#[test]
fn copies_between_devices_are_exact() -> Result<()> {
    for executor in EXECUTORS {
        let config = HostConfig::new().devices(3).executor(executor.clone());
        for config in [config.clone(), config.without_ranges()] {
            peers::copies_between_devices_are_exact(&Device::host(config)?, [100, 1000])?;
        }
    }
    Ok(())
}

/// Laws A29 and A40: a fault loses the context. No call hangs, and every host function is dropped.
#[test]
fn a_faulting_kernel_fails_every_later_call_and_drops_host_functions_once() -> Result<()> {
    for executor in EXECUTORS {
        let device = open(HostConfig::new().executor(executor.clone()));
        let (stream, other) = (device.stream()?, device.stream()?);
        let mut x = stream.alloc::<u64>(64)?;
        let mut landed = device.pinned::<u64>(64)?;
        let source = filled(&device, 1, 64)?;
        let event = device.event()?;
        let (ran, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut admitted = 0;
        other.copy(&x, &mut landed)?;
        // If the device runs on threads, the fault may be reported while this thread still
        // enqueues.
        let mut first = stream.launch(&FAULTY, (&mut x.slice_mut(..),)).err();
        for _ in 0..10 {
            let (ran, counted) = (Arc::clone(&ran), Counted(Arc::clone(&dropped)));
            let refused = stream.host_fn(move || {
                let _held = counted;
                ran.fetch_add(1, Ordering::Relaxed);
            });
            admitted += 1;
            first = first.or(refused.err());
        }
        let tail = event.record(&other).and_then(|()| stream.synchronize());
        let first = first.or(tail.err()).expect("the twin panicked");
        assert_eq!(first.kind(), ErrorKind::Launch, "{executor:?}: {first}");
        assert!(first.to_string().contains("faulty"), "{first}");
        let later = [
            stream.synchronize(),
            device.synchronize(),
            other.query().map(|_| ()),
            stream.launch(&MIX, (1, &source, &mut x)),
            stream.fill_bytes(&mut x, 0),
            stream.alloc::<u64>(8).map(|_| ()),
            device.stream().map(|_| ()),
            landed.read().map(|_| ()),
        ];
        for outcome in later {
            let error = outcome.expect_err("the context is lost");
            assert_eq!(error.to_string(), first.to_string(), "{executor:?}");
        }
        assert_eq!(ran.load(Ordering::Relaxed), 0, "after a fault none is called");
        drop((x, landed, source, event, stream, other));
        let error = device.close().expect_err("the context is lost");
        assert_eq!(error.kind(), ErrorKind::Launch);
        assert_eq!(dropped.load(Ordering::Relaxed), admitted, "{executor:?}");
    }
    Ok(())
}

/// Law A10: a fault on one device is not reported by calls on another.
#[test]
fn a_fault_stays_on_its_device() -> Result<()> {
    for executor in EXECUTORS {
        let devices = Device::host(HostConfig::new().executor(executor.clone()).devices(2))?;
        let (bad, good) = (devices[0].stream()?, devices[1].stream()?);
        let mut x = bad.alloc::<u64>(64)?;
        let mut y = good.alloc::<u64>(64)?;
        let z = filled(&devices[1], 3, 64)?;
        bad.launch(&FAULTY, (&mut x,))?;
        for salt in 0..20 {
            good.launch(&MIX, (salt, &z, &mut y))?;
        }
        good.synchronize()?;
        devices[1].synchronize()?;
        let error = devices[0].synchronize().expect_err("the twin panicked");
        assert_eq!(error.kind(), ErrorKind::Launch, "{executor:?}");
        good.synchronize()?;
    }
    Ok(())
}

/// A wait that is left out on request damages results, but a guard of the host still waits. A guard
/// over bytes that an operation still writes would be a data race in safe code.
#[test]
fn a_guard_waits_for_all_users_also_when_a_wait_was_left_out() -> Result<()> {
    for seed in 0..40 {
        let executor = Executor::Virtual(Order::Seeded(seed));
        let device = open(HostConfig::new().executor(executor));
        let (slow, other) = (device.stream()?, device.stream()?);
        let mut busy = device.pinned::<u8>(1 << 20)?;
        let mut x = device.pinned::<u8>(1 << 12)?;
        slow.fill_bytes(&mut busy, 1)?;
        slow.fill_bytes(&mut x, 1)?;
        testing::drop_wait(&device, 1);
        other.fill_bytes(&mut x, 2)?;
        assert!(testing::dropped_wait(&device).is_some());
        assert!(x.read()?.iter().all(|byte| [1, 2].contains(byte)));
        assert_eq!(slow.query()?, Readiness::Ready, "seed {seed}");
        // The next user gets the bytes after all operations are complete.
        slow.fill_bytes(&mut busy, 1)?;
        slow.fill_bytes(&mut x, 1)?;
        testing::drop_wait(&device, 1);
        other.fill_bytes(&mut x, 2)?;
        drop(x);
        let mut next = device.pinned::<u8>(1 << 12)?;
        next.write()?.fill(3);
        device.synchronize()?;
        assert!(next.read()?.iter().all(|byte| *byte == 3), "seed {seed}");
    }
    Ok(())
}

/// The three streams have no order, so each order of their kernels gives a different result.
/// Unneeded waits once ordered some of the kernels.
#[test]
fn an_exploration_finds_an_outcome_for_each_order() -> Result<()> {
    // Keeps the memory of each run, so that later runs get other addresses. A run once mistook such
    // addresses for addresses of an earlier run.
    let kept = RefCell::new(Vec::new());
    let program = |devices: &[Device]| {
        let device = &devices[0];
        let streams = [0, 1, 2].map(|_| device.stream().expect("a stream"));
        let x = streams[0].alloc::<u64>(1).expect("memory");
        let mut y = streams[0].alloc::<u64>(1).expect("memory");
        // SAFETY: the kernels only mix numbers, in whatever order they run.
        unsafe { y.order_manually() };
        device.synchronize().expect("nothing failed");
        for (salt, stream) in (0u64..).zip(&streams) {
            stream.launch(&MIX, (salt, &x, &mut y)).expect("enqueued");
        }
        device.synchronize().expect("nothing failed");
        let mut back = device.pinned::<u64>(1).expect("memory");
        streams[0].copy(&y, &mut back).expect("enqueued");
        let outcome = back.read().expect("nothing failed")[0];
        kept.borrow_mut().push((x, y, back));
        outcome
    };
    let strategy = Strategy::Exhaustive { runs_max: 1000 };
    let found = explore(&HostConfig::default(), strategy, program)?;
    assert!(found.complete);
    assert_eq!(found.outcomes.len(), 6);
    Ok(())
}

fn every_order<T: Eq + Hash>(program: impl Fn(&Device) -> Result<T>) -> Result<Exploration<T>> {
    let strategy = Strategy::Exhaustive { runs_max: 1000 };
    let run = |devices: &[Device]| program(&devices[0]).expect("nothing fails");
    let found = explore(&HostConfig::default(), strategy, run)?;
    assert!(found.complete);
    for outcome in &found.outcomes {
        assert!(replay(&HostConfig::default(), &outcome.order, run)? == outcome.value);
    }
    Ok(found)
}

/// A call that only enqueues, creates or drops something changes no step of the device. An
/// exploration has nothing to choose at such a call.
#[test]
fn calls_that_observe_nothing_of_the_device_add_no_choice() -> Result<()> {
    let program = |device: &Device| {
        let (a, b) = (device.stream()?, device.stream()?);
        let (mut x, mut y) = (a.alloc::<u8>(8)?, b.alloc::<u8>(8)?);
        a.synchronize()?;
        a.fill_bytes(&mut x, 1)?;
        b.fill_bytes(&mut y, 2)?;
        let event = device.event()?;
        event.record(&a)?;
        b.wait(&event)?;
        b.copy(&x, &mut y)?;
        device.synchronize()?;
        Ok(y.len())
    };
    let found = every_order(program)?;
    assert_eq!(found.runs, 1);
    // The order of the two fills is the only choice.
    assert_eq!(found.outcomes[0].order, "steps:0".parse()?);
    Ok(())
}

#[test]
fn a_query_after_calls_that_observe_nothing_finds_either_answer() -> Result<()> {
    let program = |device: &Device| {
        let stream = device.stream()?;
        let mut x = stream.alloc::<u8>(8)?;
        stream.fill_bytes(&mut x, 1)?;
        drop(device.event()?);
        let answer = stream.query()? == Readiness::Ready;
        device.synchronize()?;
        Ok(answer)
    };
    let found = every_order(program)?;
    let answers: BTreeSet<bool> = found.outcomes.into_iter().map(|found| found.value).collect();
    assert_eq!(answers, BTreeSet::from([false, true]));
    Ok(())
}

/// A host function may share memory with the thread that enqueued it. At each call of that thread,
/// the host function may have run or not.
#[test]
fn a_host_function_may_run_before_a_call_that_observes_nothing_of_the_device() -> Result<()> {
    let program = |device: &Device| {
        let stream = device.stream()?;
        let flag = Arc::new(AtomicU64::new(0));
        let function = Arc::clone(&flag);
        stream.host_fn(move || function.store(1, Ordering::Relaxed))?;
        drop(device.event()?);
        let seen = flag.load(Ordering::Relaxed);
        device.synchronize()?;
        Ok(seen)
    };
    let found = every_order(program)?;
    let seen: BTreeSet<u64> = found.outcomes.into_iter().map(|found| found.value).collect();
    assert_eq!(seen, BTreeSet::from([0, 1]));
    Ok(())
}
