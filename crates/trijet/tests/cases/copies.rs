//! Copies in every direction, and buffers and streams that are dropped while they are in use (laws
//! A12, A16, A22).

use super::{Gate, download, mix, upload, words};
use trijet::testing::MIX;
use trijet::{Device, ErrorKind, Result};

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    words(seed, len).iter().map(|word| word.to_le_bytes()[0]).collect()
}

/// The copies have odd sizes and offsets. Margins on both sides must not change.
pub(crate) fn copies_are_byte_exact_in_every_direction(device: &Device) -> Result<()> {
    const MARGIN: usize = 3;
    const SENTINEL: u8 = 0xa5;
    let (a, b) = (device.stream()?, device.stream()?);
    for len in [1, 3, 255, 256, 257, 4095, 66_001] {
        let values = bytes(len as u64, len);
        let padded = len + 2 * MARGIN;
        let part = MARGIN..MARGIN + len;
        let mut host = device.pinned::<u8>(len)?;
        host.write()?.copy_from_slice(&values);
        let mut shifted = device.pinned::<u8>(padded)?;
        let mut landed = device.pinned::<u8>(padded)?;
        shifted.write()?.fill(SENTINEL);
        landed.write()?.fill(SENTINEL);
        let (mut x, mut y) = (a.alloc::<u8>(padded)?, b.alloc::<u8>(padded)?);
        a.fill_bytes(&mut x, SENTINEL)?;
        b.fill_bytes(&mut y, SENTINEL)?;
        a.copy(&host, &mut shifted.slice_mut(part.clone()))?;
        b.copy(&shifted.slice(part.clone()), &mut x.slice_mut(part.clone()))?;
        a.copy(&x.slice(part.clone()), &mut y.slice_mut(part.clone()))?;
        b.copy(&y.slice(part.clone()), &mut landed.slice_mut(part.clone()))?;
        let mut expected = vec![SENTINEL; 3];
        expected.extend(&values);
        expected.extend([SENTINEL; 3]);
        assert_eq!(&*landed.read()?, &expected, "{len} bytes through two device buffers");
        assert_eq!(&*shifted.read()?, &expected, "{len} bytes within the host");
        assert_eq!(download(device, &a, &x)?, expected, "{len} bytes up");
        assert_eq!(download(device, &a, &y)?, expected, "{len} bytes within the device");
    }
    Ok(())
}

pub(crate) fn a_copy_of_nothing_does_nothing(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(1, 8))?;
    let mut y = upload(device, &b, &words(2, 8))?;
    let before = device.ordering();
    b.copy(&x.slice(3..3), &mut y.slice_mut(8..8))?;
    b.fill_bytes(&mut y.slice_mut(4..4), 1)?;
    assert_eq!(device.ordering(), before, "nothing to wait for");
    assert_eq!(download(device, &b, &y)?, words(2, 8));
    Ok(())
}

/// Overlapping copies need no test. They do not compile, because they would borrow one buffer as
/// `&` and as `&mut`.
pub(crate) fn lengths_that_differ_are_refused(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let x = upload(device, &stream, &words(3, 8))?;
    let mut y = upload(device, &stream, &words(4, 9))?;
    let refused = stream.copy(&x, &mut y).expect_err("8 elements do not fill 9");
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    let refused = stream.copy(&y.slice(..), &mut device.pinned::<u64>(8)?).expect_err("9 into 8");
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    let mut short = [0; 7];
    let refused = device.scope(|scope| scope.download(&stream, &x, &mut short));
    assert_eq!(refused.expect_err("8 into 7").kind(), ErrorKind::InvalidValue);
    assert_eq!(download(device, &stream, &y)?, words(4, 9), "a refused copy changes nothing");
    Ok(())
}

/// Law A22: the free of a buffer follows every reader of the buffer, and so does the next use of
/// its memory.
pub(crate) fn dropping_a_buffer_waits_for_its_users_on_other_streams(
    device: &Device,
) -> Result<()> {
    const LEN: usize = 2048;
    let (a, b) = (device.stream()?, device.stream()?);
    for round in 0..6 {
        let source = words(round, LEN);
        let mut expected = words(round + 50, LEN);
        let mut y = upload(device, &b, &expected)?;
        let gate = Gate::on(device, &b)?;
        let x = upload(device, &a, &source)?;
        for salt in 0..4 {
            b.launch(&MIX, (salt, &x, &mut y))?;
            mix(salt, &source, &mut expected);
        }
        drop(x);
        let mut next = a.alloc::<u64>(LEN)?;
        a.fill_bytes(&mut next, 0xee)?;
        gate.open();
        assert_eq!(download(device, &b, &y)?, expected, "round {round}");
    }
    Ok(())
}

