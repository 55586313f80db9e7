//! The replay of a trace over the memory of a device.
//!
//! Each allocation has a tag. The kernel of the first use writes the tag into the memory of the
//! allocation. The kernel of each further use checks that the memory still has the tag. So if two
//! allocations share memory, the replay ends with an error.
#![forbid(unsafe_code)]

use super::format::{Action, Trace, TraceRow};
use super::picture::{Panel, Recorder};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use trijet::testing::{HAS_TAG, TAG};
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, LaunchConfig, Nanos, Result, Stream, probe};

/// The result of a replay.
#[derive(Debug)]
pub struct ReplayOutcome {
    /// The host time of each allocation call, in nanoseconds.
    pub allocate_ns: Vec<f64>,
    /// The host time of each free call, in nanoseconds.
    pub free_ns: Vec<f64>,
    /// The time from the first row to the end of all work. The time that the recorder took is
    /// subtracted.
    pub whole: Nanos,
    /// The largest number of bytes that the allocator had from the device.
    pub held_peak: u64,
    /// The number of refused allocations. The replay left out the rows that use or free these
    /// allocations.
    pub failed: u64,
    /// The number of calls of the driver for memory. 0 for a memory pool, which does not count its
    /// calls.
    pub calls: u64,
    /// The number of times that the library made a stream wait.
    pub waits: u64,
    /// The address space over time. `None` if it was not requested.
    pub panel: Option<Panel>,
}

/// The options of a replay.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Maximum number of bytes that the heap may have from the device. Only for a device with a
    /// heap.
    pub limit: Option<u64>,
    /// The name of the allocator in a picture. With a name, the address space is recorded. The
    /// figures are the same as in a replay without a picture, because the recorder only reads the
    /// state of the heap. If the device allocates from a memory pool, the picture does not show the
    /// memory of the pool.
    pub picture: Option<String>,
}

/// The place of a row in the sequence of the rows that use one object. An object is an allocation
/// or a stream. The first number is the index of the object. The second number counts the earlier
/// rows that use the object. The row runs when this number of rows of the object are done.
type Turn = (usize, u32);

/// An allocation of the trace.
#[derive(Debug, Default)]
struct Slot {
    buffer: Option<Buffer<u32>>,
    is_used: bool,
}

/// A stream of the trace. The kernels of the stream count the wrong tags in `errors`.
#[derive(Debug)]
struct Lane {
    stream: Stream,
    errors: Mutex<Buffer<u32>>,
}

/// A replay in progress.
struct Replay<'a> {
    device: &'a Device,
    trace: &'a Trace,
    /// For each row, a [`Turn`] for each of its objects that several threads use. The index is the
    /// index of the row.
    turns: Vec<Vec<Turn>>,
    lanes: Vec<Lane>,
    slots: Vec<Mutex<Slot>>,
    /// For each object, the number of rows that use the object and are done. The allocations come
    /// first, and the streams follow.
    done: Vec<AtomicU32>,
    /// Whether all threads must end, because one of the threads had an error.
    stopped: AtomicBool,
    clock_ns: f64,
    /// The recorder of the address space. `None` if no picture was requested.
    recorder: Option<Mutex<Recorder>>,
}

/// The measurements of a thread.
#[derive(Debug, Default)]
struct Measured {
    allocate_ns: Vec<f64>,
    free_ns: Vec<f64>,
    failed: u64,
    /// The time that this thread spent in the recorder.
    recording: Duration,
}

/// The indices of the objects that a row uses. The index of an allocation is its number. The index
/// of a stream is its number plus the number of all allocations.
fn objects(trace: &Trace, action: Action) -> [Option<usize>; 3] {
    let of = |id: u32| Some(id as usize);
    let stream = |number: u16| Some(trace.allocations as usize + usize::from(number));
    match action {
        Action::Allocate { id, stream: on, .. }
        | Action::Free { id, stream: on }
        | Action::Use { id, stream: on, .. } => [of(id), stream(on), None],
        Action::Follow { stream: on, other } if on != other => [stream(on), stream(other), None],
        Action::Follow { stream: on, .. } | Action::Synchronize { stream: on } => {
            [stream(on), None, None]
        }
    }
}

/// For each row, a [`Turn`] for each of its objects that several threads use.
fn turns(trace: &Trace) -> Vec<Vec<Turn>> {
    let count = trace.allocations as usize + usize::from(trace.streams);
    let mut user: Vec<Option<u16>> = vec![None; count];
    let mut is_common = vec![false; count];
    for row in &trace.rows {
        for object in objects(trace, row.action).into_iter().flatten() {
            is_common[object] |= user[object].is_some_and(|thread| thread != row.thread);
            user[object] = Some(row.thread);
        }
    }
    let mut before = vec![0u32; count];
    let turns = |row: &TraceRow| {
        let common = objects(trace, row.action).into_iter().flatten();
        let common = common.filter(|object| is_common[*object]);
        let turn = |object: usize| {
            before[object] += 1;
            (object, before[object] - 1)
        };
        common.map(turn).collect()
    };
    trace.rows.iter().map(turns).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panicked while it held this lock")
}

