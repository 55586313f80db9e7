//! The knowledge that a host device gains by a synchronisation about memory that was freed before.

use super::let_time_pass;
use std::sync::mpsc::channel;
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Bytes, Device, PoolChoice, Result, Stream};

const MEMORY: u64 = 4 << 20;

/// The synchronisation after the frees.
#[derive(Debug, Clone, Copy)]
enum By {
    Device,
    Stream,
    Event,
    /// The legacy stream, which stands for a blocking stream that has waited for the frees.
    Legacy,
}

fn pooled(executor: Executor) -> Result<Device> {
    let config = HostConfig::new().executor(executor).memory(Bytes(MEMORY));
    Device::builder().host(config).pool(PoolChoice::Own).open()
}

/// Laws A8 to A10, A23 and A25: after a synchronisation, work that was complete before it counts as
/// complete, like work that became complete during it. Another stream therefore gets the memory,
/// whatever the pool is allowed to do.
fn all_memory_is_free_after(
    device: &Device,
    by: By,
    complete: &dyn Fn(&Stream) -> Result<()>,
) -> Result<()> {
    let (s, t) = (device.stream()?, device.stream()?);
    let blocking = device.stream_with(trijet::StreamOptions::new().blocking())?;
    let n = usize::try_from(MEMORY / 8 * 3).expect("a small number");
    let (a, b) = (s.alloc::<u8>(n)?, s.alloc::<u8>(n)?);
    drop(a);
    drop(b);
    let event = device.event()?;
    event.record(&s)?;
    if matches!(by, By::Legacy) {
        blocking.wait(&event)?;
    }
    complete(&s)?;
    match by {
        By::Device => device.synchronize()?,
        By::Stream => s.synchronize()?,
        By::Event => event.synchronize()?,
        By::Legacy => device.legacy_stream()?.synchronize()?,
    }
    device.trim_memory(Bytes(0))?;
    t.alloc::<u8>(2 * n).map(drop)
}

#[test]
fn what_was_complete_before_a_synchronisation_counts_as_seen() -> Result<()> {
    for by in [By::Device, By::Stream, By::Event, By::Legacy] {
        let device = pooled(Executor::Threads)?;
        // The frees are complete when the host function runs, which comes after them.
        let on_threads = |s: &Stream| {
            let (tell, told) = channel();
            s.host_fn(move || tell.send(()).expect("the test waits"))?;
            told.recv().expect("it runs");
            Ok(())
        };
        let freed = all_memory_is_free_after(&device, by, &on_threads);
        freed.unwrap_or_else(|error| panic!("{by:?}, on threads: {error}"));
        for order in [Order::Greedy].into_iter().chain((0..20).map(Order::Seeded)) {
            let device = pooled(Executor::Virtual(order.clone()))?;
            let idle = device.stream()?;
            let in_time = |_: &Stream| let_time_pass(&idle);
            let freed = all_memory_is_free_after(&device, by, &in_time);
            freed.unwrap_or_else(|error| panic!("{by:?}, {order:?}: {error}"));
        }
    }
    Ok(())
}
