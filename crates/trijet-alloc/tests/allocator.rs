//! Tests of the allocator on host devices. The code that uses the memory has its own handles of the
//! streams and of the bytes. The allocator does not know these handles.

use std::sync::Arc;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{Capture, CaptureMode, Prng};
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Result, Stream};
use trijet_alloc::Allocator;

const SIZE: usize = 64 << 10;

fn allocator(order: Order, memory: usize) -> Result<Allocator> {
    let config = HostConfig::new().executor(Executor::Virtual(order)).memory(Bytes(memory as u64));
    Ok(Allocator::new(Device::host(config)?.remove(0)))
}

/// One stream with two handles. The code that uses the memory has `theirs`, and the allocator gets
/// `ours`.
struct Caller {
    theirs: Stream,
    ours: Arc<Stream>,
}

impl Caller {
    fn new(device: &Device) -> Result<Self> {
        let theirs = device.stream()?;
        // SAFETY: the stream is dropped together with the handle, and only the tests enqueue in it.
        let ours = unsafe { device.stream_from_raw(theirs.as_raw(), ())? };
        Ok(Self { theirs, ours: Arc::new(ours) })
    }

    /// Enqueues a fill of an allocation, and a copy of the filled bytes to `landed`.
    fn fill(
        &self,
        device: &Device,
        (address, value): (u64, u8),
        landed: &mut PinnedBuffer<u8>,
    ) -> Result<()> {
        let len = landed.len();
        // SAFETY: `address` is a live allocation of `len` bytes. The allocator orders the owners of
        // these bytes, and these tests check this order.
        let mut bytes = unsafe { device.buffer_from_raw::<u8>(address, len, ())? };
        self.theirs.fill_bytes(&mut bytes, value)?;
        self.theirs.copy(&bytes, landed)
    }
}

fn orders() -> impl Iterator<Item = Order> {
    [Order::Greedy].into_iter().chain((0..40).map(Order::Seeded))
}

fn invalid<R: std::fmt::Debug>(result: Result<R>, word: &str) {
    let error = result.expect_err(word);
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    assert!(error.to_string().contains(word), "`{word}`: {error}");
}

#[test]
fn a_stream_gets_its_memory_again_at_once_and_without_a_call() -> Result<()> {
    let allocator = allocator(Order::Greedy, SIZE)?;
    let caller = Caller::new(allocator.device())?;
    let first = allocator.alloc(SIZE, &caller.ours)?;
    allocator.free(first, SIZE, &caller.ours)?;
    let before = allocator.statistics()?;
    for _ in 0..100 {
        let address = allocator.alloc(SIZE, &caller.ours)?;
        assert_eq!(address, first);
        allocator.free(address, SIZE, &caller.ours)?;
    }
    let after = allocator.statistics()?;
    assert_eq!(after.driver_calls, before.driver_calls);
    assert_eq!((after.live, after.live_high.0), (Bytes(0), SIZE as u64));
    Ok(())
}

#[test]
fn another_stream_follows_the_work_before_the_free() -> Result<()> {
    for order in orders() {
        let allocator = allocator(order.clone(), SIZE)?;
        let device = allocator.device();
        let (a, b) = (Caller::new(device)?, Caller::new(device)?);
        let (mut first, mut second) = (device.pinned::<u8>(SIZE)?, device.pinned::<u8>(SIZE)?);
        let x = allocator.alloc(SIZE, &a.ours)?;
        a.fill(device, (x, 1), &mut first)?;
        allocator.free(x, SIZE, &a.ours)?;
        let y = allocator.alloc(SIZE, &b.ours)?;
        assert_eq!(x, y, "there is room for one");
        b.fill(device, (y, 2), &mut second)?;
        allocator.free(y, SIZE, &b.ours)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "{order:?}");
        assert!(second.read()?.iter().all(|byte| *byte == 2), "{order:?}");
    }
    Ok(())
}

/// The next owner of the memory follows the work that the recorded stream had at the free. If the
/// stream was forgotten before the free, the next owner follows the work that the stream had when
/// it was forgotten.
#[test]
fn a_recorded_stream_is_followed() -> Result<()> {
    for (order, forget) in orders().flat_map(|order| [(order.clone(), false), (order, true)]) {
        let allocator = allocator(order.clone(), SIZE)?;
        let device = allocator.device();
        let [a, b, c] = [Caller::new(device)?, Caller::new(device)?, Caller::new(device)?];
        let (mut first, mut last) = (device.pinned::<u8>(SIZE)?, device.pinned::<u8>(SIZE)?);
        let x = allocator.alloc(SIZE, &a.ours)?;
        allocator.record_stream(x, &b.ours)?;
        b.fill(device, (x, 1), &mut first)?;
        if forget {
            allocator.forget_stream(&b.ours)?;
        }
        allocator.free(x, SIZE, &a.ours)?;
        let y = allocator.alloc(SIZE, &c.ours)?;
        c.fill(device, (y, 2), &mut last)?;
        allocator.free(y, SIZE, &c.ours)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "{order:?}, forgotten: {forget}");
        assert!(last.read()?.iter().all(|byte| *byte == 2), "{order:?}, forgotten: {forget}");
    }
    Ok(())
}

