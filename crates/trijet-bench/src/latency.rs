//! Small requests during a bulk job that keeps both copy engines busy. The figures are the time of
//! a request, and the slowdown of the bulk job. The host measures all times, from the call to the
//! end of the last operation.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::setting::Setting;
use serde::Deserialize;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use trijet::pipeline::{Prepared, Schedule, Sharing};
use trijet::testing::WORK;
use trijet::{
    Buffer, Device, Error, ErrorKind, PinnedBuffer, Pipeline, Result, Stream, StreamOptions,
};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;
use trijet_tools::work::hash;

/// The number of elements of a row.
const ROW: usize = 256;
/// Only every `STEP`-th element of the bulk job is compared.
const STEP: usize = 1021;

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Definition {
    small_kib: usize,
    rounds: u32,
    bulk_mib: usize,
    seconds: f64,
    requests: usize,
    every_us: u64,
}

/// How requests are made.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// By a prepared pipeline with this schedule and [`Sharing::Latency`].
    Prepared(Schedule),
    /// By hand: copies and a kernel on a stream of the highest priority.
    OwnStream,
}

/// A case: its name, the way to make requests, and how the bulk job shares the device. The way is
/// `None` in a case without requests. The sharing is `None` in a case without the bulk job.
type Case = (&'static str, Option<Way>, Option<Sharing>);

/// All cases. The bulk job alone comes first, because the other cases are compared with it.
const CASES: [Case; 7] = [
    ("bulk alone", None, Some(Sharing::Alone)),
    ("bulk alone, class Bulk", None, Some(Sharing::Bulk)),
    ("requests alone", Some(Way::Prepared(Schedule::Tuned)), None),
    ("requests beside bulk", Some(Way::Prepared(Schedule::Tuned)), Some(Sharing::Alone)),
    ("requests beside bulk, class Bulk", Some(Way::Prepared(Schedule::Tuned)), Some(Sharing::Bulk)),
    (
        "requests by copies in shared streams, beside bulk, class Bulk",
        Some(Way::Prepared(Schedule::RoleStreams)),
        Some(Sharing::Bulk),
    ),
    ("requests on an own stream, beside bulk", Some(Way::OwnStream), Some(Sharing::Alone)),
];

/// Page-locked memory for a job, and the number of rounds of the job's kernel.
struct Data {
    x: PinnedBuffer<u32>,
    y: PinnedBuffer<u32>,
    rounds: u32,
}

impl Data {
    fn new(device: &Device, bytes: usize, rounds: u32) -> Result<Self> {
        let words = bytes / size_of::<u32>();
        let (mut x, y) = (device.pinned::<u32>(words)?, device.pinned::<u32>(words)?);
        x.write()?.iter_mut().zip(0u32..).for_each(|(x, n)| *x = n.wrapping_mul(0x9e37_79b1));
        Ok(Self { x, y, rounds })
    }

    fn prepared(
        &mut self,
        device: &Device,
        sharing: Sharing,
        schedule: Schedule,
    ) -> Result<Prepared<'static, u32, u32>> {
        let rounds = self.rounds;
        Pipeline::on(device)
            .stage::<u32, u32>(move |s, x, y| s.launch(&WORK, (rounds, x, y)))
            .sharing(sharing)
            .schedule(schedule)
            .prepare(&self.x, &mut self.y, ROW)
    }

    /// Compares every `step`th element with the expected result of the kernel.
    fn verify(&self, what: &str, step: usize) -> Result<()> {
        let (x, y) = (self.x.read()?, self.y.read()?);
        let mut pairs = x.iter().zip(y.iter()).step_by(step);
        if pairs.all(|(x, y)| hash(self.rounds, *x) == *y) {
            return Ok(());
        }
        let cause = format!("{what}: an element has a wrong value");
        Err(Error::new(ErrorKind::InvalidValue, "bench latency", cause))
    }
}

/// The memory of requests that are made by hand.
struct ByHand {
    stream: Stream,
    x: Buffer<u32>,
    y: Buffer<u32>,
}

