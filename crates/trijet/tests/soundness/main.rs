//! Programs that once broke a promise of the safe API or of the checker, each as a test of what must
//! hold. They hold work back with host functions that wait for a channel, or on the virtual executor,
//! where nothing happens beside the calls of the host: none of them depends on how fast a machine is.

mod checker;
mod guards;
mod losses;
mod waits;

use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use trijet::sim::{CostModel, Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::{Device, Nanos, PinnedBuffer, Result, Stream};

/// What takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Holds a stream back until it is dropped, so that a test that fails leaves no thread waiting.
struct Gate {
    _open: Sender<()>,
}

impl Gate {
    fn on(stream: &Stream) -> Result<Self> {
        let (open, opened) = channel::<()>();
        stream.host_fn(move || {
            // It only ever ends with an error: nothing is sent.
            let _dropped = opened.recv();
        })?;
        Ok(Self { _open: open })
    }
}

/// What the host is told that asks for `memory` without waiting: its first number, if it is lent.
fn ask(memory: &PinnedBuffer<u32>) -> Poll<Result<u32>> {
    let mut future = pin!(memory.ready());
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|lent| lent.map(|guard| guard[0]))
}

/// Records that are refused: `count` of them from the `first` one on.
fn refused_records(first: u64, count: u64) -> Vec<Fault> {
    let fault = |nth| Fault { verb: Verb::EventRecord, nth, kind: FaultKind::Refused };
    (first..first + count).map(fault).collect()
}

/// A host device on which nothing happens beside the calls of the host, and a host function takes a
/// second of its time.
fn virtual_host(faults: Vec<Fault>) -> HostConfig {
    let cost = CostModel { host_fn: Nanos(1_000_000_000), ..CostModel::default() };
    HostConfig { executor: Executor::Virtual(Order::Greedy), cost, faults, ..HostConfig::default() }
}

fn open(config: HostConfig) -> Result<Device> {
    Ok(Device::host(config)?.remove(0))
}

/// Lets a tenth of a millisecond of simulated time pass, more than a small operation takes. `idle`
/// holds nothing, so the thread learns nothing.
fn let_time_pass(idle: &Stream) -> Result<()> {
    (0..1000).try_for_each(|_| idle.query().map(drop))
}
