//! Memory that is reused (laws A21 to A25, M-B1 to M-B5). The driver chooses the block of an
//! allocation, but never one that is in use.

use super::{Gate, download, mix, upload, words};
use trijet::testing::MIX;
use trijet::{Bytes, Device, ErrorKind, Result, StreamOptions};

const LEN: usize = 1 << 15;

/// Law M-B1: the new allocation may be the same block, and follows its earlier users.
pub(crate) fn memory_of_the_same_stream_is_reused_in_stream_order(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut landed = device.pinned::<u64>(LEN)?;
    for round in 0..5 {
        let values = words(round, LEN);
        let x = upload(device, &stream, &values)?;
        let gate = Gate::on(device, &stream)?;
        stream.copy(&x, &mut landed)?;
        drop(x);
        let mut next = stream.alloc::<u64>(LEN)?;
        stream.fill_bytes(&mut next, 0xee)?;
        gate.open();
        assert_eq!(&*landed.read()?, &values, "round {round}");
        assert_eq!(download(device, &stream, &next)?[9], 0xeeee_eeee_eeee_eeee);
    }
    Ok(())
}

/// Law M-B3: another stream may get the block after an edge from the free to that stream. In either
/// case the operations of that stream follow the earlier users of the memory.
pub(crate) fn memory_reused_across_an_event_comes_after_its_users(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let mut landed = device.pinned::<u64>(LEN)?;
    for round in 0..5 {
        let values = words(10 + round, LEN);
        let x = upload(device, &a, &values)?;
        let gate = Gate::on(device, &a)?;
        a.copy(&x, &mut landed)?;
        drop(x);
        event.record(&a)?;
        b.wait(&event)?;
        let mut next = b.alloc::<u64>(LEN)?;
        b.fill_bytes(&mut next, 0xdd)?;
        gate.open();
        assert_eq!(&*landed.read()?, &values, "round {round}");
        assert_eq!(download(device, &b, &next)?[9], 0xdddd_dddd_dddd_dddd);
    }
    Ok(())
}

/// Laws M-B3 to M-B5: without an edge, another stream does not get the block of a pending free, or
/// gets it only after a wait that the driver inserts.
pub(crate) fn memory_in_use_is_never_given_to_another_stream(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut landed = device.pinned::<u64>(LEN)?;
    for round in 0..5 {
        let values = words(20 + round, LEN);
        let x = upload(device, &a, &values)?;
        let gate = Gate::on(device, &a)?;
        a.copy(&x, &mut landed)?;
        drop(x);
        let mut next = b.alloc::<u64>(LEN)?;
        b.fill_bytes(&mut next, 0xcc)?;
        gate.open();
        assert_eq!(&*landed.read()?, &values, "round {round}");
        assert_eq!(download(device, &b, &next)?[9], 0xcccc_cccc_cccc_cccc);
    }
    Ok(())
}

/// Law M-B3: the legacy stream is an edge between blocking streams. This includes reused memory.
pub(crate) fn memory_reused_across_the_legacy_stream_comes_after_its_users(
    device: &Device,
) -> Result<()> {
    let (a, b) = (
        device.stream_with(StreamOptions::new().blocking())?,
        device.stream_with(StreamOptions::new().blocking())?,
    );
    let legacy = device.legacy_stream()?;
    let mut landed = device.pinned::<u64>(LEN)?;
    for round in 0..4 {
        let values = words(30 + round, LEN);
        let x = upload(device, &a, &values)?;
        let mut y = legacy.alloc::<u64>(8)?;
        let gate = Gate::on(device, &a)?;
        a.copy(&x, &mut landed)?;
        drop(x);
        legacy.fill_bytes(&mut y, 1)?;
        let mut next = b.alloc::<u64>(LEN)?;
        b.fill_bytes(&mut next, 0xbb)?;
        gate.open();
        assert_eq!(&*landed.read()?, &values, "round {round}");
        assert_eq!(download(device, &b, &next)?[9], 0xbbbb_bbbb_bbbb_bbbb);
    }
    Ok(())
}

