//! Measures which calls delay the host or another stream. A long kernel is launched on stream a,
//! the call is made, and a short kernel is launched on stream b. The result shows whether the call
//! returned before the end of the long kernel, and whether the short kernel ended before the long
//! kernel.

mod call;
mod stage;

use super::bench::{Bench, micros, timed_us};
use super::work::Lane;
use crate::bare::step::BareStep;
use crate::doctor::findings::Blocked;
use crate::doctor::verdict::{self, Observation};
use crate::stats::Samples;
use call::Call;
use stage::Stage;
use std::time::Instant;
use trijet::{Error, ErrorKind, Result, Stream, StreamOptions};

/// Maximum time for which the host waits for kernels of a few milliseconds, in microseconds.
const PATIENCE_US: f64 = 20e6;

/// The kind of the streams a and b.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    NonBlocking,
    Blocking,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::NonBlocking => "non-blocking",
            Self::Blocking => "blocking",
        }
    }
}

/// The name of the row in which no call is made. If the kernel on stream b is held back in this
/// row, the other rows prove nothing about their calls.
pub(in crate::doctor) const CONTROL: &str = "nothing";

/// A call to measure.
#[derive(Debug, Clone, Copy)]
struct MeasuredCall {
    name: &'static str,
    call: Call,
    /// The kind of the streams a and b.
    kind: Kind,
}

/// A call to measure with streams of this kind.
const fn on(kind: Kind, name: &'static str, call: Call) -> MeasuredCall {
    MeasuredCall { name, call, kind }
}

const CALLS: [MeasuredCall; 34] = {
    use Kind::{Blocking, NonBlocking};
    [
        on(NonBlocking, CONTROL, Call::Nothing),
        on(NonBlocking, "cuMemAlloc 1 MiB", Call::Bare(BareStep::Alloc(1))),
        on(NonBlocking, "cuMemAlloc 1 GiB", Call::Bare(BareStep::Alloc(1024))),
        on(NonBlocking, "cuMemFree 1 MiB", Call::Bare(BareStep::Free(1))),
        on(NonBlocking, "cuMemHostAlloc 1 MiB", Call::Bare(BareStep::HostAlloc(1))),
        on(NonBlocking, "cuMemHostAlloc 32 MiB", Call::Bare(BareStep::HostAlloc(32))),
        on(NonBlocking, "cuMemFreeHost 1 MiB", Call::Bare(BareStep::HostFree(1))),
        on(NonBlocking, "cuMemHostRegister 1 MiB", Call::Bare(BareStep::Register(1))),
        on(NonBlocking, "cuMemHostUnregister 1 MiB", Call::Bare(BareStep::Unregister(1))),
        on(NonBlocking, "cuMemMap + cuMemSetAccess 16 MiB", Call::Bare(BareStep::Map(16))),
        on(NonBlocking, "cuMemUnmap 16 MiB", Call::Bare(BareStep::Unmap(16))),
        on(NonBlocking, "alloc 1 MiB, pool holds it", Call::Alloc(1)),
        on(NonBlocking, "alloc 64 MiB, pool grows", Call::Grow(64)),
        on(NonBlocking, "stream-ordered free 1 MiB", Call::Free(1)),
        on(NonBlocking, "pool trim", Call::Trim),
        on(NonBlocking, "event create + destroy", Call::Event),
        on(NonBlocking, "stream create + destroy", Call::Stream),
        on(NonBlocking, "graph instantiate", Call::Bare(BareStep::Instantiate)),
        on(NonBlocking, "page-locked upload 16 MiB on b", Call::Pinned),
        on(NonBlocking, "pageable upload 16 MiB on b", Call::PageableOnB),
        on(NonBlocking, "pageable upload 4 KiB on a", Call::FewPagesOnA),
        on(NonBlocking, "pageable upload 1 MiB on a", Call::PageableOnA),
        on(NonBlocking, "host function on b", Call::HostFn),
        on(NonBlocking, "sync pageable upload 4 KiB", Call::NowPageable),
        on(NonBlocking, "sync copy on the device", Call::NowOnDevice),
        on(NonBlocking, "sync fill", Call::NowFill),
        on(NonBlocking, "legacy-stream kernel", Call::LegacyKernel),
        on(Blocking, "legacy-stream kernel", Call::LegacyKernel),
        on(Blocking, "legacy-stream event record", Call::LegacyRecord),
        on(NonBlocking, "module load", Call::Bare(BareStep::ModuleLoad)),
        on(NonBlocking, "kernel look-up in a loaded module", Call::Bare(BareStep::LookUp)),
        on(NonBlocking, "first launch after the look-up, bare", Call::Bare(BareStep::FirstLaunch)),
        on(NonBlocking, "first launch after cuFuncLoad, bare", Call::Bare(BareStep::LoadedLaunch)),
        on(NonBlocking, "first launch through trijet", Call::FirstLaunch),
    ]
};

