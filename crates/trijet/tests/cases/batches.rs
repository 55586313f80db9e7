//! Batches of copies (law A19).

use super::{Gate, download, upload, words};
use trijet::{Batch, Device, ErrorKind, Readiness, Result, SourceOrder};

const ORDERS: [SourceOrder; 3] = [SourceOrder::Stream, SourceOrder::DuringCall, SourceOrder::Any];

/// Law A19: every copy arrives, whenever the sources are read.
pub(crate) fn a_batch_delivers_all_of_its_copies(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    for (round, order) in (0..).zip(ORDERS) {
        let sources: Vec<Vec<u64>> =
            (0..5).map(|n| words(10 * round + n as u64, 7 * n + 1)).collect();
        let mut staged = Vec::new();
        let mut targets = Vec::new();
        for source in &sources {
            let len = source.len();
            let mut host = device.pinned::<u64>(len)?;
            host.write()?.copy_from_slice(source);
            staged.push(host);
            targets.push(stream.alloc::<u64>(len)?);
        }
        let mut batch = Batch::new();
        for (host, target) in staged.iter().zip(&mut targets) {
            batch.add(host, target)?;
        }
        stream.copy_batch(batch, order)?;
        for (source, target) in sources.iter().zip(&targets) {
            assert_eq!(download(device, &stream, target)?, *source, "{order:?}");
        }
    }
    Ok(())
}

/// Law A19: a batch that reads in stream order is one operation. It follows earlier operations of
/// its stream, and later ones follow it.
pub(crate) fn a_batch_takes_its_place_in_the_stream(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let (first, second) = (words(1, 64), words(2, 64));
    let mut x = upload(device, &stream, &first)?;
    let z = upload(device, &stream, &second)?;
    let (mut y, mut w) = (stream.alloc::<u64>(64)?, stream.alloc::<u64>(64)?);
    let gate = Gate::on(device, &stream)?;
    stream.fill_bytes(&mut x.slice_mut(..32), 1)?;
    let mut batch = Batch::new();
    batch.add(&x, &mut y)?;
    batch.add(&z, &mut w)?;
    stream.copy_batch(batch, SourceOrder::Stream)?;
    stream.fill_bytes(&mut x, 2)?;
    stream.fill_bytes(&mut w.slice_mut(..8), 3)?;
    assert_eq!(stream.query()?, Readiness::NotReady, "the batch waits as well");
    gate.open();
    let before = [vec![0x0101_0101_0101_0101; 32], first[32..].to_vec()].concat();
    let after = [vec![0x0303_0303_0303_0303; 8], second[8..].to_vec()].concat();
    assert_eq!(download(device, &stream, &y)?, before, "after what is before it");
    assert_eq!(download(device, &stream, &w)?, after, "before what is after it");
    Ok(())
}

/// Law A19: an event that is recorded after the batch covers every copy in the batch.
pub(crate) fn an_event_after_a_batch_stands_for_all_of_it(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let source = words(3, 4096);
    let x = upload(device, &a, &source)?;
    let (mut y, mut z) = (a.alloc::<u64>(2048)?, a.alloc::<u64>(2048)?);
    let mut landed = device.pinned::<u64>(4096)?;
    a.synchronize()?;
    // SAFETY: used on `a`, then on `b` after an event that `a` recorded after its last use.
    unsafe { y.order_manually() };
    // SAFETY: as for `y`: the same event orders the two streams.
    unsafe { z.order_manually() };
    let (left, right) = (x.slice(..2048), x.slice(2048..));
    let mut batch = Batch::new();
    batch.add(&left, &mut y)?;
    batch.add(&right, &mut z)?;
    a.copy_batch(batch, SourceOrder::Stream)?;
    let event = device.event()?;
    event.record(&a)?;
    b.wait(&event)?;
    b.copy(&y, &mut landed.slice_mut(..2048))?;
    b.copy(&z, &mut landed.slice_mut(2048..))?;
    assert_eq!(&*landed.read()?, &source);
    Ok(())
}

/// Law A19: a source that is read out of stream order needs its writer to be complete. The library
/// waits for the writer before the call.
pub(crate) fn a_source_read_out_of_order_is_complete_before(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    for (round, order) in (0..).zip(ORDERS) {
        let expected = words(20 + round, 512);
        let x = upload(device, &a, &expected)?;
        let mut relay = device.pinned::<u64>(512)?;
        a.copy(&x, &mut relay)?;
        let mut y = b.alloc::<u64>(512)?;
        let mut batch = Batch::new();
        batch.add(&relay, &mut y)?;
        b.copy_batch(batch, order)?;
        assert_eq!(download(device, &b, &y)?, expected, "{order:?}");
    }
    Ok(())
}

/// Law A19: copies of a batch that depend on each other are undefined in CUDA, and the borrows of a
/// batch do not compile. A batch whose copies have different directions is refused when the copy is
/// added.
pub(crate) fn a_batch_copies_in_one_direction(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let x = upload(device, &stream, &words(4, 8))?;
    let mut y = upload(device, &stream, &words(5, 8))?;
    let mut host = device.pinned::<u64>(8)?;
    let mut batch = Batch::new();
    batch.add(&x, &mut y)?;
    let refused = batch.add(&x, &mut host).expect_err("within the device, and down");
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    stream.copy_batch(batch, SourceOrder::Stream)?;
    assert_eq!(download(device, &stream, &y)?, words(4, 8), "the rest of the batch stands");
    Ok(())
}