/// A means to make requests, ready to use.
enum Requests {
    Prepared(Box<Prepared<'static, u32, u32>>),
    ByHand(ByHand),
}

impl Requests {
    fn new(device: &Device, data: &mut Data, way: Way) -> Result<Self> {
        match way {
            Way::Prepared(schedule) => {
                Ok(Self::Prepared(Box::new(data.prepared(device, Sharing::Latency, schedule)?)))
            }
            Way::OwnStream => {
                let urgent = StreamOptions::new().priority(device.info().priorities.1);
                let stream = device.stream_with(urgent)?;
                let (x, y) = (stream.alloc(data.x.len())?, stream.alloc(data.x.len())?);
                Ok(Self::ByHand(ByHand { stream, x, y }))
            }
        }
    }

    /// Makes a request. Returns the microseconds until its answer is in host memory.
    fn answer(&mut self, data: &mut Data) -> Result<f64> {
        let start = Instant::now();
        match self {
            Self::Prepared(job) => job.run(&data.x, &mut data.y)?,
            Self::ByHand(ByHand { stream, x, y }) => {
                stream.copy(&data.x, x)?;
                stream.launch(&WORK, (data.rounds, &*x, &mut *y))?;
                stream.copy(y, &mut data.y)?;
                stream.synchronize()?;
            }
        }
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    fn way(&self) -> String {
        match self {
            Self::Prepared(job) => format!("schedule {}", job.plan().schedule.name()),
            Self::ByHand(_) => "copies and a kernel on a stream of the highest priority".to_owned(),
        }
    }
}

/// The result of the bulk job in a case.
#[derive(Debug, Default)]
struct Bulk {
    /// Gigabytes per second in each direction, over all runs of the bulk job; `None` if the bulk
    /// job did not run.
    rate: Option<f64>,
}

/// Prepares the bulk job and runs it once. Then waits at the barrier `ready`, even after an error.
/// Then repeats the job until `goes_on` returns false for the elapsed time, and compares the last
/// result.
fn bulk(
    device: &Device,
    sharing: Sharing,
    definition: &Definition,
    ready: &Barrier,
    goes_on: impl Fn(Duration) -> bool,
) -> Result<Bulk> {
    let prepared = || -> Result<_> {
        let mut data = Data::new(device, definition.bulk_mib << 20, 1)?;
        let mut job = data.prepared(device, sharing, Schedule::Tuned)?;
        job.run(&data.x, &mut data.y)?;
        data.y.write()?.iter_mut().step_by(STEP).for_each(|y| *y = 0);
        Ok((data, job))
    };
    let prepared = prepared();
    ready.wait();
    let (mut data, mut job) = prepared?;
    let (start, mut runs) = (Instant::now(), 0u32);
    while runs == 0 || goes_on(start.elapsed()) {
        job.run(&data.x, &mut data.y)?;
        runs += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    data.verify("the bulk job", STEP)?;
    let bytes = (definition.bulk_mib << 20) as f64;
    Ok(Bulk { rate: Some(f64::from(runs) * bytes / seconds * 1e-9) })
}

/// Makes the requests of a case. Returns their times in microseconds, and a text on how they were
/// made.
fn requests(
    device: &Device,
    way: Way,
    definition: &Definition,
    ready: &Barrier,
) -> Result<(Samples, String)> {
    let data = Data::new(device, definition.small_kib << 10, definition.rounds);
    // This thread reaches the barrier even after an error. Otherwise the bulk job would wait
    // forever.
    ready.wait();
    let mut data = data?;
    let mut requests = Requests::new(device, &mut data, way)?;
    let (start, every) = (Instant::now(), Duration::from_micros(definition.every_us));
    let mut times = Samples::default();
    for number in 0..definition.requests {
        if number > 0 && start.elapsed().as_secs_f64() > definition.seconds {
            break;
        }
        let due = start + every * u32::try_from(number).unwrap_or(u32::MAX);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        data.x.write()?.fill(u32::try_from(number).unwrap_or(0));
        let time = requests.answer(&mut data)?;
        data.verify("a request", 1)?;
        // The first request is a warm-up. Its time counts only if the request takes all the time of
        // the case.
        if number > 0 || time * 1e-6 > definition.seconds {
            times.push(time);
        }
    }
    Ok((times, requests.way()))
}

/// Runs a case. A case without requests runs the bulk job for the usual time of a case.
fn case(
    device: &Device,
    case: &Case,
    definition: &Definition,
) -> Result<(Option<(Samples, String)>, Bulk)> {
    let (_, way, sharing) = *case;
    let seconds = Duration::from_secs_f64(definition.seconds);
    let Some(way) = way else {
        let alone = |sharing| {
            bulk(device, sharing, definition, &Barrier::new(1), |so_far| so_far < seconds)
        };
        return Ok((None, sharing.map(alone).transpose()?.unwrap_or_default()));
    };
    let (ready, stop) = (Barrier::new(1 + usize::from(sharing.is_some())), AtomicBool::new(false));
    thread::scope(|scope| {
        let beside = sharing.map(|sharing| {
            let (ready, stop) = (&ready, &stop);
            let goes_on = |_| !stop.load(Ordering::Relaxed);
            scope.spawn(move || bulk(device, sharing, definition, ready, goes_on))
        });
        let answered = requests(device, way, definition, &ready);
        stop.store(true, Ordering::Relaxed);
        let panicked =
            |_| Err(Error::new(ErrorKind::Panicked, "bench latency", "the bulk job panicked"));
        let bulk = beside.map(|thread| thread.join().unwrap_or_else(panicked)).transpose()?;
        Ok((Some(answered?), bulk.unwrap_or_default()))
    })
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `OutOfMemory`; `Cancelled`; every error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(CASES.len() as u64);
    let mut results = Results::of_device(setting.device);
    results.note("verified", "every answer to a request, and the last result of the bulk job");
    let mut alone = None;
    for one in &CASES {
        steps.begin(one.0);
        let (answered, bulk) = case(setting.device, one, definition)?;
        if let Some((times, way)) = answered {
            let note = format!("{way}; {} requests", times.count());
            for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0)] {
                let time = Samples::one(times.quantile(part));
                results.push_with(format!("{}: {name}", one.0), "us", time, None, &*note);
            }
        }
        if let Some(rate) = bulk.rate {
            let of = *alone.get_or_insert(rate);
            let note = format!("{:.3} of the bulk job alone", rate / of);
            let what = format!("{}: bulk, each way", one.0);
            results.push_with(what, "GB/s", Samples::one(rate), None, note);
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Select;
    use trijet_tools::progress::Step;

    #[test]
    fn each_case_has_its_percentiles_and_its_rate() -> Result<()> {
        let device = Device::open(Select::Host(0))?;
        let definition = Definition {
            small_kib: 4,
            rounds: 1,
            bulk_mib: 1,
            seconds: 0.01,
            requests: 5,
            every_us: 1,
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for (name, way, sharing) in CASES {
            let has = |row: &str| printed.contains(&format!("{name}: {row}"));
            assert_eq!(has("p99.9"), way.is_some(), "{name}: {printed}");
            assert_eq!(has("bulk, each way"), sharing.is_some(), "{name}: {printed}");
        }
        Ok(())
    }

    #[test]
    fn a_wrong_answer_is_an_error() -> Result<()> {
        let device = Device::open(Select::Host(0))?;
        let mut data = Data::new(&device, 4096, 2)?;
        let mut requests = Requests::new(&device, &mut data, Way::OwnStream)?;
        requests.answer(&mut data)?;
        data.verify("a request", 1)?;
        data.y.write()?[77] ^= 1;
        assert_eq!(data.verify("a request", 1).unwrap_err().kind(), ErrorKind::InvalidValue);
        Ok(())
    }
}