/// The ranges of memory that the heap of a device has from the device. Each range has its address
/// and its size in bytes.
fn held_by(device: &Device) -> Vec<(u64, u64)> {
    let ranges = probe::heap_ranges(device).into_iter();
    ranges.map(|range| (range.start, range.end - range.start)).collect()
}

/// The minimum time between two consecutive readings of the clock, in nanoseconds. This time is
/// subtracted from each measured time.
fn clock_ns() -> f64 {
    let looks = (0..1000).map(|_| Instant::now().elapsed().as_secs_f64() * 1e9);
    looks.fold(f64::INFINITY, f64::min)
}

impl<'a> Replay<'a> {
    fn new(device: &'a Device, trace: &'a Trace, recorder: Option<Recorder>) -> Result<Self> {
        let lane = |_| {
            let stream = device.stream()?;
            // This memory does not come from the heap, so that the heap has only the allocations of
            // the trace.
            let mut errors = device.alloc::<u32>(1)?;
            stream.fill_bytes(&mut errors, 0)?;
            Ok(Lane { stream, errors: Mutex::new(errors) })
        };
        let lanes = (0..trace.streams).map(lane).collect::<Result<_>>()?;
        let count = trace.allocations as usize + usize::from(trace.streams);
        Ok(Self {
            device,
            trace,
            turns: turns(trace),
            lanes,
            slots: (0..trace.allocations).map(|_| Mutex::default()).collect(),
            done: (0..count).map(|_| AtomicU32::new(0)).collect(),
            stopped: AtomicBool::new(false),
            clock_ns: clock_ns(),
            recorder: recorder.map(Mutex::new),
        })
    }

    fn lane(&self, stream: u16) -> &Lane {
        &self.lanes[usize::from(stream)]
    }

