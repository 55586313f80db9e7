//! Parts of the programs: memory without pending work, kernels that write or read it, and the
//! parties outside the streams of a program.
//!
//! A host thread that uses memory, and a network library that does, follow only the work that the
//! calling thread has waited for. A guard would wait for the device too, so both are copies in
//! separate non-blocking streams. The copies start after the call that enqueues them (law A2) and
//! follow nothing else.

use super::twins::{Seen, Twin};
use trijet::kernels::FILL_U32;
use trijet::memory::OnHost;
use trijet::testing::WORK;
use trijet::{
    AsView, Buffer, Clock, Device, Element, PageableBuffer, PinnedBuffer, Readiness, Result,
    Stream, StreamOptions, View, ViewMut,
};

/// Elements of a buffer: few, so that exploring all orders is cheap.
pub(crate) const LEN: usize = 2;

/// A device buffer that holds zeros, without pending work.
pub(crate) fn zeros(device: &Device, twin: Twin) -> Result<Buffer<u32>> {
    zeros_of(device, twin, LEN)
}

pub(crate) fn zeros_of<T: Element>(device: &Device, twin: Twin, len: usize) -> Result<Buffer<T>> {
    let stream = device.stream()?;
    let mut buffer = stream.alloc::<T>(len)?;
    stream.fill_bytes(&mut buffer, 0)?;
    device.synchronize()?;
    Ok(twin.manual_unless_tracked(buffer))
}

/// Page-locked memory that holds zeros. The host and kernels reach it, as they reach managed
/// memory.
pub(crate) fn shared(device: &Device, twin: Twin) -> Result<PinnedBuffer<u32>> {
    shared_of(device, twin, LEN)
}

pub(crate) fn shared_of<T: Element>(
    device: &Device,
    twin: Twin,
    len: usize,
) -> Result<PinnedBuffer<T>> {
    let mut buffer = device.pinned::<T>(len)?;
    buffer.write()?.fill(T::zeroed());
    Ok(twin.manual_unless_tracked(buffer))
}

/// Pageable memory with one value in each element.
pub(crate) fn ordinary<T: Element>(
    device: &Device,
    len: usize,
    value: T,
) -> Result<PageableBuffer<T>> {
    let mut buffer = device.pageable::<T>(len)?;
    buffer.write()?.fill(value);
    Ok(buffer)
}

/// Enqueues a kernel that writes `value` to all of `target`.
#[track_caller]
pub(crate) fn writes(stream: &Stream, target: ViewMut<'_, u32>, value: u32) -> Result<()> {
    stream.launch(&FILL_U32, (value, target))
}

/// Enqueues a kernel that reads `source` and writes `target`: a copy.
#[track_caller]
pub(crate) fn reads(
    stream: &Stream,
    source: View<'_, u32>,
    target: ViewMut<'_, u32>,
) -> Result<()> {
    stream.launch(&WORK, (0, source, target))
}

/// Reads host memory, as the calling thread would.
#[track_caller]
pub(crate) fn host_reads<T, S>(device: &Device, source: &Buffer<T, S>) -> Result<Seen>
where
    T: Element + Into<u64>,
    S: OnHost,
{
    let reader = device.stream()?;
    let mut landed = ordinary(device, source.len(), T::zeroed())?;
    reader.copy(source, &mut landed)?;
    values(&landed)
}

/// Writes host memory, as the calling thread would.
#[track_caller]
pub(crate) fn host_writes<T: Element>(
    device: &Device,
    target: &mut PinnedBuffer<T>,
    value: T,
) -> Result<()> {
    let source = ordinary(device, target.len(), value)?;
    device.stream()?.copy(&source, target)
}

/// Reads device memory, as a network library that the calling thread calls would.
#[track_caller]
pub(crate) fn sends<R>(device: &Device, source: &R) -> Result<Seen>
where
    R: AsView,
    R::Element: Into<u64>,
{
    let card = device.stream()?;
    let mut landed = device.pinned::<R::Element>(source.as_view().len())?;
    card.copy(source, &mut landed)?;
    values(&landed)
}

/// The elements of a buffer, when all work of the device is complete.
pub(crate) fn read_at_end<R>(device: &Device, source: &R) -> Result<Seen>
where
    R: AsView,
    R::Element: Into<u64>,
{
    device.synchronize()?;
    sends(device, source)
}

/// The elements of host memory, when the guard has waited for its writers.
pub(crate) fn values<T, S>(memory: &Buffer<T, S>) -> Result<Seen>
where
    T: Element + Into<u64>,
    S: OnHost,
{
    Ok(memory.read()?.iter().map(|value| (*value).into()).collect())
}

/// `count` streams that do not wait for the legacy stream.
pub(crate) fn streams(device: &Device, count: usize) -> Result<Vec<Stream>> {
    (0..count).map(|_| device.stream()).collect()
}

/// `count` streams that wait for the legacy stream.
pub(crate) fn blocking_streams(device: &Device, count: usize) -> Result<Vec<Stream>> {
    (0..count).map(|_| device.stream_with(StreamOptions::new().blocking())).collect()
}

/// Polls until the work is complete.
///
/// # Errors
/// The error of the query, or of the wait that follows when the limit of polls is reached: in an
/// order in which only the host takes steps, modelled time never passes.
pub(crate) fn poll_until_ready(
    device: &Device,
    query: impl Fn() -> Result<Readiness>,
    wait: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let polls_max = if device.info().clock == Clock::Model { 3 } else { 100_000_000 };
    for _ in 0..polls_max {
        if query()? == Readiness::Ready {
            return Ok(());
        }
        std::thread::yield_now();
    }
    wait()
}