/// Launches a long kernel on a, makes the call, launches a short kernel on b, and queries both
/// kernels until they have ended. The kernel on b counts as ended only when `beside` also returns
/// `true`.
pub(super) fn observe(
    [a, b]: &mut [Lane; 2],
    rounds: u32,
    call: impl FnOnce(&Stream, &Stream) -> Result<()>,
    beside: impl Fn() -> Result<bool>,
) -> Result<Observation> {
    let start = Instant::now();
    a.start(rounds)?;
    let call_us = micros(start);
    call(&a.stream, &b.stream)?;
    let returned_us = micros(start);
    let running = !a.is_done()?;
    b.start(1)?;
    let issued_us = micros(start);
    let (mut a_end, mut b_end) = (None, None);
    loop {
        // The kernel on b is queried before the kernel on a. In the other order, if both kernels
        // ended between the two queries, the kernel on b would seem to have ended before the kernel
        // on a.
        let (b_done, a_done) = (b.is_done()? && beside()?, a.is_done()?);
        let now = micros(start);
        if a_done {
            a_end.get_or_insert(now);
        }
        if b_done {
            b_end.get_or_insert(now);
        }
        if let (Some(a_end_us), Some(b_end_us)) = (a_end, b_end) {
            return Ok(Observation {
                call_us,
                returned_us,
                running,
                issued_us,
                a_end_us,
                b_end_us,
            });
        }
        if now > PATIENCE_US {
            let cause = "a kernel of a few milliseconds did not end in 20 s";
            return Err(Error::new(ErrorKind::Stalled, "observe", cause));
        }
        std::thread::yield_now();
    }
}

fn row(
    bench: &Bench,
    lanes: &mut [Lane; 2],
    stage: &mut Stage<'_>,
    measured: MeasuredCall,
) -> Result<Blocked> {
    let MeasuredCall { name, call, kind } = measured;
    let (mut alone, mut beside, mut kernel) =
        (Samples::default(), Samples::default(), Samples::default());
    for repeat in 0..=bench.plan.repeats {
        stage.prepare(call, &lanes[1].stream)?;
        bench.device.synchronize()?;
        let time = timed_us(|| stage.act(call, &lanes[0].stream, &lanes[1].stream))?;
        bench.device.synchronize()?;
        stage.clean(call)?;
        if repeat > 0 {
            alone.push(time);
        }
    }
    let alone_us = alone.quantile(0.5);
    let rounds = bench.rounds(bench.plan.kernel_ms);
    let mut verdicts = Vec::new();
    for _ in 0..bench.plan.repeats {
        stage.prepare(call, &lanes[1].stream)?;
        bench.device.synchronize()?;
        let side = stage.side();
        let seen = observe(lanes, rounds, |a, b| stage.act(call, a, b), || side.is_done())?;
        bench.device.synchronize()?;
        stage.clean(call)?;
        beside.push(seen.returned_us - seen.call_us);
        kernel.push(seen.a_end_us - seen.call_us);
        verdicts.push((verdict::host(&seen, alone_us), verdict::stream(&seen)));
    }
    let ((host, stream), agree) = verdict::majority(&verdicts)
        .ok_or_else(|| Error::new(ErrorKind::InvalidValue, "observe", "the plan has no repeats"))?;
    Ok(Blocked {
        call: name.to_owned(),
        streams: kind.name(),
        alone_us: alone,
        beside_us: beside,
        kernel_us: kernel,
        host,
        stream,
        agreeing: (agree, verdicts.len()),
    })
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let device = bench.device.clone();
    let lane = |stream: Result<Stream>| stream.and_then(|stream| Lane::new(&device, stream));
    let mut free = [lane(device.stream())?, lane(device.stream())?];
    let mut blocking = [
        lane(device.stream_with(StreamOptions::new().blocking()))?,
        lane(device.stream_with(StreamOptions::new().blocking()))?,
    ];
    let lab = bench.lab.take();
    let mut rows = Vec::new();
    let mut stage = Stage::new(&device, lab.as_ref())?;
    for measured in CALLS {
        if matches!(measured.call, Call::Bare(_)) && lab.is_none() {
            continue;
        }
        let lanes = if measured.kind == Kind::NonBlocking { &mut free } else { &mut blocking };
        rows.push((measured.name, row(bench, lanes, &mut stage, measured)));
        stage.reset();
    }
    drop(stage);
    bench.lab = lab;
    for (name, row) in rows {
        match row {
            Ok(row) => bench.found.blocked.push(row),
            Err(e) if e.kind() == ErrorKind::Unsupported => bench.absent(name, e.to_string()),
            Err(e) => return Err(e.context(name)),
        }
    }
    Ok(())
}
