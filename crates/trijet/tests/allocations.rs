//! An enqueue call allocates no memory of the heap in steady state. The functions of the driver are
//! empty, so the library makes every allocation. The tests are a separate program, because its
//! allocator counts.

#[path = "common/built.rs"]
mod built;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Once;
use trijet::Uses;
use trijet::kernels::AXPY;
use trijet::pipeline::{Schedule, Sharing};
use trijet::testing::multicast::{MATMUL, config, left, right};
use trijet::{Buffer, Bytes, Device, PinnedBuffer, Pipeline, Result, Select, Stream};

/// More operations than fill every ring: a stream keeps 64 events, and there are 8 streams.
const WARM_UP: u32 = 1200;
const COUNTED: u32 = 1000;
const LEN: usize = 256;

thread_local! {
    /// Allocations of this thread only: the test harness allocates as well.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count.
struct Counting;

// SAFETY: every call is passed on to the system's allocator with the arguments as they came, and
// counting neither allocates nor unwinds: the counter is a plain cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: `block` came from `alloc` above, and so from the system, with this layout.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block of this allocator is the system's, with the layout it was given.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The device of the driver of empty functions, which cargo built beside this program.
fn device() -> Device {
    static DRIVER: Once = Once::new();
    DRIVER.call_once(|| {
        let driver = built::empty_driver();
        // SAFETY: all tests of this program come here first, and the harness reads the environment
        // only before it starts them, so no thread reads it now.
        unsafe { std::env::set_var("TRIJET_LIBCUDA", driver) };
    });
    Device::open(Select::Cuda(0)).expect("the empty driver opens")
}

/// Counts the allocations of `COUNTED` operations. More operations than fill every ring run first.
fn allocations(mut op: impl FnMut(u32) -> Result<()>) -> Result<u64> {
    (0..WARM_UP).try_for_each(&mut op)?;
    let before = ALLOCATIONS.get();
    (0..COUNTED).try_for_each(&mut op)?;
    Ok(ALLOCATIONS.get() - before)
}

/// The streams and buffers of the operations.
struct Setup {
    streams: Vec<Stream>,
    host: PinnedBuffer<f32>,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

fn setup(streams: usize) -> Result<Setup> {
    let device = device();
    let streams = (0..streams).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let (x, y) = (streams[0].alloc(LEN)?, streams[0].alloc(LEN)?);
    Ok(Setup { host: device.pinned(LEN)?, x, y, streams })
}

impl Setup {
    /// The number of allocations of each kind of operation: launches, uploads, downloads and fills.
    fn of_each_verb(&mut self) -> Result<[u64; 4]> {
        let Self { streams, host, x, y } = self;
        let s = |index: u32| &streams[index as usize % streams.len()];
        Ok([
            allocations(|i| s(i).launch(&AXPY, (1.0, &*x, &mut *y)))?,
            allocations(|i| s(i).copy(&*host, x))?,
            allocations(|i| s(i).copy(&*y, host))?,
            allocations(|i| s(i).fill_bytes(y, 0))?,
        ])
    }
}

#[test]
fn one_stream_allocates_nothing() -> Result<()> {
    assert_eq!(setup(1)?.of_each_verb()?, [0; 4]);
    Ok(())
}

#[test]
fn streams_that_cross_allocate_nothing() -> Result<()> {
    let before = device().ordering();
    for streams in [2, 3, 8] {
        assert_eq!(setup(streams)?.of_each_verb()?, [0; 4], "{streams} streams");
    }
    let after = device().ordering();
    assert!(after.waits - before.waits > u64::from(COUNTED), "the streams waited for each other");
    Ok(())
}

#[test]
fn many_readers_between_two_writes_allocate_nothing() -> Result<()> {
    let mut setup = setup(8)?;
    let found = allocations(|i| {
        if i % 8 == 0 {
            return setup.streams[0].fill_bytes(&mut setup.x, 0);
        }
        setup.streams[i as usize % 8].copy(&setup.x, &mut setup.host)
    })?;
    assert_eq!(found, 0);
    Ok(())
}

#[test]
fn parts_of_a_buffer_allocate_nothing() -> Result<()> {
    let mut setup = setup(2)?;
    let found = allocations(|i| {
        let part = i as usize % 4 * 64..(i as usize % 4 + 1) * 64;
        let s = &setup.streams[i as usize % 2];
        s.launch(&AXPY, (1.0, setup.x.slice(part.clone()), setup.y.slice_mut(part)))
    })?;
    assert_eq!(found, 0);
    Ok(())
}

#[test]
fn manual_memory_allocates_nothing() -> Result<()> {
    let mut setup = setup(2)?;
    // SAFETY: the driver has no engine, so no two operations overlap.
    unsafe { setup.x.order_manually() };
    // SAFETY: as for `x`, and the bytes of `y` are never read.
    unsafe { setup.y.order_manually() };
    // SAFETY: as for `x`; the host takes no guard of it.
    unsafe { setup.host.order_manually() };
    assert_eq!(setup.of_each_verb()?, [0; 4]);
    Ok(())
}

/// The count includes the allocations of the operations themselves, here of the closure. A prepared
/// pipeline keeps its streams, slots and events between runs, and enqueuing allocates nothing. Each
/// wait of the host allocates once, for the positions that the host then knows to be complete.
#[test]
fn a_run_of_a_prepared_pipeline_allocates_for_its_waits_only() -> Result<()> {
    let device = device();
    let (x, mut y) = (device.pinned::<f32>(64 * LEN)?, device.pinned::<f32>(64 * LEN)?);
    // A bulk run of 8 chunks waits for each upload, each kernel, each download and at its end.
    let schedules = [
        (Schedule::InPlace, Sharing::Alone, 1),
        (Schedule::OneStream, Sharing::Alone, 1),
        (Schedule::RoleStreams, Sharing::Alone, 3),
        (Schedule::Tuned, Sharing::Alone, 4),
        (Schedule::Tuned, Sharing::Latency, 4),
        (Schedule::RoleStreams, Sharing::Bulk, 3 * 8 + 3),
    ];
    for (schedule, sharing, waits) in schedules {
        let mut job = Pipeline::on(&device)
            .stage::<f32, f32>(|s, x, y| s.launch(&AXPY, (2.0, x, y)))
            .schedule(schedule)
            .sharing(sharing)
            .chunk(Bytes(8 * LEN as u64 * 4))
            .depth(3)
            .prepare(&x, &mut y, LEN)?;
        let count = allocations(|_| job.run(&x, &mut y))?;
        assert!(count <= waits * u64::from(COUNTED), "{schedule:?}, {sharing:?}: {count}");
    }
    Ok(())
}

/// The encoded forms of tilings are on the stack.
#[test]
fn tilings_allocate_nothing() -> Result<()> {
    let Setup { streams, x, mut y, .. } = setup(2)?;
    let found = allocations(|i| {
        let (x, w) = (left(x.view(), [16, 16], 16)?, right(x.view(), [16, 16], 16)?);
        let s = &streams[i as usize % 2];
        s.launch_with(&MATMUL, config(16, 16, 1), (x, w, &mut y, [16; 3]))
    })?;
    assert_eq!(found, 0);
    Ok(())
}

/// Also on CUDA, the graph of the driver is made once. A launch passes it memory that exists
/// already.
#[test]
fn a_launch_of_a_graph_allocates_nothing() -> Result<()> {
    let Setup { streams, host, mut x, mut y } = setup(1)?;
    let mut graph = device().record(|g| {
        g.argument(&host)?;
        g.argument(&x)?;
        g.argument(&y)?;
        let (a, b) = (g.stream()?, g.stream()?);
        a.copy(&host, &mut x)?;
        a.fill_bytes(&mut y, 0)?;
        b.launch(&AXPY, (2.0, &x, &mut y))
    })?;
    let count = allocations(|_| {
        let arguments = Uses::new().read(host.view()).write(x.view_mut()).write(y.view_mut());
        streams[0].launch_graph(&mut graph, arguments)
    })?;
    assert_eq!(count, 0);
    Ok(())
}

#[test]
fn a_host_function_is_counted() -> Result<()> {
    let setup = setup(1)?;
    let found = allocations(|i| setup.streams[0].host_fn(move || assert!(i < u32::MAX)))?;
    assert!(found >= u64::from(COUNTED), "{found}");
    Ok(())
}

/// A lane keeps what it frees, so a pair of an allocation and its free needs no memory of the
/// process.
#[test]
fn a_pair_of_an_allocation_and_its_free_allocates_nothing() -> Result<()> {
    let device = device();
    let stream = device.stream()?;
    let pair = |_| stream.alloc::<f32>(LEN).map(drop);
    let used = |_| stream.fill_bytes(&mut stream.alloc::<f32>(LEN)?, 0);
    // Another test that drops its device takes the memory that all streams keep. One run without
    // such a drop is enough.
    let fewest = |counted: &dyn Fn() -> Result<u64>| {
        (0..20).map(|_| counted()).collect::<Result<Vec<u64>>>().map(|all| all.into_iter().min())
    };
    assert_eq!(fewest(&|| allocations(pair))?, Some(0));
    assert_eq!(fewest(&|| allocations(used))?, Some(0));
    Ok(())
}
