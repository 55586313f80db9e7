//! A child of `fork` gets a clear error from every call and can drop everything without hanging,
//! even if other threads of the parent were inside calls.

#[path = "matrix/host.rs"]
mod matrix;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use trijet::comm::{Communicator, Exchange};
use trijet::kernels::Sum;
use trijet::memory::{GrowingBuffer, PageLocked};
use trijet::probe::heap_ranges;
use trijet::ranks::Ranks;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::task::{Data, TaskId, Tasks, Workers};
use trijet::testing;
use trijet::training::GradientBuckets;
use trijet::workers::RunOptions;
use trijet::{Batch, Buffer, Device, ErrorKind, PinnedBuffer, Result, Select, SourceOrder, Stream};
use trijet_programs::vectors::{self, VECTORS};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    /// Ends the process by a signal after this many seconds.
    fn alarm(seconds: u32) -> u32;
    fn _exit(code: i32) -> !;
}

/// The number of the first call whose error is not `Forked`, counted from 1, or 0.
fn first_wrong(calls: &[Result<()>]) -> i32 {
    let told = |call: &Result<()>| call.as_ref().is_err_and(|e| e.kind() == ErrorKind::Forked);
    let wrong = calls.iter().position(|call| !told(call));
    wrong.map_or(0, |index| i32::try_from(index).expect("a few calls") + 1)
}

/// The handles that a program has when it forks.
struct Held {
    device: Device,
    stream: Stream,
    x: Buffer<u8>,
    h: PinnedBuffer<u8>,
    growing: GrowingBuffer<u8>,
}

impl Held {
    fn new(device: Device) -> Result<Self> {
        let stream = device.stream()?;
        let (mut x, mut h) = (stream.alloc(64)?, device.pinned(64)?);
        stream.fill_bytes(&mut x, 1)?;
        stream.copy(&x, &mut h)?;
        let growing = stream.growing(64, 1 << 20)?;
        Ok(Self { device, stream, x, h, growing })
    }

    /// Makes calls and drops everything, in the child. Returns the exit code of the child.
    fn in_child(mut self) -> i32 {
        let own = HostConfig::new().executor(Executor::Virtual(Order::Greedy));
        let calls = [
            self.stream.synchronize(),
            self.device.synchronize(),
            self.stream.query().map(drop),
            self.stream.fill_bytes(&mut self.x, 2),
            self.stream.alloc::<u8>(64).map(drop),
            self.h.read().map(drop),
            self.device.stream().map(drop),
            self.device.event().map(drop),
            self.stream.host_fn(|| ()),
            self.growing.grow_to(65),
            self.growing.prepare(1 << 19),
            {
                let mut batch = Batch::new();
                let added = batch.add(&self.h, &mut self.x);
                added.and_then(|()| self.stream.copy_batch(batch, SourceOrder::DuringCall))
            },
            Device::open(Select::Host(0)).map(drop),
            Device::host(own).map(drop),
        ];
        let code = first_wrong(&calls);
        drop(calls);
        drop(self);
        code
    }
}

/// Forks. Returns the exit code of `child`, or 0xe, the number of the signal of the alarm.
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls only functions under test, and the system's allocator, which the
    // system makes fit for use in a child.
    let process = unsafe { fork() };
    if process == 0 {
        // SAFETY: it only sets a timer of this process.
        unsafe { alarm(30) };
        let code = child();
        // SAFETY: it ends the process without flushing the parent's buffers a second time.
        unsafe { _exit(code) };
    }
    assert!(process > 0, "the system forks");
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    let ended = unsafe { waitpid(process, &raw mut status, 0) };
    assert_eq!(ended, process);
    if status & 0x7f == 0 { status >> 8 } else { status }
}

