//! Two kernels with clusters, in one stream and in two streams. The figures show that launches with
//! clusters in different streams do not wait for each other.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::Setting;
use crate::turns::record;
use trijet::testing::cluster::{MATMUL, config};
use trijet::{Buffer, Device, Error, ErrorKind, Event, Result, Stream, TimedEvent};

/// The number of rows and of columns of each result. A result then needs eight blocks, so that two
/// kernels fit on the device at the same time.
const SIDE: u32 = 32;
const CLUSTER: u32 = 2;

/// Two matrix products that share one factor, in two streams or in one.
struct Pair {
    stream: Stream,
    /// The stream of the second product; `None` if both products use the same stream.
    other: Option<Stream>,
    /// The events order the two streams: one event at the start, and one at the end.
    events: [Event; 2],
    inner: u32,
    x: Buffer<f32>,
    w: Buffer<f32>,
    results: [Buffer<f32>; 2],
    between: [TimedEvent; 2],
}

impl Pair {
    fn new(device: &Device, inner: u32, is_split: bool) -> Result<Self> {
        let first = device.stream()?;
        let other = is_split.then(|| device.stream()).transpose()?;
        let events = [device.event()?, device.event()?];
        let ones = vec![1.0_f32; (SIDE * inner) as usize];
        let (x, w) = (first.upload(&ones)?, first.upload(&ones)?);
        let result = || first.alloc_zeroed::<f32>((SIDE * SIDE) as usize);
        let results = [result()?, result()?];
        let between = [device.timed_event()?, device.timed_event()?];
        Ok(Self { stream: first, other, events, inner, x, w, results, between })
    }

    /// The time from the start of the first kernel until both kernels are complete.
    fn sample(&mut self) -> Result<Vec<Value>> {
        let Self { stream: a, other, events, inner, x, w, results: [y, z], between } = self;
        let [begin, end] = events;
        let b = other.as_ref().unwrap_or(a);
        a.fill_bytes(y, 0)?;
        a.fill_bytes(z, 0)?;
        a.synchronize()?;
        let config = config(u64::from(SIDE), SIDE, CLUSTER);
        between[0].record(a)?;
        begin.record(a)?;
        b.wait(begin)?;
        a.launch_with(&MATMUL, config, (*inner, SIDE, &*x, &*w, &mut *y))?;
        b.launch_with(&MATMUL, config, (*inner, SIDE, &*x, &*w, &mut *z))?;
        end.record(b)?;
        a.wait(end)?;
        between[1].record(a)?;
        for result in [y, z] {
            if a.download(result)?.iter().any(|sum| *sum != *inner as f32) {
                let cause = "a product by clusters is wrong";
                return Err(Error::new(ErrorKind::InvalidValue, "bench chains", cause));
            }
        }
        let value = between[1].elapsed_since(&between[0])?.seconds() * 1e6;
        Ok(vec![Value { what: "both".to_owned(), unit: "us".to_owned(), value }])
    }
}

/// Measures one stream and two streams. The two ways take turns. `inner` is the number of products
/// that a kernel sums for each element of its result.
pub(super) fn clusters(
    setting: &Setting<'_>,
    inner: u32,
    samples: usize,
    results: &mut Results,
) -> Result<()> {
    if matches!(setting.device.info().compute.0, 1..9) {
        results.note("kernels with clusters", "not run: they need compute capability 9.0");
        return Ok(());
    }
    let pair = |is_split| Pair::new(setting.device, inner, is_split);
    let (mut one, mut two) = (pair(false)?, pair(true)?);
    let mut sides =
        [Side::new("in one stream", || one.sample()), Side::new("in two streams", || two.sample())];
    record(
        setting,
        &mut sides,
        samples,
        |side| format!("two kernels with clusters, {side}"),
        results,
    )
}
