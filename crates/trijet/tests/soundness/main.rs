//! Programs that once broke a promise of the safe API or of the checker, each as a test of the
//! promise. Work is held back by host functions that wait for a channel, or by the virtual
//! executor, where the device works only during calls of the host. So no test depends on the speed
//! of a machine.

mod checker;
mod guards;
mod launches;
mod losses;
mod panics;
mod pools;
mod programs;
mod safe_misuse;
mod scripts;
mod thread_ends;
mod waits;

use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use trijet::sim::{CostModel, Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::{Device, Nanos, PinnedBuffer, Result, Stream};

/// A call that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Holds back a stream until it is dropped, so that a failing test leaves no thread waiting.
struct Gate {
    _open: Sender<()>,
}

impl Gate {
    fn on(stream: &Stream) -> Result<Self> {
        let (open, opened) = channel::<()>();
        stream.host_fn(move || {
            // It ends with an error when the gate is dropped: nothing is sent.
            let _dropped = opened.recv();
        })?;
        Ok(Self { _open: open })
    }
}

/// The first number of `memory`, if a guard is lent without a wait.
fn ask(memory: &PinnedBuffer<u32>) -> Poll<Result<u32>> {
    let mut future = pin!(memory.ready());
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    polled.map(|lent| lent.map(|guard| guard[0]))
}

/// Refusals of `count` records from the `first` one on.
fn refused_records(first: u64, count: u64) -> Vec<Fault> {
    let fault = |nth| Fault { verb: Verb::EventRecord, nth, kind: FaultKind::Refused };
    (first..first + count).map(fault).collect()
}

/// A host device that works only during calls of the host, and on which a host function takes a
/// second of simulated time.
fn virtual_host(faults: Vec<Fault>) -> HostConfig {
    let cost = CostModel { host_fn: Nanos(1_000_000_000), ..CostModel::default() };
    HostConfig::new().executor(Executor::Virtual(Order::Greedy)).cost(cost).faults(faults)
}

fn open(config: HostConfig) -> Result<Device> {
    Ok(Device::host(config)?.remove(0))
}

/// Lets a tenth of a millisecond of simulated time pass, which is longer than a small operation.
/// `idle` has no work, so its queries give the thread no knowledge.
fn let_time_pass(idle: &Stream) -> Result<()> {
    (0..1000).try_for_each(|_| idle.query().map(drop))
}