    fn slot(&self, id: u32) -> MutexGuard<'_, Slot> {
        lock(&self.slots[id as usize])
    }

    /// Makes the call of one row, and measures it.
    fn row(&self, action: Action, measured: &mut Measured) -> Result<()> {
        match action {
            Action::Allocate { id, bytes, stream } => {
                let words = usize::try_from(bytes.div_ceil(4)).unwrap_or(usize::MAX);
                let stream = &self.lane(stream).stream;
                let begin = Instant::now();
                let allocated = stream.alloc::<u32>(words);
                let ns = begin.elapsed().as_secs_f64() * 1e9;
                match allocated {
                    Ok(buffer) => {
                        measured.allocate_ns.push((ns - self.clock_ns).max(0.0));
                        *self.slot(id) = Slot { buffer: Some(buffer), is_used: false };
                    }
                    // For a size that exceeds the address space, the library returns
                    // `InvalidValue`.
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::OutOfMemory | ErrorKind::InvalidValue
                        ) =>
                    {
                        measured.failed += 1;
                    }
                    Err(error) => return Err(error),
                }
            }
            Action::Free { id, .. } => {
                let Some(buffer) = self.slot(id).buffer.take() else { return Ok(()) };
                let begin = Instant::now();
                drop(buffer);
                let ns = begin.elapsed().as_secs_f64() * 1e9;
                measured.free_ns.push((ns - self.clock_ns).max(0.0));
            }
            Action::Use { id, stream, ns } => self.use_it(id, stream, ns)?,
            Action::Follow { stream, other } => {
                let event = self.device.event()?;
                event.record(&self.lane(other).stream)?;
                self.lane(stream).stream.wait(&event)?;
            }
            Action::Synchronize { stream } => self.lane(stream).stream.synchronize()?,
        }
        Ok(())
    }

    fn use_it(&self, id: u32, stream: u16, ns: u32) -> Result<()> {
        let mut slot = self.slot(id);
        let Slot { buffer, is_used } = &mut *slot;
        let Some(buffer) = buffer.as_mut().filter(|buffer| !buffer.is_empty()) else {
            return Ok(());
        };
        let lane = self.lane(stream);
        let one = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
        let mut errors = lock(&lane.errors);
        let tag = id.wrapping_add(1);
        if std::mem::replace(is_used, true) {
            lane.stream.launch_with(&HAS_TAG, one, (tag, ns, &mut *errors, buffer))
        } else {
            lane.stream.launch_with(&TAG, one, (tag, ns, &mut *errors, buffer))
        }
    }

    /// Makes the calls of one thread of the trace.
    fn thread(&self, thread: u16) -> Result<Measured> {
        let mut measured = Measured::default();
        let rows = self.trace.rows.iter().zip(&self.turns).filter(|(row, _)| row.thread == thread);
        for (row, turns) in rows {
            for (object, turn) in turns {
                while self.done[*object].load(Ordering::Acquire) != *turn {
                    if self.stopped.load(Ordering::Relaxed) {
                        return Ok(measured);
                    }
                    std::thread::yield_now();
                }
            }
            if let Err(error) = self.recorded(row.action, &mut measured) {
                self.stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
            for (object, _) in turns {
                self.done[*object].fetch_add(1, Ordering::Release);
            }
        }
        Ok(measured)
    }

    fn all_threads(&self) -> Result<Measured> {
        if self.trace.threads <= 1 {
            return self.thread(0);
        }
        let measured = std::thread::scope(|scope| {
            let start = |thread| scope.spawn(move || self.thread(thread));
            let threads: Vec<_> = (0..self.trace.threads).map(start).collect();
            let panicked = |_| Err(Error::new(ErrorKind::Panicked, "replay", "a thread panicked"));
            let ended = threads.into_iter().map(|one| one.join().unwrap_or_else(panicked));
            ended.collect::<Result<Vec<_>>>()
        })?;
        Ok(measured.into_iter().fold(Measured::default(), |mut sum, one| {
            sum.allocate_ns.extend(one.allocate_ns);
            sum.free_ns.extend(one.free_ns);
            sum.failed += one.failed;
            sum.recording = sum.recording.max(one.recording);
            sum
        }))
    }

    /// Makes the call of a row. If there is a recorder, records the addresses that the row
    /// allocates or frees. If the trace has several threads, the picture numbers the rows in the
    /// order in which they are recorded. A free is recorded before its call, because another thread
    /// may get the memory immediately after the call.
    fn recorded(&self, action: Action, measured: &mut Measured) -> Result<()> {
        let Some(recorder) = &self.recorder else { return self.row(action, measured) };
        let begin = Instant::now();
        if let Action::Free { id, .. } = action {
            lock(recorder).freed(id);
        }
        measured.recording += begin.elapsed();
        let failed = measured.failed;
        self.row(action, measured)?;
        let begin = Instant::now();
        let mut recorder = lock(recorder);
        recorder.held(held_by(self.device));
        if let Action::Allocate { id, bytes, stream } = action {
            if measured.failed > failed {
                // Before the heap refused the allocation, it gathered all free memory. So its
                // statistics are up to date.
                let stats = self.device.heap_stats().unwrap_or_default();
                recorder.refused(bytes, (stats.free.0 + stats.pending.0, stats.largest_free.0));
            } else {
                let address = self.slot(id).buffer.as_ref().map_or(0, probe::address);
                recorder.allocated(id, (address, bytes), stream);
            }
        }
        recorder.end_row();
        measured.recording += begin.elapsed();
        Ok(())
    }

    /// Returns an error if a kernel did not find the tag of its allocation.
    fn verify(&self) -> Result<()> {
        let mut wrong = 0;
        for lane in &self.lanes {
            wrong += lane.stream.download(&*lock(&lane.errors))?[0];
        }
        if wrong == 0 {
            return Ok(());
        }
        let cause = format!("{wrong} kernels found that another owner wrote their memory");
        Err(Error::new(ErrorKind::InvalidValue, "replay", cause))
    }
}

