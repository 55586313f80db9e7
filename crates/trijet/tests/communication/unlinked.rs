//! Devices without a link: copies between them go through page-locked memory, in the order of their
//! stream.

use crate::collectives;
use crate::common::{checked, demand_clean};
use std::cell::Cell;
use trijet::comm::Communicator;
use trijet::kernels::{AFFINE_F32, FILL_U32};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::training::{LayerPipeline, MicroBatchOrder};
use trijet::{AsView, Batch, Buffer, Device, ErrorKind, Result, SourceOrder, Stream, View};

/// Longer than a chunk, and not a multiple of the length of a chunk.
const LONG: usize = (5 << 20) + 3;

fn devices(devices: u32, seed: u64) -> Result<Vec<Device>> {
    let executor = Executor::Virtual(Order::Seeded(seed));
    let config = HostConfig::new().executor(executor).devices(devices).without_links();
    checked(config)
}

/// The stream may belong to the source, to the target, or to a third device.
#[test]
fn a_copy_on_a_stream_of_any_device_is_in_order_there() -> Result<()> {
    for seed in 0..30 {
        let devices = devices(3, seed)?;
        let (from, to) = (devices[0].stream()?, devices[1].stream()?);
        let third = &devices[usize::try_from(seed % 3).expect("few")];
        let on = third.stream()?;
        let len = if seed < 3 { LONG } else { 1000 };
        let (mut x, mut y) = (from.alloc::<u32>(len)?, to.alloc::<u32>(len)?);
        let mut back = devices[2].pinned::<u32>(len)?;
        for round in 0..3 {
            from.launch(&FILL_U32, (round + 7, &mut x))?;
            on.copy(&x, &mut y)?;
            // Later work on this stream, and on no other one, follows the copy.
            let done = third.event()?;
            done.record(&on)?;
            done.synchronize()?;
            to.copy(&y, &mut back)?;
            assert!(back.read()?.iter().all(|word| *word == round + 7), "seed {seed}");
        }
        devices[1].copy_now(&x, &mut y)?;
        demand_clean(&devices[0]);
    }
    Ok(())
}

#[test]
fn minima_and_maxima_follow_the_rule_without_a_link() -> Result<()> {
    let devices = devices(3, 0)?;
    collectives::extremes::follow_the_rule(
        &Communicator::builder().devices(&devices).open()?,
        &devices,
    )
}

/// Memory that reports a smaller length at each call.
struct Shrinks(Buffer<u8>, Cell<usize>);

impl AsView for Shrinks {
    type Element = u8;

    fn as_view(&self) -> View<'_, u8> {
        self.1.set(self.1.get() - 1);
        self.0.slice(..self.1.get())
    }
}

#[test]
fn a_copy_looks_at_its_memory_once() -> Result<()> {
    let devices = devices(2, 0)?;
    let s = devices[0].stream()?;
    let x = Shrinks(s.upload(&[7_u8; 65])?, Cell::new(65));
    let mut y = devices[1].stream()?.upload(&[1_u8; 64])?;
    s.copy(&x, &mut y)?;
    assert_eq!(s.download(&y)?, [7; 64]);
    x.1.set(65);
    devices[1].stream()?.fill_bytes(&mut y, 1)?;
    devices[0].copy_now(&x, &mut y)?;
    assert_eq!(s.download(&y)?, [7; 64]);
    Ok(())
}

/// The modelled time of work on a stream.
fn time_of(on: &Stream, device: &Device, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (begin, end) = (device.timed_event()?, device.timed_event()?);
    begin.record(on)?;
    work()?;
    end.record(on)?;
    end.synchronize()?;
    Ok(end.elapsed_since(&begin)?.seconds())
}