/// Law M-B2: any stream can reuse memory after the host has seen that the free is complete. So a
/// program that waits in each round needs only the memory of one round.
pub(crate) fn memory_seen_complete_is_reused_by_any_stream(device: &Device) -> Result<()> {
    let mut reserved = Bytes(0);
    for round in 0..6 {
        let stream = device.stream()?;
        let mut x = stream.alloc::<u8>(40 << 20)?;
        stream.fill_bytes(&mut x.slice_mut(..64), 1)?;
        drop(x);
        stream.synchronize()?;
        let now = device.memory_stats()?.reserved;
        assert!(round == 0 || now == reserved, "round {round}: {reserved}, then {now}");
        reserved = now;
    }
    Ok(())
}

/// Law A21: memory can be used in its stream after the call, and in other streams after an edge,
/// which the library inserts.
pub(crate) fn memory_is_used_in_another_stream_after_its_allocation(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    for round in 0..5 {
        let gate = Gate::on(device, &a)?;
        let mut x = a.alloc::<u64>(256)?;
        b.fill_bytes(&mut x, 5)?;
        let y = upload(device, &b, &words(round, 256))?;
        b.launch(&MIX, (round, &y, &mut x))?;
        gate.open();
        let mut expected = vec![0x0505_0505_0505_0505; 256];
        mix(round, &words(round, 256), &mut expected);
        assert_eq!(download(device, &b, &x)?, expected, "round {round}");
    }
    Ok(())
}

/// Law A25: trimming does not take memory that a stream uses.
pub(crate) fn trimming_while_a_stream_is_held_up_takes_nothing_in_use(
    device: &Device,
) -> Result<()> {
    let stream = device.stream()?;
    let values = words(60, LEN);
    let x = upload(device, &stream, &values)?;
    let mut landed = device.pinned::<u64>(LEN)?;
    stream.synchronize()?;
    let gate = Gate::on(device, &stream)?;
    stream.copy(&x, &mut landed)?;
    drop(x);
    device.trim_memory(Bytes(0))?;
    let mut next = stream.alloc::<u64>(LEN)?;
    stream.fill_bytes(&mut next, 0)?;
    gate.open();
    assert_eq!(&*landed.read()?, &values);
    Ok(())
}

/// A buffer grows at its address while an operation on the buffer is held back (law M-F1). After
/// the buffer is dropped, the next buffer gets its memory. The operations of the next buffer follow
/// the users of the dropped one.
pub(crate) fn a_buffer_grows_beside_its_operations_and_leaves_its_memory(
    device: &Device,
) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    if device.heap_stats().is_none() {
        let error = a.growing::<u64>(0, LEN).expect_err("a pool has no growing buffers");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        return Ok(());
    }
    let mut landed = device.pinned::<u64>(LEN)?;
    for round in 0..5 {
        let values = words(30 + round, LEN);
        let host = upload(device, &a, &values)?;
        let mut x = a.growing::<u64>(0, 64 * LEN)?;
        let address = x.address();
        x.grow_to(LEN)?;
        let gate = Gate::on(device, &a)?;
        a.copy(&host, &mut x)?;
        x.grow_to(64 * LEN)?;
        a.copy(&host, &mut x.slice_mut(63 * LEN..))?;
        a.copy(&x.slice(63 * LEN..), &mut landed)?;
        assert_eq!(x.address(), address);
        drop(x);
        let mut next = b.growing::<u64>(0, 64 * LEN)?;
        next.grow_to(64 * LEN)?;
        b.fill_bytes(&mut next, 0xbb)?;
        gate.open();
        assert_eq!(&*landed.read()?, &values, "round {round}");
        b.copy(&next.slice(63 * LEN..), &mut landed)?;
        assert_eq!(landed.read()?[LEN - 1], 0xbbbb_bbbb_bbbb_bbbb);
    }
    Ok(())
}
