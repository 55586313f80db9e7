//! Pending host functions after a loss: the first call that reports the loss drops the ones that
//! can never run. Nothing else drops them.

use crate::{Gate, PATIENCE, open, virtual_host};
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::task::{Context, Poll, Waker};
use trijet::sim::{Fault, FaultKind, HostConfig, Verb};
use trijet::{Device, ErrorKind, PinnedBuffer, Result, Stream};

fn fault(verb: Verb, kind: FaultKind) -> Vec<Fault> {
    vec![Fault { verb, nth: 1, kind }]
}

/// Memory that holds ones, and nines once the host function of the stream has run.
fn pending(device: &Device, stream: &Stream) -> Result<PinnedBuffer<u32>> {
    let mut h = device.pinned::<u32>(64)?;
    h.write()?.fill(1);
    stream.host_fn_with(&mut h, |h| h.fill(9))?;
    Ok(h)
}

#[test]
fn the_loss_of_a_device_drops_no_host_function_of_another() -> Result<()> {
    let faults = fault(Verb::Fill, FaultKind::DeviceLost);
    let devices = Device::host(virtual_host(faults).devices(2))?;
    let (bad, good) = (devices[0].stream()?, devices[1].stream()?);
    let (mut x, mut y) = (devices[0].pinned::<u32>(64)?, devices[0].pinned::<u32>(64)?);
    let mut z = good.alloc::<u32>(64)?;
    // Its last user is on the device that will be lost, and no event shows when this user is
    // complete.
    bad.host_fn_with(&mut x, |_| ())?;
    let h = pending(&devices[1], &good)?;
    bad.fill_bytes(&mut y, 1).expect_err("its device is lost");
    good.copy(&x, &mut z).expect_err("no event can be recorded for the last user of the source");
    devices[1].event()?.record(&bad).expect_err("its device is lost");
    assert_eq!(h.read()?[0], 9);
    Ok(())
}

#[test]
fn a_close_that_is_refused_drops_no_host_function() -> Result<()> {
    let device = open(virtual_host(fault(Verb::Synchronize, FaultKind::Refused)))?;
    let stream = device.stream()?;
    let h = pending(&device, &stream)?;
    device.clone().close().expect_err("it is refused");
    assert_eq!(h.read()?[0], 9);
    Ok(())
}

/// A stream whose first operation faults, with a host function after it, and a channel that closes
/// when the closure is dropped.
fn behind_a_fault() -> Result<(Device, Stream, PinnedBuffer<u32>, Receiver<()>)> {
    let faults = fault(Verb::Fill, FaultKind::Faults);
    let device = open(HostConfig::new().faults(faults))?;
    let stream = device.stream()?;
    let mut x = device.pinned::<u32>(64)?;
    let (held, gone) = channel::<()>();
    let gate = Gate::on(&stream)?;
    stream.fill_bytes(&mut x, 1)?;
    stream.host_fn(move || drop(held))?;
    drop(gate);
    Ok((device, stream, x, gone))
}

fn block_on(future: impl Future<Output = Result<()>>) -> Result<()> {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return outcome;
        }
    }
}

type Call = fn(&Device, &Stream, &PinnedBuffer<u32>) -> Result<()>;

/// Calls that reach the driver each time, so each may be the first to report a loss.
const CALLS: [(&str, Call); 8] = [
    ("a future of the stream", |_, stream, _| block_on(stream.ready())),
    ("a future of memory", |_, _, x| block_on(async { x.ready().await.map(drop) })),
    ("a guard", |_, _, x| x.read().map(drop)),
    ("a wait of the stream", |device, stream, _| stream.wait(&device.event()?)),
    ("a record", |device, stream, _| device.event()?.record(stream)),
    ("a new stream", |device, _, _| device.stream().map(drop)),
    ("a new event", |device, _, _| device.event().map(drop)),
    ("the state of the memory", |device, _, _| device.memory().map(drop)),
];

/// Maximum number of calls until one reports the loss. A busy machine needs many.
const CALLS_MAX: u32 = 10_000_000;

/// Law A29, and S4 of docs/soundness.md.
#[test]
fn the_first_call_that_reports_a_loss_drops_what_never_runs() -> Result<()> {
    for (name, call) in CALLS {
        let (device, stream, x, gone) = behind_a_fault()?;
        let error = (0..CALLS_MAX).find_map(|_| {
            let outcome = call(&device, &stream, &x);
            std::thread::yield_now();
            outcome.err()
        });
        let error = error.unwrap_or_else(|| panic!("{name}: the fault shows in the end"));
        assert!(matches!(error.kind(), ErrorKind::Launch | ErrorKind::ContextLost), "{name}");
        let heard = gone.recv_timeout(PATIENCE);
        assert_eq!(heard, Err(RecvTimeoutError::Disconnected), "{name}");
    }
    Ok(())
}
