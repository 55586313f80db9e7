//! Measures the host time of each call, made as a bare driver call and made through the library.

use super::bench::{Bench, samples};
use crate::bare::lab::{Cost, Lab};
use crate::doctor::findings::CallCost;
use crate::stats::Samples;
use std::time::Instant;
use trijet::testing::WORK;
use trijet::{Buffer, Device, Event, PinnedBuffer, Result, Stream};

/// The number of elements of a copy of 4 KiB.
const ELEMENTS: usize = 1024;
/// The number of elements of the kernel launches, which have one block.
const SMALL: usize = 32;

/// The streams, the event and the buffers for calls through the library.
struct Desk {
    device: Device,
    s: Stream,
    other: Stream,
    event: Event,
    host: PinnedBuffer<u32>,
    far: Buffer<u32>,
    x: Buffer<u32>,
    y: Buffer<u32>,
}

type BareCall = fn(&Lab, u32) -> Result<Cost>;
type Ours = fn(&mut Desk, u32) -> Result<f64>;

/// The measured calls. Each entry has a name, the bare driver call, and the same call through the
/// library. `None` means that there is no such call.
const CALLS: [(&str, Option<BareCall>, Option<Ours>); 12] = [
    ("kernel launch", Some(Lab::launches), Some(Desk::launches)),
    ("event record", Some(Lab::records), Some(Desk::records)),
    ("stream wait for an event", Some(Lab::waits), Some(Desk::waits)),
    ("event query", Some(Lab::queries), Some(Desk::queries)),
    ("event create + destroy", Some(Lab::events), Some(Desk::events)),
    ("copy of 4 KiB, enqueued", Some(Lab::uploads), Some(Desk::uploads)),
    ("host function", Some(Lab::host_fns), Some(Desk::host_fns)),
    ("stream create", Some(Lab::streams), Some(Desk::streams)),
    ("launch + synchronize", Some(Lab::round_trips), Some(Desk::round_trips)),
    (HOP, Some(Lab::hops), None),
    ("stream write of a word", Some(Lab::writes), None),
    ("stream wait for a word", Some(Lab::word_waits), None),
];

/// The name of the row whose cost the advice about slots uses.
pub(in crate::doctor) const HOP: &str = "kernel, event, other stream";

impl Desk {
    fn new(device: &Device) -> Result<Self> {
        let (s, other) = (device.stream()?, device.stream()?);
        let mut desk = Self {
            event: device.event()?,
            host: device.pinned(ELEMENTS)?,
            far: s.alloc(ELEMENTS)?,
            x: s.alloc(SMALL)?,
            y: s.alloc(SMALL)?,
            device: device.clone(),
            s,
            other,
        };
        desk.host.write()?.fill(3);
        desk.s.fill_bytes(&mut desk.x, 0)?;
        desk.event.record(&desk.s)?;
        desk.device.synchronize()?;
        Ok(desk)
    }

    /// Makes `count` calls. Returns the host time per call in nanoseconds. The device is idle
    /// before and after the calls.
    fn burst(&mut self, count: u32, mut call: impl FnMut(&mut Self) -> Result<()>) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            call(self)?;
        }
        let time = start.elapsed();
        self.device.synchronize()?;
        Ok(time.as_secs_f64() * 1e9 / f64::from(count))
    }

    fn launches(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| d.s.launch(&WORK, (0, &d.x, &mut d.y)))
    }

    fn records(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| d.event.record(&d.s))
    }

    fn waits(&mut self, count: u32) -> Result<f64> {
        self.event.record(&self.s)?;
        self.burst(count, |d| d.other.wait(&d.event))
    }

    fn queries(&mut self, count: u32) -> Result<f64> {
        self.event.synchronize()?;
        self.burst(count, |d| d.event.query().map(|_| ()))
    }

    fn events(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| d.device.event().map(|_| ()))
    }

    fn uploads(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| d.s.copy(&d.host, &mut d.far))
    }

    fn host_fns(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| d.s.host_fn(|| ()))
    }

    fn streams(&mut self, count: u32) -> Result<f64> {
        let mut made = Vec::new();
        self.burst(count, |d| {
            made.push(d.device.stream()?);
            Ok(())
        })
    }

    fn round_trips(&mut self, count: u32) -> Result<f64> {
        self.burst(count, |d| {
            d.s.launch(&WORK, (0, &d.x, &mut d.y))?;
            d.s.synchronize()
        })
    }
}

fn bare_samples(lab: &Lab, call: BareCall, burst: u32, repeats: usize) -> Result<[Samples; 2]> {
    lab.enter()?;
    let mut through = Samples::default();
    call(lab, burst)?;
    let mut host = Samples::default();
    for _ in 0..repeats {
        let cost = call(lab, burst)?;
        host.push(cost.host);
        through.push(cost.through);
    }
    Ok([host, through])
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let (repeats, burst) = (bench.plan.repeats, bench.plan.burst);
    let mut desk = Desk::new(&bench.device)?;
    for (call, bare, ours) in CALLS {
        let mut cost = CallCost { call, bare_ns: None, bare_through_ns: None, trijet_ns: None };
        if let (Some(lab), Some(bare)) = (&bench.lab, bare) {
            match bare_samples(lab, bare, burst, repeats) {
                Ok([host, through]) => {
                    (cost.bare_ns, cost.bare_through_ns) = (Some(host), Some(through));
                }
                Err(e) => bench.absent(call, e.to_string()),
            }
        }
        if let Some(ours) = ours {
            cost.trijet_ns = Some(samples(repeats, || ours(&mut desk, burst))?);
        }
        if cost.bare_ns.is_some() || cost.trijet_ns.is_some() {
            bench.found.calls.push(cost);
        }
    }
    Ok(())
}
