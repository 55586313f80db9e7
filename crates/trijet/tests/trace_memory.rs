//! A traced run of many chunks takes no more memory for its trace than its plan says. A program of
//! its own, because its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use trijet::kernels::AFFINE_U8;
use trijet::pipeline::{Schedule, rows_of, rows_to_fn};
use trijet::{Bytes, Device, Pipeline, Result, Select};

/// The bytes that are allocated now, and the most that were.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of its bytes.
struct Counting;

fn add(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with the arguments as they came, and
// counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: every block of this allocator is the system's, with the layout it was given.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const ROW: usize = 64;

/// The most memory of a run over this number of chunks of one row, and the trace of its plan.
fn most(device: &Device, schedule: Schedule, chunks: usize) -> Result<(usize, u64)> {
    let input = vec![7_u8; chunks * ROW];
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let pipeline = || {
        Pipeline::on(device)
            .source(rows_of(&input, ROW))
            .stage::<u8, u8>(|s, x, y| s.launch(&AFFINE_U8, (2.0, 1.0, x, y)))
            .sink(rows_to_fn(|_, _: &[u8]| Ok(())))
            .schedule(schedule)
            .chunk(Bytes(1))
            .depth(3)
    };
    let planned = pipeline().needs()?.trace.0;
    let report = pipeline().run()?;
    assert!(report.summary().is_some() && report.plan.chunks.len() == chunks);
    Ok((MOST.load(Ordering::Relaxed) - before, planned))
}

#[test]
fn a_trace_takes_no_more_memory_than_the_plan_says() -> Result<()> {
    let device = Device::open(Select::Host(0))?;
    for (schedule, limit) in [(Schedule::RoleStreams, 12_000), (Schedule::InPlace, 4608)] {
        // A list doubles its room at powers of two. These numbers of chunks fill it equally.
        // The first run grows the heap.
        most(&device, schedule, 1 << 10)?;
        let few = most(&device, schedule, 1 << 10)?;
        let many = most(&device, schedule, 1 << 12)?;
        let chunks = (1 << 12) - (1 << 10);
        let per_chunk = (many.0 - few.0) as u64 / chunks;
        let planned = (many.1 - few.1) / chunks;
        let said =
            format!("{schedule:?}: {per_chunk} bytes a chunk, {planned} planned, {limit} wanted");
        assert!(per_chunk <= planned && per_chunk <= limit, "{said}");
    }
    device.synchronize()
}