/// Replays a trace over the heap or the memory pool of a device.
///
/// ```
/// use trijet::{Device, Select};
/// use trijet_tools::allocations::Trace;
/// use trijet_tools::allocations::replay::{Options, replay};
/// let text = "Action,Pointer,Size,Stream\nallocate,1,1000,0\nuse,1,,0\nfree,1,,0\n";
/// let trace = Trace::read(text.as_bytes())?;
/// let outcome = replay(&Device::open(Select::Host(0))?, &trace, &Options::default())?;
/// assert_eq!((outcome.failed, outcome.allocate_ns.len()), (0, 1));
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// `InvalidValue` if two allocations shared memory at the same time. `Unsupported` for a limit on a
/// device that allocates from a memory pool. Every error of the device, except that an allocation
/// with `OutOfMemory` is only counted.
pub fn replay(device: &Device, trace: &Trace, options: &Options) -> Result<ReplayOutcome> {
    device.synchronize()?;
    device.trim_memory(Bytes(0))?;
    let recorder = options.picture.as_ref();
    let recorder = recorder.map(|name| Recorder::new(name, options.limit, trace.rows.len()));
    let run = Replay::new(device, trace, recorder)?;
    if options.limit.is_some() {
        device.limit_memory(options.limit.map(Bytes))?;
    }
    device.reset_memory_high()?;
    let (calls, waits) = (device.heap_stats().unwrap_or_default().calls, device.ordering().waits);
    if let Some(recorder) = &run.recorder {
        lock(recorder).held(held_by(device));
    }
    let begin = Instant::now();
    let measured = run.all_threads();
    let synchronized = device.synchronize();
    let elapsed = begin.elapsed();
    if options.limit.is_some() {
        device.limit_memory(None)?;
    }
    let (measured, ()) = (measured?, synchronized?);
    let whole = elapsed.saturating_sub(measured.recording);
    run.verify()?;
    let calls = device.heap_stats().unwrap_or_default().calls - calls;
    let waits = device.ordering().waits - waits;
    let held_peak = device.memory_stats()?.reserved_high.0;
    let recorder = run
        .recorder
        .map(|recorder| recorder.into_inner().expect("no thread panicked while it held this lock"));
    Ok(ReplayOutcome {
        allocate_ns: measured.allocate_ns,
        free_ns: measured.free_ns,
        whole: Nanos(u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX)),
        held_peak,
        failed: measured.failed,
        calls,
        waits,
        panel: recorder.map(|recorder| recorder.finish(held_peak, calls, waits)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::workloads::Workload;
    use super::*;
    use trijet::HeapMode;
    use trijet::check::CheckOptions;
    use trijet::sim::{Executor, HostConfig, Order};

    /// A host device in virtual time with a checker.
    fn checked_device() -> Result<Device> {
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor);
        Device::builder().host(config).check(CheckOptions::default()).open()
    }

    #[test]
    fn a_replay_over_the_heap_and_over_a_pool_finds_no_other_owner() -> Result<()> {
        let device = checked_device()?;
        let workloads = [
            Workload::Streams { streams: 4, kernels: 3, kernel_ns: 100 },
            Workload::Churn {
                threads: 1,
                streams: 6,
                allocations: 300,
                size_max: 1 << 16,
                kernel_ns: 50,
            },
        ];
        for workload in workloads {
            let trace = workload.trace();
            let outcome = replay(&device, &trace, &Options::default())?;
            assert_eq!(
                (outcome.failed, outcome.allocate_ns.len()),
                (0, trace.allocations as usize)
            );
            assert!(outcome.held_peak >= trace.peak(), "{outcome:?}");
        }
        let verdict = device.verdict().expect("the device has a checker");
        assert_eq!(verdict.findings, [], "{verdict}");
        assert!(verdict.accesses > 100, "{verdict}");
        Ok(())
    }

    /// Several threads use the same allocations, and each kernel finds the tag of its allocation.
    #[test]
    fn threads_replay_their_rows_in_the_order_of_common_objects() -> Result<()> {
        let device = Device::open(trijet::Select::Host(0))?;
        let trace = Workload::Churn {
            threads: 4,
            streams: 8,
            allocations: 2000,
            size_max: 1 << 14,
            kernel_ns: 0,
        }
        .trace();
        let outcome = replay(&device, &trace, &Options::default())?;
        assert_eq!((outcome.failed, outcome.free_ns.len()), (0, trace.allocations as usize));
        Ok(())
    }

    /// With a limit of 200 MiB, the free memory of the caching allocator is in separate pieces, so
    /// it refuses 50 MiB. With the same limit, the heap serves 50 MiB.
    #[test]
    fn a_picture_has_what_a_caching_allocator_refuses_and_the_heap_gives() -> Result<()> {
        let device = checked_device()?;
        device.set_heap_mode(HeapMode::Footprint)?;
        let trace = fragmented();
        let limit = Some(200 << 20);
        let options = Options { limit, picture: Some("heap".to_owned()) };
        let panel = replay(&device, &trace, &options)?.panel.expect("it was asked for");
        let cached = super::super::picture::of_caching(&trace, limit);
        assert_eq!((cached.failed, cached.failures[0].free), (1, 100 << 20));
        assert_eq!(cached.failures[0].largest, 20 << 20);
        assert_eq!(panel.failed, 0, "{:?}", panel.failures);
        assert!(panel.held_peak <= 200 << 20, "{}", panel.held_peak);
        assert_eq!((panel.live_peak, cached.live_peak), (200 << 20, 200 << 20));
        Ok(())
    }

    /// A trace that allocates 200 MiB and frees them. After that it makes ten allocations of 20
    /// MiB, frees every second of them, and requests 50 MiB.
    fn fragmented() -> Trace {
        let mut text = "Action,Pointer,Size,Stream\nallocate,0,209715200,0\nfree,0,,0\n".to_owned();
        let lines = (1..=10).map(|id| format!("allocate,{id},20971520,0\n"));
        text.extend(lines);
        text.extend((1..=10).step_by(2).map(|id| format!("free,{id},,0\n")));
        text += "allocate,11,52428800,0\n";
        Trace::read(text.as_bytes()).expect("it is a trace")
    }
}
