//! Pageable memory and copies that the host waits for (laws A17, A18 and A20).

use super::default_streams::ends_early;
use super::{Gate, download, upload, words};
use trijet::{Device, PageableBuffer, Readiness, Result, StreamOptions};

fn pageable(device: &Device, values: &[u64]) -> Result<PageableBuffer<u64>> {
    let mut buffer = device.pageable::<u64>(values.len())?;
    buffer.write()?.copy_from_slice(values);
    Ok(buffer)
}

/// Law A17: the copy is in stream order, whether the driver stages or waits.
pub(crate) fn a_pageable_copy_takes_its_place_in_the_stream(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let source = words(1, 1024);
    let host = pageable(device, &source)?;
    let mut x = upload(device, &stream, &words(2, 1024))?;
    let mut landed = device.pageable::<u64>(1024)?;
    stream.fill_bytes(&mut x, 7)?;
    stream.copy(&host, &mut x)?;
    stream.fill_bytes(&mut x.slice_mut(..3), 9)?;
    stream.copy(&x, &mut landed)?;
    stream.fill_bytes(&mut x, 8)?;
    assert_eq!(landed.read()?[3..], source[3..]);
    assert_eq!(landed.read()?[..3], [0x0909_0909_0909_0909; 3]);
    Ok(())
}

/// Law A17: the call may return before the copy is complete. The guard waits for the copy.
pub(crate) fn writing_a_pageable_source_waits_until_it_was_read(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut host = device.pageable::<u64>(4096)?;
    let mut x = stream.alloc::<u64>(4096)?;
    for round in 0..6 {
        let values = words(30 + round, 4096);
        host.write()?.copy_from_slice(&values);
        stream.copy(&host, &mut x)?;
        host.write()?.fill(0);
        assert_eq!(download(device, &stream, &x)?, values, "round {round}");
    }
    Ok(())
}

/// Law A17: a copy within the host is complete when the call returns.
pub(crate) fn a_copy_within_the_host_is_done_at_return(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let source = words(3, 2048);
    let host = pageable(device, &source)?;
    let mut landed = device.pageable::<u64>(2048)?;
    stream.copy(&host, &mut landed)?;
    assert_eq!(stream.query()?, Readiness::Ready);
    assert_eq!(&*landed.read()?, &source);
    Ok(())
}

/// Law A16: with page-locked memory the call returns while the stream is held back. The memory is
/// in use until the copy ends.
pub(crate) fn a_page_locked_copy_does_not_hold_the_host_up(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let source = words(4, 512);
    let mut host = device.pinned::<u64>(512)?;
    host.write()?.copy_from_slice(&source);
    let mut x = stream.alloc::<u64>(512)?;
    let gate = Gate::on(device, &stream)?;
    stream.copy(&host, &mut x)?;
    let ticket = stream.ticket()?;
    assert_eq!(ticket.query()?, Readiness::NotReady, "the call did not wait for the gate");
    gate.open();
    host.write()?.fill(0);
    assert_eq!(ticket.query()?, Readiness::Ready, "the guard waited for the copy");
    assert_eq!(download(device, &stream, &x)?, source);
    Ok(())
}

/// Law A18: a synchronous copy to the host is complete when its call returns, for page-locked and
/// for pageable memory.
pub(crate) fn a_synchronous_download_is_complete_at_return(device: &Device) -> Result<()> {
    let stream = device.stream_with(StreamOptions::new().blocking())?;
    let source = words(5, 2048);
    let x = upload(device, &stream, &source)?;
    let mut pinned = device.pinned::<u64>(2048)?;
    let mut ordinary = device.pageable::<u64>(2048)?;
    device.copy_now(&x, &mut pinned)?;
    assert_eq!(stream.query()?, Readiness::Ready, "the legacy stream waited for the upload");
    assert_eq!(&*pinned.read()?, &source);
    device.copy_now(&x, &mut ordinary)?;
    assert_eq!(&*ordinary.read()?, &source);
    Ok(())
}

/// Law A18: from page-locked memory the copy is complete at return. From pageable memory the source
/// may be changed at return, and the copy has its old bytes.
pub(crate) fn a_synchronous_upload_frees_its_source_at_return(device: &Device) -> Result<()> {
    let keeper = device.stream()?;
    let mut x = keeper.alloc::<u64>(4096)?;
    let mut pinned = device.pinned::<u64>(4096)?;
    let mut ordinary = device.pageable::<u64>(4096)?;
    for round in 0..4 {
        let values = words(40 + round, 4096);
        ordinary.write()?.copy_from_slice(&values);
        device.copy_now(&ordinary, &mut x)?;
        ordinary.write()?.fill(1);
        assert_eq!(download(device, &keeper, &x)?, values, "pageable, round {round}");
        let values = words(50 + round, 4096);
        pinned.write()?.copy_from_slice(&values);
        device.copy_now(&pinned, &mut x)?;
        assert_eq!(device.legacy_stream()?.query()?, Readiness::Ready, "round {round}");
        pinned.write()?.fill(1);
        assert_eq!(download(device, &keeper, &x)?, values, "page-locked, round {round}");
    }
    Ok(())
}

/// Laws A13 and A18: synchronous copies do not wait for a non-blocking stream.
pub(crate) fn synchronous_copies_do_not_wait_for_non_blocking_streams(
    device: &Device,
) -> Result<()> {
    let (held, free) = (device.stream()?, device.stream()?);
    let mut ordinary = device.pageable::<u64>(64)?;
    ordinary.write()?.fill(6);
    let (mut x, mut y) = (free.alloc::<u64>(64)?, free.alloc::<u64>(64)?);
    let mut landed = device.pinned::<u64>(64)?;
    let pending = device.event()?;
    device.synchronize()?;
    let gate = Gate::on(device, &held)?;
    pending.record(&held)?;
    device.fill_now(&mut y, 0)?;
    device.copy_now(&ordinary, &mut x)?;
    device.copy_now(&x, &mut y)?;
    device.copy_now(&y, &mut landed)?;
    assert_eq!(pending.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    assert_eq!(&*landed.read()?, &[6; 64]);
    assert!(ends_early(device, &pending)?);
    Ok(())
}