#[test]
fn every_call_of_a_child_is_refused_and_every_drop_ends() -> Result<()> {
    for executor in [Executor::Threads, Executor::Virtual(Order::Greedy)] {
        for _ in 0..20 {
            let config = HostConfig::new().executor(executor.clone());
            let device = Device::host(config)?.remove(0);
            let (busy, held) = (device.stream()?, Held::new(device)?);
            let signal = held.device.signal();
            let over = AtomicBool::new(false);
            let code = std::thread::scope(|scope| {
                scope.spawn(|| {
                    // The library often has locked its locks in the other thread at the moment of
                    // the fork.
                    while !over.load(Ordering::Relaxed) {
                        busy.query().expect("nothing failed");
                        drop(held.device.event().expect("an event"));
                    }
                });
                let code = forked(|| {
                    // The child has a copy of a value that the parent still uses.
                    // SAFETY: the parent never reaches this copy, and the child does not touch the
                    // original.
                    let mine = unsafe { std::ptr::read(&raw const held) };
                    let code = mine.in_child();
                    // SAFETY: as for `held`.
                    drop(unsafe { std::ptr::read(&raw const signal) });
                    code
                });
                over.store(true, Ordering::Relaxed);
                code
            });
            assert_eq!(code, 0, "{executor:?}: the first wrong call, or a signal");
            held.stream.synchronize()?;
            assert_eq!(held.h.read()?[63], 1, "the parent goes on");
        }
    }
    Ok(())
}

/// A thread of the parent holds the locks of these calls most of the time.
#[test]
fn calls_without_an_error_wait_for_no_lock_in_a_child() -> Result<()> {
    let device = Device::builder()
        .host(HostConfig::default())
        .check(trijet::check::CheckOptions::default())
        .open()?;
    let h = device.pinned::<u8>(8)?;
    for _ in 0..40 {
        let over = AtomicBool::new(false);
        let code = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    drop((device.heap_stats(), heap_ranges(&device), device.verdict()));
                    testing::drop_wait(&device, 1 << 40);
                }
            });
            let code = forked(|| {
                let stats = device.heap_stats().is_some() || device.verdict().is_some();
                testing::drop_wait(&device, 1);
                drop(h.ready());
                testing::script(&device, vec![Box::new(|| unreachable!("it has no threads"))]);
                let ranges = heap_ranges(&device).len()
                    + usize::from(testing::dropped_wait(&device).is_some());
                i32::from(stats || ranges > 0)
            });
            over.store(true, Ordering::Relaxed);
            code
        });
        assert_eq!(code, 0, "an answer, or a signal");
    }
    Ok(())
}

/// The data and the tasks that a child has.
struct HeldTasks {
    device: Device,
    tasks: Tasks,
    x: Data<f32>,
    h: Data<f32, PageLocked>,
    task: TaskId,
    workers: Workers,
    spare: PinnedBuffer<f32>,
}

impl HeldTasks {
    fn new(device: Device) -> Result<Self> {
        let tasks = device.tasks();
        let (x, y) = (tasks.alloc::<f32>(8)?, tasks.alloc::<f32>(8)?);
        let h = tasks.data(device.pinned::<f32>(8)?);
        let all = (x.update(), y.update_range(..2), y.update_range(2..4), y.update_range(4..));
        let bind =
            tasks.task(all).bind(&VECTORS, RunOptions::default(), |program, x| program.run(x));
        let (workers, task) = (bind?, tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 1.0))?);
        let spare = device.pinned(8)?;
        Ok(Self { device, tasks, x, h, task, workers, spare })
    }

    /// Makes calls and drops everything, in the child. Returns the exit code of the child.
    fn in_child(self) -> i32 {
        let Self { device, tasks, x, h, task, workers, spare } = self;
        let spare = tasks.data(spare);
        let all = (x.update(), h.read());
        let bind =
            tasks.task(x.update()).bind(&VECTORS, RunOptions::default(), |_, _| unreachable!());
        let calls = [
            tasks.task(x.write()).run(|s, mut x| s.fill(&mut x, 2.0)).map(drop),
            tasks.task(all).run(|_, _| Ok(())).map(drop),
            tasks.task(x.reduce(Sum)).run(|_, _| Ok(())).map(drop),
            tasks.task(h.write()).host(|_| Ok(())).map(drop),
            tasks.copy(x.read(), h.write()).map(drop),
            bind.map(drop),
            tasks.task(x.write()).on_workers(&workers, vectors::FILL, &[]).map(drop),
            tasks.region(|_| Ok(())),
            tasks.alloc::<u8>(8).map(drop),
            tasks.alloc_on::<u8>(0, 8).map(drop),
            Tasks::over(std::slice::from_ref(&device)).map(drop),
            tasks.explain(task, task).map(drop),
            tasks.wait(task),
            tasks.finish(),
            tasks.take(x).map(drop),
            tasks.take(h).map(drop),
            tasks.take(spare).map(drop),
        ];
        let code = first_wrong(&calls);
        let is_cancelled = tasks.cancel(task);
        // These calls return no error, so their results must be empty.
        let says = !tasks.dot().is_empty() || tasks.counts().submitted > 0;
        drop((device.tasks(), tasks, calls, workers));
        if is_cancelled || says { 100 } else { code }
    }
}

