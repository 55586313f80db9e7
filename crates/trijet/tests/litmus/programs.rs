//! The litmus programs. Each program ends on every device, and leaves no pending work and no
//! memory.

use crate::cases::words;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trijet::testing::{MIX, WORK};
use trijet::{
    Batch, Buffer, Bytes, Clock, Device, Event, PinnedBuffer, Readiness, Result, SourceOrder,
    Stream, StreamOptions,
};

/// Keeps a stream busy. On a GPU it is busy for about `rounds` rounds. With modelled time it is
/// busy for longer than all calls of a program.
fn busy(device: &Device, stream: &Stream, rounds: u32) -> Result<()> {
    device.load(&WORK)?;
    if device.info().clock == Clock::Model {
        return stream.host_fn(|| ());
    }
    let x = stream.alloc::<u32>(32)?;
    stream.launch(&WORK, (rounds, &x, &mut stream.alloc::<u32>(32)?))
}

/// Rounds that take about 50 microseconds.
const SHORT: u32 = 2_000;
/// Rounds that take about 10 milliseconds.
const LONG: u32 = 400_000;

/// A device buffer that is ordered by hand. All its bytes are `value`, and it has no pending work.
fn plain(stream: &Stream, len: usize, value: u8) -> Result<Buffer<u8>> {
    let mut x = stream.alloc::<u8>(len)?;
    stream.fill_bytes(&mut x, value)?;
    stream.synchronize()?;
    // SAFETY: a race leaves some byte in each place, and no kernel takes the bytes for an index.
    unsafe { x.order_manually() };
    Ok(x)
}

fn pinned(device: &Device, len: usize, value: u8) -> Result<PinnedBuffer<u8>> {
    let mut h = device.pinned::<u8>(len)?;
    h.write()?.fill(value);
    Ok(h)
}

fn ended(event: &Event, early: &'static str, late: &'static str) -> Result<&'static str> {
    Ok(if event.query()? == Readiness::Ready { late } else { early })
}

/// Law A3.
pub(super) fn streams_without_an_edge(device: &Device) -> Result<&'static str> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut seen = pinned(device, 1, 2)?;
    let mut x = plain(&a, 1, 0)?;
    a.fill_bytes(&mut x, 1)?;
    b.copy(&x, &mut seen)?;
    device.synchronize()?;
    let value = seen.read()?[0];
    Ok(if value == 1 { "in-enqueue-order" } else { "overtaken" })
}

/// Law A14.
pub(super) fn bare_record_on_the_legacy_stream(device: &Device) -> Result<&'static str> {
    let (a, b) = (
        device.stream_with(StreamOptions::new().blocking())?,
        device.stream_with(StreamOptions::new().blocking())?,
    );
    let (legacy, event) = (device.legacy_stream()?, device.event()?);
    let mut seen = pinned(device, 1, 2)?;
    let mut x = plain(&a, 1, 0)?;
    busy(device, &a, SHORT)?;
    a.fill_bytes(&mut x, 1)?;
    event.record(&legacy)?;
    b.copy(&x, &mut seen)?;
    device.synchronize()?;
    let value = seen.read()?[0];
    Ok(if value == 1 { "held-back" } else { "went-on" })
}

/// Law A17.
pub(super) fn pageable_upload(device: &Device) -> Result<&'static str> {
    let stream = device.stream()?;
    let mut host = device.pageable::<u8>(65_536)?;
    host.write()?.fill(1);
    let (mut x, event) = (plain(&stream, 65_536, 0)?, device.event()?);
    busy(device, &stream, SHORT)?;
    event.record(&stream)?;
    stream.copy(&host, &mut x)?;
    let before = event.query()?;
    let after = stream.query()?;
    stream.synchronize()?;
    Ok(match (before, after) {
        (Readiness::NotReady, _) => "returned-at-once",
        (Readiness::Ready, Readiness::NotReady) => "returned-when-staged",
        (Readiness::Ready, Readiness::Ready) => "returned-when-done",
    })
}

