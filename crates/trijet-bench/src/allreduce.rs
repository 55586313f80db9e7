//! Sums over all devices of the host, of sizes from 1 KiB to 1 GiB, by the ring of the library and
//! by NCCL. Several calls run one after another. The time of a call is the time of all calls
//! divided by their number. The time of all calls starts with the first call, and ends when the
//! last call is complete on all devices. If a launcher starts the benchmark as several processes,
//! each process has one device, and the sums are over the devices of all processes.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use serde::Deserialize;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trijet::comm::Communicator;
use trijet::kernels::Sum;
use trijet::ranks::LauncherRank;
use trijet::{Buffer, Device, Error, ErrorKind, Result};
use trijet_tools::progress::Steps;

/// A rank that gives no sign of life for this long counts as lost.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    run_mib: usize,
    calls_min: usize,
    calls_max: usize,
    gpu: Sizes,
    host: Sizes,
}

impl Definition {
    /// The number of calls in a run. Each call sums `kib` KiB.
    fn calls(&self, kib: usize) -> usize {
        (self.run_mib * 1024 / kib).clamp(self.calls_min, self.calls_max)
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Sizes {
    kib: Vec<usize>,
    repeats: usize,
}

/// The value of the word at index `at` on this device, before the first call.
fn word(device: usize, at: usize) -> u32 {
    let [device, at] = [device, at].map(|n| u32::try_from(n).expect("below 2^32"));
    at.wrapping_mul(0x9e37_79b1) ^ device
}

/// Data on each device. One communicator sums the data repeatedly.
struct Data<'a> {
    communicator: &'a Communicator,
    devices: &'a [Device],
    words: Vec<Buffer<u32>>,
    /// The number of calls so far.
    calls: u32,
}

impl<'a> Data<'a> {
    fn new(communicator: &'a Communicator, devices: &'a [Device], len: usize) -> Result<Self> {
        let upload = |(place, device): (usize, &Device)| {
            let words: Vec<u32> = (0..len).map(|at| word(place, at)).collect();
            device.stream()?.upload(&words)
        };
        let words = communicator.ranks().zip(devices).map(upload).collect::<Result<_>>()?;
        Ok(Self { communicator, devices, words, calls: 0 })
    }

    /// Makes `calls` calls in a row. Returns the time of one call, in microseconds.
    fn run(&mut self, calls: usize) -> Result<f64> {
        self.devices.iter().try_for_each(Device::synchronize)?;
        let begun = Instant::now();
        for _ in 0..calls {
            let mut views: Vec<_> = self.words.iter_mut().map(|one| one.view_mut()).collect();
            self.communicator.all_reduce(&mut views, Sum)?;
            self.calls += 1;
        }
        self.devices.iter().try_for_each(Device::synchronize)?;
        Ok(begun.elapsed().as_secs_f64() * 1e6 / calls as f64)
    }

    /// Compares every word on every device with the expected sum. After the first call, all devices
    /// have the same words. So each further call multiplies a word by the number of devices.
    fn verify(&self) -> Result<()> {
        let places = self.communicator.len();
        let count = u32::try_from(places).expect("a few devices");
        let factor = count.wrapping_pow(self.calls.saturating_sub(1));
        for (device, words) in self.devices.iter().zip(&self.words) {
            let found = device.stream()?.download(words)?;
            let sum = |at| (0..places).fold(0, |sum, n| word(n, at).wrapping_add(sum));
            let wrong = (0..found.len()).find(|at| found[*at] != sum(*at).wrapping_mul(factor));
            if let Some(at) = wrong {
                let cause =
                    format!("word {at} on {} is wrong after {} calls", device.id(), self.calls);
                return Err(Error::new(ErrorKind::InvalidValue, "bench allreduce", cause));
            }
        }
        Ok(())
    }
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `NoDevice` on a host with one GPU; `OutOfMemory`;
/// `Cancelled`; every error of a device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    if let Some(launch) = LauncherRank::of_environment()? {
        return of_rank(setting, &launch, definition, steps);
    }
    let devices = setting.devices_for("a sum over devices")?;
    let sizes = if setting.is_gpu() { &definition.gpu } else { &definition.host };
    measure(setting, &devices, definition, sizes, steps)
}

fn measure(
    setting: &Setting<'_>,
    devices: &[Device],
    definition: &Definition,
    sizes: &Sizes,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(sizes.kib.len() as u64);
    let mut results = Results::of_device(setting.device);
    let count = devices.len();
    results.note(
        "verified",
        "every word on every device was the sum, after the first run and after the last one",
    );
    results.note("devices", count.to_string());
    let ring = Communicator::builder().devices(devices).open()?;
    let nccl = Communicator::builder().devices(devices).nccl().open();
    let mut communicators = vec![("ring", &ring)];
    match &nccl {
        Ok(nccl) => communicators.push(("NCCL", nccl)),
        Err(error) => results.note("NCCL", error.to_string()),
    }
    for kib in &sizes.kib {
        steps.begin(&format!("{kib} KiB"));
        let bytes = kib << 10;
        let calls = definition.calls(*kib);
        let data = communicators.iter().map(|(name, communicator)| {
            Ok((*name, RefCell::new(Data::new(communicator, devices, bytes / size_of::<u32>())?)))
        });
        let data = data.collect::<Result<Vec<_>>>()?;
        let mut sides: Vec<Side<'_>> = data
            .iter()
            .map(|(name, data)| {
                Side::new(*name, move || Ok(times(bytes, count, data.borrow_mut().run(calls)?)))
            })
            .collect();
        warm_up(&mut sides, &setting.cancel)?;
        data.iter().try_for_each(|(_, data)| data.borrow().verify())?;
        for number in 0..sizes.repeats {
            round(&mut sides, number, &setting.cancel)?;
        }
        data.iter().try_for_each(|(_, data)| data.borrow().verify())?;
        push(&mut results, &sides, *kib);
    }
    Ok(results)
}

