//! What the programs are made of: memory that is ready, kernels that write or read it, and the
//! parties outside the streams of a program.
//!
//! A host thread that touches memory, and a network library that does, know what the calling thread
//! has waited for and nothing else. A guard would wait for the device by itself. So both are written
//! as copies in a non-blocking stream of their own, which begin after the call that enqueues them
//! (law A2) and follow nothing else.

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

/// A buffer of a device that holds zeros, with nothing pending.
pub(crate) fn zeros(device: &Device, twin: Twin) -> Result<Buffer<u32>> {
    zeros_of(device, twin, LEN)
}

pub(crate) fn zeros_of<T: Element>(device: &Device, twin: Twin, len: usize) -> Result<Buffer<T>> {
    let stream = device.stream()?;
    let mut buffer = stream.alloc::<T>(len)?;
    stream.fill_bytes(&mut buffer, 0)?;
    device.synchronize()?;
    Ok(twin.take_over(buffer))
}

/// Page-locked memory that holds zeros: what both the host and kernels reach, in place of managed
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
    Ok(twin.take_over(buffer))
}

/// Ordinary memory of the host with one value in each element.
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

/// The calling thread reads memory of the host.
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

/// The calling thread writes memory of the host.
#[track_caller]
pub(crate) fn host_writes<T: Element>(
    device: &Device,
    target: &mut PinnedBuffer<T>,
    value: T,
) -> Result<()> {
    let source = ordinary(device, target.len(), value)?;
    device.stream()?.copy(&source, target)
}

/// A network library that the calling thread calls reads memory of the device.
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

/// The elements of a buffer, once all of the device's work is done.
pub(crate) fn in_the_end<R>(device: &Device, source: &R) -> Result<Seen>
where
    R: AsView,
    R::Element: Into<u64>,
{
    device.synchronize()?;
    sends(device, source)
}

/// The elements of memory of the host, once what the guard waits for is done.
pub(crate) fn values<T, S>(memory: &Buffer<T, S>) -> Result<Seen>
where
    T: Element + Into<u64>,
    S: OnHost,
{
    Ok(memory.read()?.iter().map(|value| (*value).into()).collect())
}

/// So many streams that do not wait for the legacy stream.
pub(crate) fn streams(device: &Device, count: usize) -> Result<Vec<Stream>> {
    (0..count).map(|_| device.stream()).collect()
}

/// So many streams that do.
pub(crate) fn blocking_streams(device: &Device, count: usize) -> Result<Vec<Stream>> {
    (0..count).map(|_| device.stream_with(StreamOptions::new().blocking())).collect()
}

/// Asks until the answer is that all is done.
///
/// # Errors
/// What the query reports, or the wait that follows when the limit of questions is reached: in an
/// order where the host asks and asks, modelled time never passes.
pub(crate) fn asks_until_ready(
    device: &Device,
    query: impl Fn() -> Result<Readiness>,
    wait: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let questions_max = if device.info().clock == Clock::Model { 3 } else { 100_000_000 };
    for _ in 0..questions_max {
        if query()? == Readiness::Ready {
            return Ok(());
        }
        std::thread::yield_now();
    }
    wait()
}