/// Law A17.
pub(super) fn pageable_download(device: &Device) -> Result<&'static str> {
    let stream = device.stream()?;
    let mut host = device.pageable::<u8>(65_536)?;
    let x = plain(&stream, 65_536, 1)?;
    busy(device, &stream, SHORT)?;
    stream.copy(&x, &mut host)?;
    let after = stream.query()?;
    stream.synchronize()?;
    Ok(if after == Readiness::Ready { "returned-when-done" } else { "returned-early" })
}

/// Law A18: the copy may still run when the source is staged.
pub(super) fn sync_pageable_upload(device: &Device) -> Result<&'static str> {
    let (keeper, legacy) = (device.stream()?, device.legacy_stream()?);
    let mut host = device.pageable::<u8>(32_768)?;
    host.write()?.fill(1);
    let mut x = plain(&keeper, 32_768, 0)?;
    device.copy_now(&host, &mut x)?;
    let after = legacy.query()?;
    device.synchronize()?;
    Ok(if after == Readiness::Ready { "returned-when-done" } else { "returned-when-staged" })
}

/// Law A18: the host does not wait.
pub(super) fn sync_copy_within_the_device(device: &Device) -> Result<&'static str> {
    let (keeper, legacy) = (device.stream()?, device.legacy_stream()?);
    let (x, mut y) = (plain(&keeper, 65_536, 1)?, plain(&keeper, 65_536, 0)?);
    device.copy_now(&x, &mut y)?;
    let after = legacy.query()?;
    device.synchronize()?;
    Ok(if after == Readiness::Ready { "done-at-return" } else { "running-at-return" })
}

/// Law A18.
pub(super) fn sync_fill(device: &Device) -> Result<&'static str> {
    let (keeper, legacy) = (device.stream()?, device.legacy_stream()?);
    let mut x = plain(&keeper, 65_536, 0)?;
    device.fill_now(&mut x, 1)?;
    let after = legacy.query()?;
    device.synchronize()?;
    Ok(if after == Readiness::Ready { "done-at-return" } else { "running-at-return" })
}

/// Law A19: which copies of a batch read what other streams write at the same time.
pub(super) fn order_inside_a_batch(device: &Device) -> Result<&'static str> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let (mut x, mut y) = (plain(&a, 4_096, 0)?, plain(&a, 4_096, 0)?);
    let (mut first, mut second) = (pinned(device, 4_096, 2)?, pinned(device, 4_096, 2)?);
    b.fill_bytes(&mut x, 1)?;
    c.fill_bytes(&mut y, 1)?;
    let mut batch = Batch::new();
    batch.add(&x, &mut first)?;
    batch.add(&y, &mut second)?;
    a.copy_batch(batch, SourceOrder::Stream)?;
    device.synchronize()?;
    let (first, second) = (first.read()?[0], second.read()?[0]);
    Ok(match (first, second) {
        (1, 1) => "both-saw-it",
        (1, _) => "the-first-saw-it",
        (_, 1) => "the-second-saw-it",
        _ => "none-saw-it",
    })
}

/// Law A19: the time at which a source with the order `Any` is read. The source is written again
/// after the call.
pub(super) fn batch_of_any_order(device: &Device) -> Result<&'static str> {
    let (a, b) = (device.stream()?, device.stream()?);
    let (mut source, other) = (pinned(device, 64, 1)?, pinned(device, 64, 2)?);
    let mut landed = pinned(device, 64, 0)?;
    let mut x = plain(&a, 64, 0)?;
    // SAFETY: a race leaves some byte in each place, which only the copy below reads.
    unsafe { source.order_manually() };
    busy(device, &a, SHORT)?;
    let mut batch = Batch::new();
    batch.add(&source, &mut x)?;
    a.copy_batch(batch, SourceOrder::Any)?;
    b.copy(&other, &mut source)?;
    b.synchronize()?;
    a.copy(&x, &mut landed)?;
    let value = landed.read()?[0];
    Ok(if value == 1 { "read-before" } else { "read-after" })
}