/// Runs the benchmark as one of several processes with one device each. Only rank 0 returns
/// results.
fn of_rank(
    setting: &Setting<'_>,
    launch: &LauncherRank,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let ranks = Arc::new(launch.join(TIMEOUT)?);
    let is_gpu = setting.device.info().compute.0 != 0;
    let (name, communicator, sizes) = match is_gpu {
        true => (
            "NCCL",
            Communicator::builder().rank(setting.device, &ranks).nccl().open()?,
            &definition.gpu,
        ),
        false => {
            ("host", Communicator::builder().rank(setting.device, &ranks).open()?, &definition.host)
        }
    };
    let devices = [setting.device.clone()];
    let local = launch.local.map_or("unknown".to_owned(), |local| local.to_string());
    let own = format!(
        "{}, number {local} on its host, {}",
        setting.device.info().name,
        setting.device.id()
    );
    let table = ranks.gather(own.as_bytes())?;
    let mut results = Results::of_device(setting.device);
    let is_first = launch.rank == 0;
    if is_first {
        steps.expect(sizes.kib.len() as u64);
        results.note(
            "verified",
            "every word on every device was the sum, after the first run and after the last one",
        );
        results.note("ranks", format!("{} ({})", launch.count, launch.launcher));
        for (rank, line) in table.iter().enumerate() {
            results.note(format!("rank {rank}"), String::from_utf8_lossy(line));
        }
    }
    for kib in &sizes.kib {
        if is_first {
            steps.begin(&format!("{kib} KiB"));
        }
        let bytes = kib << 10;
        let calls = definition.calls(*kib);
        let data = RefCell::new(Data::new(&communicator, &devices, bytes / size_of::<u32>())?);
        let run = || {
            ranks.barrier()?;
            let own = data.borrow_mut().run(calls)?;
            // The time of the slowest rank is the result.
            let all = ranks.gather(&own.to_le_bytes())?;
            let of = |bytes: &Vec<u8>| bytes[..].try_into().map_or(f64::NAN, f64::from_le_bytes);
            Ok(times(bytes, launch.count, all.iter().map(of).fold(own, f64::max)))
        };
        let mut sides = [Side::new(format!("{name} ranks"), run)];
        warm_up(&mut sides, &setting.cancel)?;
        data.borrow().verify()?;
        for number in 0..sizes.repeats {
            round(&mut sides, number, &setting.cancel)?;
        }
        data.borrow().verify()?;
        if is_first {
            push(&mut results, &sides, *kib);
        }
    }
    communicator.close()?;
    Ok(results)
}

/// The time of one call that sums `bytes` bytes over `count` devices, and the bus bandwidth as
/// nccl-tests defines it.
fn times(bytes: usize, count: usize, us: f64) -> Vec<Value> {
    let rate = bytes as f64 / us / 1e3 * 2.0 * (count - 1) as f64 / count as f64;
    vec![Value::new("time", "us", us), Value::new("bus", "GB/s", rate)]
}

fn push(results: &mut Results, sides: &[Side<'_>], kib: usize) {
    for side in sides {
        for figure in &side.figures {
            let what = format!("{} {kib} KiB {}", side.name, figure.what);
            results.push_with(&what, &figure.unit, figure.samples.clone(), None, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::setting::checked_device;
    use trijet::Select;
    use trijet::sim::Order;

    #[test]
    fn each_size_has_a_time_and_a_rate_and_a_wrong_word_is_an_error() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let devices = [Device::open(Select::Host(0))?, Device::open(Select::Host(1))?];
        let definition: Definition = parse(include_str!("../definitions/allreduce.toml"))?;
        let sizes = Sizes { kib: vec![1, 8], repeats: 2 };
        let setting = Setting::for_tests(&device);
        let mut show = |_: trijet_tools::progress::Step<'_>| ();
        let mut steps = Steps::new(&mut show);
        let printed = measure(&setting, &devices, &definition, &sizes, &mut steps)?.to_string();
        for name in ["ring 1 KiB time", "ring 1 KiB bus", "ring 8 KiB time", "needs no NCCL"] {
            assert!(printed.contains(name), "{printed}");
        }
        let ring = Communicator::builder().devices(&devices).open()?;
        let mut data = Data::new(&ring, &devices, 100)?;
        data.run(3)?;
        data.verify()?;
        data.calls += 1;
        assert_eq!(data.verify().map_err(|error| error.kind()), Err(ErrorKind::InvalidValue));
        Ok(())
    }
}