/// Law A12. The host can wait for the work of a stream that was dropped.
pub(crate) fn dropping_a_stream_with_pending_work_still_delivers(device: &Device) -> Result<()> {
    let keeper = device.stream()?;
    let source = words(5, 100);
    let x = upload(device, &keeper, &source)?;
    let mut y = upload(device, &keeper, &words(6, 100))?;
    let mut landed = device.pinned::<u64>(100)?;
    let going = device.stream()?;
    let gate = Gate::on(device, &going)?;
    going.launch(&MIX, (1, &x, &mut y))?;
    going.copy(&y, &mut landed)?;
    drop(going);
    gate.open();
    let mut expected = words(6, 100);
    mix(1, &source, &mut expected);
    assert_eq!(&*landed.read()?, &expected);
    Ok(())
}

/// Law A12. Other streams wait for the work of a dropped stream, even if a new stream already uses
/// the lane of the dropped one.
pub(crate) fn work_of_a_dropped_stream_is_ordered_before_its_successors(
    device: &Device,
) -> Result<()> {
    let keeper = device.stream()?;
    let source = words(7, 100);
    let x = upload(device, &keeper, &source)?;
    let mut y = upload(device, &keeper, &words(8, 100))?;
    let mut expected = words(8, 100);
    for salt in 0..12 {
        let going = device.stream()?;
        going.launch(&MIX, (salt, &x, &mut y))?;
        if salt % 4 == 0 {
            going.synchronize()?;
        }
        drop(going);
        mix(salt, &source, &mut expected);
        if salt % 3 == 0 {
            keeper.launch(&MIX, (salt, &x, &mut y))?;
            mix(salt, &source, &mut expected);
        }
    }
    assert_eq!(download(device, &keeper, &y)?, expected);
    Ok(())
}

/// The next stream gets a lane when the work of the lane is complete. A dropped stream that had
/// only a pending wait once counted as complete. The next stream of the lane then counted as having
/// waited, and its copy overtook the write.
pub(crate) fn a_stream_does_not_inherit_the_waits_of_a_dropped_one(device: &Device) -> Result<()> {
    let a = device.stream()?;
    let event = device.event()?;
    let mut x = upload(device, &a, &words(9, 32))?;
    let mut landed = device.pinned::<u64>(32)?;
    let gate = Gate::on(device, &a)?;
    a.fill_bytes(&mut x, 7)?;
    event.record(&a)?;
    let waiting = device.stream()?;
    waiting.wait(&event)?;
    drop(waiting);
    let next = device.stream()?;
    let before = device.ordering().waits;
    next.copy(&x, &mut landed)?;
    assert_eq!(device.ordering().waits, before + 1, "this stream has not waited yet");
    gate.open();
    assert_eq!(&*landed.read()?, &[0x0707_0707_0707_0707; 32]);
    Ok(())
}

pub(crate) fn a_scope_lands_its_downloads(device: &Device) -> Result<()> {
    let streams = [device.stream()?, device.stream()?];
    let sources: Vec<Vec<u64>> = (0..6).map(|n| words(n as u64, 10 * n + 1)).collect();
    let mut targets: Vec<Vec<u64>> = sources.iter().map(|source| vec![0; source.len()]).collect();
    device.scope(|scope| {
        for (number, (source, target)) in sources.iter().zip(&mut targets).enumerate() {
            let (up, down) = (&streams[number % 2], &streams[(number + 1) % 2]);
            let mut x = up.alloc::<u64>(source.len())?;
            let mut staged = source.clone();
            scope.upload(up, &staged, &mut x)?;
            staged.fill(0);
            scope.download(down, &x, target)?;
        }
        Ok(())
    })?;
    assert_eq!(targets, sources);
    Ok(())
}