/// An allocation in a captured stream fails, because the graph would need the memory for as long as
/// the graph exists. A free succeeds, because the free is not a part of the graph.
#[test]
fn a_captured_stream_gets_no_memory_and_may_free() -> Result<()> {
    let allocator = allocator(Order::Greedy, SIZE)?;
    let caller = Caller::new(allocator.device())?;
    let x = allocator.alloc(SIZE, &caller.ours)?;
    let capture = Capture::begin(&caller.ours, CaptureMode::ThreadLocal)?;
    let refused = allocator.alloc(256, &caller.ours).expect_err("it is captured");
    assert_eq!(refused.kind(), ErrorKind::Capturing);
    allocator.free(x, SIZE, &caller.ours)?;
    capture.end()?;
    assert_eq!(allocator.alloc(SIZE, &caller.ours)?, x);
    allocator.free(x, SIZE, &caller.ours)
}

/// One allocation of a random program.
struct Live {
    address: u64,
    value: u8,
    landed: PinnedBuffer<u8>,
    /// The indices of the streams that use the allocation. The first stream allocated it.
    users: Vec<usize>,
}

/// Random programs on three streams with little memory. Whatever the order in which the executor
/// runs the work, each user of an allocation finds its own values.
#[test]
fn random_programs_find_their_values_in_memory_that_passes_from_stream_to_stream() -> Result<()> {
    for seed in 0..60 {
        let allocator = allocator(Order::Seeded(seed), 4 * SIZE)?;
        let device = allocator.device();
        let callers = [Caller::new(device)?, Caller::new(device)?, Caller::new(device)?];
        let mut draw = Prng::new(seed);
        let mut pick = |most: usize| usize::try_from(draw.below(most as u64)).expect("small");
        let (mut live, mut landed) = (Vec::<Live>::new(), Vec::new());
        for step in 0..60u8 {
            let on = pick(callers.len());
            if live.len() < 3 && pick(3) > 0 {
                let bytes = SIZE / (1 + pick(2));
                let address = allocator.alloc(bytes, &callers[on].ours)?;
                let mut mine = device.pinned::<u8>(bytes)?;
                callers[on].fill(device, (address, step), &mut mine)?;
                live.push(Live { address, value: step, landed: mine, users: vec![on] });
            } else if !live.is_empty() {
                let Live { address, value, landed: mine, users } =
                    live.swap_remove(pick(live.len()));
                let bytes = mine.len();
                if pick(2) == 0 {
                    // A second use of the allocation in another stream. The caller orders the
                    // second use after the first one.
                    let event = device.event()?;
                    event.record(&callers[users[0]].theirs)?;
                    callers[on].theirs.wait(&event)?;
                    allocator.record_stream(address, &callers[on].ours)?;
                    let mut second = device.pinned::<u8>(bytes)?;
                    callers[on].fill(device, (address, value ^ 0x80), &mut second)?;
                    landed.push((second, value ^ 0x80));
                }
                allocator.free(address, bytes, &callers[users[0]].ours)?;
                landed.push((mine, value));
            }
        }
        for (mine, value) in &landed {
            assert!(mine.read()?.iter().all(|byte| byte == value), "seed {seed}, value {value}");
        }
        assert!(allocator.statistics()?.waits > 0 || seed > 0, "memory passes between streams");
    }
    Ok(())
}

#[test]
fn bad_input_is_named_and_changes_nothing() -> Result<()> {
    let (one, other) = (allocator(Order::Greedy, SIZE)?, allocator(Order::Greedy, SIZE)?);
    let caller = Caller::new(one.device())?;
    let (stream, theirs) = (&caller.ours, Arc::new(other.device().stream()?));
    invalid(one.alloc(0, stream), "0 bytes");
    for size in [1 << 63, usize::MAX, usize::MAX - 255] {
        invalid(one.alloc(size, stream), &format!("{size} bytes"));
    }
    let x = one.alloc(1000, stream)?;
    let live = one.statistics()?.live;
    let name = format!("{x:#x}");
    invalid(one.free(x, 999, stream), "1000 bytes, not 999");
    invalid(one.free(x + 1, 1000, stream), "no live allocation");
    invalid(other.free(x, 1000, &theirs), &name);
    invalid(other.record_stream(x, &theirs), &name);
    invalid(one.free(x, 1000, &theirs), "another driver");
    assert_eq!(one.statistics()?.live, live, "nothing was freed");
    one.free(x, 1000, stream)?;
    invalid(one.free(x, 1000, stream), "freed before");
    invalid(one.record_stream(x, stream), &name);
    assert_eq!(one.statistics()?.live, Bytes(0));
    Ok(())
}

