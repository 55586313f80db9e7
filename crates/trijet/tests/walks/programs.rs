//! The programs of the walks. Each returns the stacks of its calls, in their order.

use crate::stacks::{followed, start, stop, taken};
use std::ops::Range;
use trijet::check::CheckOptions;
use trijet::comm::Communicator;
use trijet::graph::Recording;
use trijet::kernels::Sum;
use trijet::pipeline::{HostWork, Layout, Schedule};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::WORK;
use trijet::{Buffer, Device, Pipeline, Result, Sink, Source, Stream, Uses};

const LEN: usize = 64;

/// Operations happen on the calling thread.
fn config() -> HostConfig {
    let executor = Executor::Virtual(Order::Greedy);
    HostConfig::new().executor(executor).devices(2)
}

/// A source of one small chunk. Its read starts the following of the thread.
struct Begin;

impl Source for Begin {
    fn layout(&self) -> Layout {
        Layout::of::<u32>(4, 4)
    }

    fn read(&self, _: Range<u64>, into: &mut [u8]) -> Result<()> {
        into.fill(1);
        start();
        Ok(())
    }
}

/// A sink whose write ends the following.
struct End;

impl Sink for End {
    fn write(&mut self, _: Range<u64>, _: &[u8]) -> Result<()> {
        stop();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A chunk, from the end of its read to the start of the write of its results.
pub(crate) fn chunk() -> Result<Vec<String>> {
    let devices = Device::host(config())?;
    let report = Pipeline::on(&devices[0])
        .source(Begin)
        .stage(|cx, x, y| cx.launch(&WORK, (1, x, y)))
        .sink(End)
        .schedule(Schedule::RoleStreams)
        .host_work(HostWork::Inline)
        .run()?;
    assert!(report.summary().is_some(), "the run was traced");
    Ok(taken())
}

/// Tasks with a copy to the host.
pub(crate) fn task() -> Result<Vec<String>> {
    let devices = Device::host(config())?;
    let tasks = devices[0].tasks();
    let data = tasks.data(devices[0].stream()?.upload(&[1_u32; LEN])?);
    let host = tasks.data(devices[0].pinned::<u32>(LEN)?);
    followed(|| {
        for _ in 0..32 {
            let uses = (data.read(), host.write());
            tasks.task(uses).run(|s, (data, mut host)| s.copy(&data, &mut host))?;
        }
        tasks.finish()
    })
}

/// A copy that is recorded, and launches of its graph.
pub(crate) fn graph_node() -> Result<Vec<String>> {
    let devices = Device::host(config())?;
    let s = devices[0].stream()?;
    let (x, mut y) = (s.upload(&[1_u32; LEN])?, s.upload(&[2_u32; LEN])?);
    s.synchronize()?;
    followed(|| {
        let mut graph = devices[0].record(|recording: &Recording| {
            recording.argument(&x)?;
            recording.argument(&y)?;
            recording.stream()?.copy(&x, &mut y)
        })?;
        for _ in 0..8 {
            s.launch_graph(&mut graph, Uses::new().read(&x).update(&mut y))?;
        }
        Ok(())
    })
}

/// An all-reduce of two devices.
pub(crate) fn collective() -> Result<Vec<String>> {
    let devices = Device::host(config())?;
    let communicator = Communicator::builder().devices(&devices).open()?;
    let upload = |device: &Device| device.stream()?.upload(&[1.0_f32; LEN]);
    let mut data = devices.iter().map(upload).collect::<Result<Vec<_>>>()?;
    let mut all_reduce = || {
        let mut views: Vec<_> = data.iter_mut().map(Buffer::view_mut).collect();
        communicator.all_reduce(&mut views, Sum)
    };
    // The kernels are loaded by the first call.
    all_reduce()?;
    followed(|| (0..8).try_for_each(|_| all_reduce()))
}

/// A buffer that all of `streams` use.
fn used(streams: &[Stream], len: usize) -> Result<Buffer<u32>> {
    let mut buffer = streams[0].alloc(len)?;
    streams.iter().try_for_each(|stream| stream.fill_bytes(&mut buffer, 1))?;
    Ok(buffer)
}

/// Buffers that are dropped, and allocations that take their memory: kept by a lane, too large for
/// a lane, and used by several lanes; and page-locked memory.
pub(crate) fn freed_block() -> Result<Vec<String>> {
    let devices = Device::host(config())?;
    let device = &devices[0];
    let streams = (0..4).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
    let mut buffers = Vec::new();
    for round in 1..40 {
        buffers.push(used(&streams[..1], round * LEN)?);
        buffers.push(used(&streams, round * 1000)?);
    }
    buffers.push(used(&streams[..1], 40 << 20)?);
    let pinned = device.pinned::<u32>(LEN)?;
    followed(|| {
        drop(buffers);
        drop(pinned);
        (1..40).try_for_each(|round| streams[1].alloc::<u32>(round * 500).map(drop))
    })
}

/// The entries of traced and of checked calls, and their readers.
pub(crate) fn entry() -> Result<Vec<String>> {
    let traced = &Device::host(config())?[0];
    let checked = Device::builder().host(config()).check(CheckOptions::default()).open()?;
    let (s, t) = (traced.stream()?, checked.stream()?);
    let (mut x, mut y) = (s.alloc::<u32>(LEN)?, t.alloc::<u32>(LEN)?);
    traced.start_trace(&s)?;
    followed(|| {
        drop(s.alloc::<u32>(LEN)?);
        for _ in 0..8 {
            s.fill_bytes(&mut x, 1)?;
            t.fill_bytes(&mut y, 1)?;
        }
        let verdict = checked.verdict().expect("it is checked");
        assert_eq!(verdict.findings, [], "{verdict}");
        s.synchronize()?;
        traced.take_trace().map(drop)
    })
}