/// A task runs on the host, and another thread now and then locks the locks of the tasks.
#[test]
fn every_call_of_tasks_in_a_child_is_refused_and_every_drop_ends() -> Result<()> {
    for _ in 0..20 {
        let held = HeldTasks::new(Device::host(HostConfig::default())?.remove(0))?;
        let (go, may_go) = channel::<()>();
        held.tasks.task(held.h.write()).host(move |mut h| {
            may_go.recv().expect("the test sends");
            h.fill(3.0);
            Ok(())
        })?;
        let over = AtomicBool::new(false);
        let code = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    held.tasks.task(()).run(|_, ()| Ok(())).expect("it is not in the child");
                }
            });
            let code = forked(|| {
                // The child has a copy of a value that the parent still uses.
                // SAFETY: the parent never reaches this copy, and the child does not touch the
                // original again.
                unsafe { std::ptr::read(&raw const held) }.in_child()
            });
            over.store(true, Ordering::Relaxed);
            code
        });
        assert_eq!(code, 0, "the first wrong call, or a signal");
        go.send(()).expect("the task receives");
        held.tasks.finish()?;
        assert_eq!(held.tasks.take(held.h)?.read()?[7], 3.0, "the parent goes on");
    }
    Ok(())
}

/// Two ranks of this process, each with a communicator.
fn ranks() -> Result<[(Arc<Ranks>, Device, Communicator); 2]> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let join = |rank| -> Result<_> {
        let ranks = Arc::new(Ranks::join(rank, 2, &address, Duration::from_secs(60))?);
        let device = Device::open(Select::Host(0))?;
        let communicator = Communicator::builder().rank(&device, &ranks).open()?;
        Ok((ranks, device, communicator))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        Ok([join(0)?, other.join().expect("no panic")?])
    })
}

/// Makes the calls of a rank and drops all of its handles, in the child. Returns the exit code.
fn rank_in_child((ranks, device, communicator): (Arc<Ranks>, Device, Communicator)) -> i32 {
    let join = Ranks::join(0, 1, "127.0.0.1:1", Duration::from_secs(60)).map(drop);
    let calls = [
        ranks.barrier(),
        ranks.agree("a value", 1),
        ranks.broadcast(&[1]).map(drop),
        ranks.gather(&[1]).map(drop),
        ranks.failure().map_or(Ok(()), Err),
        Communicator::builder().rank(&device, &ranks).open().map(drop),
        communicator.exchange(Exchange::<u32>::new()),
        communicator.split(&[0]).map(drop),
        communicator.failure().map_or(Ok(()), Err),
        GradientBuckets::<u32, _>::of_rank(&device, &ranks, &[4], Sum).map(drop),
        communicator.close(),
        join,
    ];
    let code = first_wrong(&calls);
    drop((calls, ranks, device));
    code
}

/// The child has the connections of its parent. Neither its calls nor its drops send anything over
/// these connections.
#[test]
fn the_ranks_of_a_parent_hear_nothing_from_a_child() -> Result<()> {
    for rank in 0..2 {
        let all = ranks()?;
        let code = forked(|| {
            // SAFETY: the parent never reaches this copy, and the child does not touch the
            // original.
            let mine = unsafe { std::ptr::read(&raw const all[rank]) };
            rank_in_child(mine)
        });
        assert_eq!(code, 0, "rank {rank}: the first wrong call, or a signal");
        let both =
            |(ranks, device, communicator): &(Arc<Ranks>, Device, Communicator)| -> Result<_> {
                ranks.barrier()?;
                let stream = device.stream()?;
                let mut data = stream.upload(&[1_u32; 9])?;
                communicator.all_reduce(&mut [data.view_mut()], Sum)?;
                stream.download(&data)
            };
        std::thread::scope(|scope| -> Result<()> {
            let other = scope.spawn(|| both(&all[1]));
            assert_eq!(both(&all[0])?, [2; 9]);
            assert_eq!(other.join().expect("no panic")?, [2; 9]);
            Ok(())
        })?;
    }
    Ok(())
}