/// The download starts after the earlier work of the stream. The later work of the stream starts
/// after the upload.
#[test]
fn the_time_of_a_copy_is_that_of_download_and_upload_in_the_order_of_the_stream() -> Result<()> {
    for at in 0..2 {
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor).devices(2).without_links();
        let devices = Device::host(config)?;
        let (x, mut y) =
            (devices[0].stream()?.alloc::<u32>(LONG)?, devices[1].stream()?.alloc(LONG)?);
        let (on, own) = (devices[at].stream()?, &devices[at]);
        let mut other = on.alloc::<u32>(LONG)?;
        let mut host = devices[0].pinned::<u32>(LONG)?;
        let down = devices[0].stream()?;
        let download = time_of(&down, &devices[0], || down.copy(&x, &mut host))?;
        let chunk = download * f64::from(1 << 20) / LONG as f64;
        // The fills take longer than the transfer of a chunk.
        let mut fills = || (0..20).try_for_each(|value| on.fill_bytes(&mut other, value));
        let before = time_of(&on, own, &mut fills)?;
        let both = time_of(&on, own, || {
            fills()?;
            on.copy(&x, &mut y)
        })?;
        assert!(both > before + download + chunk / 2.0, "{at}: {both} {before} {download} {chunk}");
    }
    Ok(())
}

#[test]
fn an_upload_on_a_stream_of_another_device_runs_on_that_of_the_memory() -> Result<()> {
    let devices = devices(2, 1)?;
    let (here, there) = (devices[0].stream()?, devices[1].stream()?);
    let mut x = there.alloc::<u32>(100)?;
    let mut host = devices[0].pinned::<u32>(100)?;
    host.write()?.fill(3);
    here.copy(&host, &mut x)?;
    let mut y = there.alloc::<u32>(100)?;
    here.copy(&x, &mut y)?;
    host.write()?.fill(0);
    here.copy(&y, &mut host)?;
    assert_eq!(*host.read()?, [3; 100]);
    demand_clean(&devices[0]);
    Ok(())
}

#[test]
fn collectives_and_layer_pipelines_run_without_links() -> Result<()> {
    let devices = devices(3, 5)?;
    let communicator = Communicator::builder().devices(&devices).open()?;
    for (seed, len) in (0..).zip([1, 64, 1000]) {
        collectives::all::<f32>(&communicator, &devices, len, seed)?;
    }
    let mut pipeline = LayerPipeline::new(&devices[..2], &[100], MicroBatchOrder::Forward, 8)?;
    let inputs = devices[0].stream()?.upload(&[1.0_f32; 800])?;
    let mut results = devices[1].stream()?.alloc::<f32>(800)?;
    pipeline.run(|work| {
        let part = work.micro_batch * 100..(work.micro_batch + 1) * 100;
        match (work.input, work.output) {
            (None, Some(y)) => work.stream.launch(&AFFINE_F32, (2.0, 0.0, inputs.slice(part), y)),
            (Some(x), None) => {
                work.stream.launch(&AFFINE_F32, (1.0, 3.0, x, results.slice_mut(part)))
            }
            _ => unreachable!("two stages"),
        }
    })?;
    assert_eq!(devices[1].stream()?.download(&results)?, [5.0; 800]);
    demand_clean(&devices[0]);
    Ok(())
}

#[test]
fn what_cannot_go_through_the_host_is_refused_with_the_reason() -> Result<()> {
    let devices = devices(2, 2)?;
    assert!(!devices[0].can_access(&devices[1])?);
    let (x, mut y) = (devices[0].stream()?.upload(&[1_u32; 4])?, devices[1].stream()?.alloc(4)?);
    let mut batch = Batch::new();
    batch.add(&x, &mut y)?;
    let refused = devices[0].stream()?.copy_batch(batch, SourceOrder::Stream);
    let refused = refused.expect_err("a batch is one operation");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("there is no link between the devices"), "{refused}");
    let recorded = devices[0].record(|g| {
        g.argument(&x)?;
        g.argument(&y)?;
        g.stream()?.copy(&x, &mut y)
    });
    let recorded = recorded.expect_err("a graph cannot go through the host");
    assert_eq!(recorded.kind(), ErrorKind::Unsupported);
    Ok(())
}