/// Law A23: a free that is complete, although neither a wait of the host nor an event shows this. A
/// stamp in the block, which is used once, shows whether the next allocation gets the same block.
pub(super) fn finished_free_of_another_stream(device: &Device) -> Result<&'static str> {
    static STAMP: AtomicU64 = AtomicU64::new(1);
    let stamp = STAMP.fetch_add(1, Ordering::Relaxed);
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let mut h = device.pinned::<u64>(1 << 12)?;
    h.write()?.fill(stamp);
    let mut x = a.alloc::<u64>(1 << 12)?;
    a.copy(&h, &mut x)?;
    a.synchronize()?;
    drop(x);
    busy(device, &c, SHORT)?;
    c.synchronize()?;
    let y = b.alloc::<u64>(1 << 12)?;
    b.copy(&y, &mut h)?;
    let value = h.read()?[0];
    Ok(if value == stamp { "the-freed-block" } else { "another-block" })
}

/// Law A25: a free that is complete, although the host has not seen this.
pub(super) fn trim_of_an_unseen_free(device: &Device) -> Result<&'static str> {
    let (a, c) = (device.stream()?, device.stream()?);
    device.trim_memory(Bytes(0))?;
    let mut x = a.alloc::<u8>(33 << 20)?;
    a.fill_bytes(&mut x.slice_mut(..8), 1)?;
    a.synchronize()?;
    drop(x);
    busy(device, &c, SHORT)?;
    c.synchronize()?;
    let before = device.memory_stats()?.reserved;
    device.trim_memory(Bytes(0))?;
    let after = device.memory_stats()?.reserved;
    device.synchronize()?;
    Ok(if after < before { "returned" } else { "kept" })
}

/// Law A28: the order in which two host functions run, and whether they overlap. Each host function
/// waits for the other for a short time only.
pub(super) fn host_functions_of_two_streams(device: &Device) -> Result<&'static str> {
    const LOOKS: u32 = 2_000;
    let log: Arc<Mutex<Vec<(u8, bool)>>> = Arc::default();
    let running = Arc::new(AtomicU64::new(0));
    for number in 0..2 {
        let (log, running) = (Arc::clone(&log), Arc::clone(&running));
        device.stream()?.host_fn(move || {
            running.fetch_add(1, Ordering::SeqCst);
            let together = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                running.load(Ordering::SeqCst) == 2
            });
            log.lock().expect("no host function panics").push((number, together));
            running.fetch_sub(1, Ordering::SeqCst);
        })?;
    }
    device.synchronize()?;
    let log = log.lock().expect("nothing panics with it");
    Ok(match log[..] {
        [(_, true), _] | [_, (_, true)] => "together",
        [(0, _), _] => "in-enqueue-order",
        _ => "the-other-way-round",
    })
}

/// Law A41: whether the host waits when 1100 operations follow a busy stream's kernel.
pub(super) fn many_operations(device: &Device) -> Result<&'static str> {
    let (stream, event) = (device.stream()?, device.event()?);
    let x = plain(&stream, 64, 0)?;
    let mut y = stream.alloc::<u8>(64)?;
    busy(device, &stream, LONG)?;
    event.record(&stream)?;
    for _ in 0..1_100 {
        stream.copy(&x, &mut y)?;
    }
    let outcome = ended(&event, "the-host-went-on", "the-host-waited")?;
    device.synchronize()?;
    Ok(outcome)
}

/// Law A42.
pub(super) fn first_use_of_a_kernel(device: &Device) -> Result<&'static str> {
    let (stream, event) = (device.stream()?, device.event()?);
    stream.synchronize()?;
    busy(device, &stream, LONG)?;
    event.record(&stream)?;
    device.load(&MIX)?;
    let outcome = ended(&event, "did-not-wait", "waited-for-running-work")?;
    let mut x = stream.alloc::<u64>(4)?;
    let mut staged = device.pinned::<u64>(4)?;
    staged.write()?.copy_from_slice(&words(1, 4));
    stream.copy(&staged, &mut x)?;
    device.synchronize()?;
    Ok(outcome)
}