#[test]
fn a_size_that_does_not_fit_is_out_of_memory_and_the_next_one_that_does_is_not() -> Result<()> {
    let allocator = allocator(Order::Greedy, 2 * SIZE)?;
    let caller = Caller::new(allocator.device())?;
    let kind = |result: Result<u64>| result.map_err(|error: Error| error.kind());
    let x = allocator.alloc(SIZE, &caller.ours)?;
    for size in [SIZE + 256, 2 * SIZE, 3 * SIZE, isize::MAX as usize] {
        assert_eq!(
            kind(allocator.alloc(size, &caller.ours)),
            Err(ErrorKind::OutOfMemory),
            "{size}"
        );
    }
    let y = allocator.alloc(SIZE, &caller.ours)?;
    allocator.free(x, SIZE, &caller.ours)?;
    allocator.free(y, SIZE, &caller.ours)?;
    assert_eq!(allocator.statistics()?.live, Bytes(0));
    Ok(())
}

/// The memory before and after a live allocation is freed while work that uses it is pending. The
/// next allocation waits for this work. After the wait, the two freed pieces are mapped side by
/// side.
#[test]
fn memory_in_pieces_that_are_in_use_is_joined() -> Result<()> {
    const PIECE: usize = 1 << 20;
    for order in orders().take(8) {
        let allocator = allocator(order.clone(), 3 * PIECE)?;
        let device = allocator.device();
        let [a, b, c] = [Caller::new(device)?, Caller::new(device)?, Caller::new(device)?];
        let (mut of_a, mut of_b) = (device.pinned::<u8>(PIECE)?, device.pinned::<u8>(PIECE)?);
        let x = allocator.alloc(PIECE, &a.ours)?;
        let between = allocator.alloc(PIECE, &a.ours)?;
        let y = allocator.alloc(PIECE, &b.ours)?;
        a.fill(device, (x, 1), &mut of_a)?;
        b.fill(device, (y, 2), &mut of_b)?;
        allocator.free(x, PIECE, &a.ours)?;
        allocator.free(y, PIECE, &b.ours)?;
        let mut of_both = device.pinned::<u8>(2 * PIECE)?;
        let z = allocator.alloc(2 * PIECE, &c.ours)?;
        c.fill(device, (z, 3), &mut of_both)?;
        allocator.free(z, 2 * PIECE, &c.ours)?;
        allocator.free(between, PIECE, &a.ours)?;
        let all = |landed: &PinnedBuffer<u8>, value| -> Result<bool> {
            Ok(landed.read()?.iter().all(|byte| *byte == value))
        };
        assert!(all(&of_a, 1)? && all(&of_b, 2)? && all(&of_both, 3)?, "{order:?}");
    }
    Ok(())
}

/// Threads allocate and free at the same time, each in its own stream. No two live allocations
/// share a byte.
#[test]
fn threads_share_no_byte_and_lose_none() -> Result<()> {
    let config = HostConfig::new().memory(Bytes(64 << 20));
    let allocator = Allocator::new(Device::host(config)?.remove(0));
    let passed = std::sync::Mutex::new(Vec::<(u64, usize)>::new());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (allocator, passed) = (&allocator, &passed);
            scope.spawn(move || -> Result<()> {
                let stream = allocator.device().stream()?;
                let mut draw = Prng::new(thread);
                let mut mine = Vec::new();
                for _ in 0..2000 {
                    let bytes = 1 + usize::try_from(draw.below(4000)).expect("small");
                    if draw.below(2) == 0 {
                        mine.push((allocator.alloc(bytes, &stream)?, bytes));
                    } else if let Some(freed) = mine.pop() {
                        // Another thread frees half of the allocations.
                        let mut passed = passed.lock().expect("no thread panicked");
                        passed.push(freed);
                        let other = passed.swap_remove(0);
                        drop(passed);
                        allocator.free(other.0, other.1, &stream)?;
                    }
                    let mut sorted: Vec<_> = mine.clone();
                    sorted.sort_unstable();
                    let apart = |pair: &[(u64, usize)]| pair[0].0 + pair[0].1 as u64 <= pair[1].0;
                    assert!(sorted.windows(2).all(apart));
                }
                mine.into_iter().try_for_each(|(x, bytes)| allocator.free(x, bytes, &stream))
            });
        }
    });
    let stream = allocator.device().stream()?;
    for (address, bytes) in passed.into_inner().expect("no thread panicked") {
        allocator.free(address, bytes, &stream)?;
    }
    assert_eq!(allocator.statistics()?.live, Bytes(0));
    Ok(())
}
