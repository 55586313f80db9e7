//! Moves one array from host memory through devices to host memory: through one device alone, and
//! through all devices of the host at once. The times are compared with copies in both directions
//! that do not wait for each other. A time is the time of the slowest device, on its own clock,
//! from the start of its first operation to the end of its last operation.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use serde::Deserialize;
use std::sync::{Barrier, Mutex};
use std::thread;
use trijet::testing::WORK;
use trijet::{Device, Error, ErrorKind, Nanos, PinnedBuffer, Pipeline, Result, Stream};
use trijet_tools::progress::Steps;

const ROW: usize = 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    piece_mib: usize,
    gpu: Size,
    host: Size,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Size {
    bytes: usize,
    repeats: usize,
}

/// The part of the array that one device moves.
struct Share {
    device: Device,
    x: PinnedBuffer<u32>,
    y: PinnedBuffer<u32>,
}

impl Share {
    fn new(device: &Device, words: usize, first: usize) -> Result<Self> {
        let (mut x, y) = (device.pinned::<u32>(words)?, device.pinned::<u32>(words)?);
        for (n, word) in x.write()?.iter_mut().enumerate() {
            let number = u32::try_from((first + n) % (1 << 32)).expect("below 2^32");
            *word = number.wrapping_mul(0x9e37_79b1);
        }
        Ok(Self { device: device.clone(), x, y })
    }

    /// Runs the pipeline of the share. Returns its time.
    fn pipeline(&mut self) -> Result<Nanos> {
        let report = Pipeline::on(&self.device)
            .pinned_source(&self.x, ROW)
            .stage::<u32, u32>(|s, x, y| s.launch(&WORK, (0, x, y)))
            .pinned_sink(&mut self.y)
            .untraced()
            .run()?;
        Ok(report.elapsed)
    }

    /// Copies `piece` words at a time in both directions, without an order between the directions.
    /// The time gives the rate of this device's link while the other devices copy at the same time.
    /// The source of the downloads is zeroed memory, so the results are zeros.
    fn copies(&mut self, piece: usize) -> Result<Nanos> {
        let (up, down) = (self.device.stream()?, self.device.stream()?);
        let mut target = up.alloc::<u32>(piece)?;
        let mut source = down.alloc::<u32>(piece)?;
        down.fill_bytes(&mut source, 0)?;
        down.synchronize()?;
        let begin = self.device.timed_event()?;
        begin.record(&up)?;
        for at in (0..self.x.len()).step_by(piece) {
            let words = at..(at + piece).min(self.x.len());
            up.copy(&self.x.slice(words.clone()), &mut target.slice_mut(..words.len()))?;
            down.copy(&source.slice(..words.len()), &mut self.y.slice_mut(words))?;
        }
        let end = |stream: &Stream| {
            let end = self.device.timed_event()?;
            end.record(stream)?;
            end.synchronize()?;
            end.elapsed_since(&begin)
        };
        Ok(end(&up)?.max(end(&down)?))
    }

    fn verify(&self, is_copied: bool) -> Result<()> {
        let (x, y) = (self.x.read()?, self.y.read()?);
        let is_right = if is_copied { *x == *y } else { y.iter().all(|word| *word == 0) };
        let wrong =
            || Error::new(ErrorKind::InvalidValue, "bench devices", "wrong bytes came back");
        if is_right { Ok(()) } else { Err(wrong()) }
    }
}

/// Calls `run` on all shares at once, and verifies the shares. Returns the time of the slowest
/// share in milliseconds.
fn at_once(
    shares: &Mutex<Vec<Share>>,
    is_copied: bool,
    run: impl Fn(&mut Share) -> Result<Nanos> + Sync,
) -> Result<f64> {
    let mut shares = shares.lock().expect("no thread panics under this lock");
    let start = Barrier::new(shares.len());
    let one = |share: &mut Share| {
        share.y.write()?.fill(0xdead_beef);
        start.wait();
        let time = run(share)?;
        share.verify(is_copied)?;
        Ok(time)
    };
    let times: Vec<Result<Nanos>> = thread::scope(|scope| {
        let threads: Vec<_> = shares.iter_mut().map(|share| scope.spawn(|| one(share))).collect();
        let panicked =
            |_| Err(Error::new(ErrorKind::Panicked, "bench devices", "a thread panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let times = times.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(times.into_iter().fold(0.0, |slowest, time| time.seconds().max(slowest)) * 1e3)
}

/// Divides the array into equal shares, one for each device.
fn shared(devices: &[Device], bytes: usize) -> Result<Mutex<Vec<Share>>> {
    let words = bytes / size_of::<u32>() / devices.len() / ROW * ROW;
    let share = |(n, device)| Share::new(device, words, n * words);
    Ok(Mutex::new(devices.iter().enumerate().map(share).collect::<Result<_>>()?))
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `OutOfMemory`; `Cancelled`; every error of a device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let size = if setting.is_gpu() { definition.gpu } else { definition.host };
    measure(setting, &setting.devices()?, definition, size, steps)
}

fn measure(
    setting: &Setting<'_>,
    devices: &[Device],
    definition: &Definition,
    size: Size,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(1 + size.repeats as u64);
    let mut results = Results::of_device(setting.device);
    results.note(
        "verified",
        "every run of a pipeline returned every byte once, and every run of \
                           copies returned the bytes of its source",
    );
    steps.begin("writing the array, and a run of each program");
    let piece = definition.piece_mib << 18;
    let counts = if devices.len() > 1 { vec![1, devices.len()] } else { vec![1] };
    let shares: Vec<_> =
        counts.iter().map(|count| shared(&devices[..*count], size.bytes)).collect::<Result<_>>()?;
    let mut sides = Vec::new();
    for (count, shares) in counts.iter().zip(&shares) {
        let ms = |value| vec![Value { what: String::new(), unit: "ms".to_owned(), value }];
        sides.push(Side::new(format!("pipeline, {count} devices"), move || {
            Ok(ms(at_once(shares, true, Share::pipeline)?))
        }));
        sides.push(Side::new(format!("free copies, {count} devices"), move || {
            Ok(ms(at_once(shares, false, |share| share.copies(piece))?))
        }));
    }
    warm_up(&mut sides, &setting.cancel)?;
    for number in 0..size.repeats {
        steps.begin(&format!("round {} of {}", number + 1, size.repeats));
        round(&mut sides, number, &setting.cancel)?;
    }
    for pair in sides.chunks(2) {
        let bound = pair[1].median("");
        let ratio = sides[0].median("") / pair[0].median("");
        let note = format!("{ratio:.2} times as fast as one device");
        for side in pair {
            let is_pipeline = side.name.starts_with("pipeline");
            let note = if is_pipeline { note.as_str() } else { "" };
            for figure in &side.figures {
                let bound = is_pipeline.then_some(bound);
                results.push_with(&side.name, &figure.unit, figure.samples.clone(), bound, note);
            }
        }
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::setting::checked_device;
    use trijet::Select;
    use trijet::sim::Order;

    #[test]
    fn each_number_of_devices_has_a_bound_and_right_bytes() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let devices = [Device::open(Select::Host(0))?, Device::open(Select::Host(1))?];
        let definition: Definition = parse(include_str!("../definitions/devices.toml"))?;
        let size = Size { bytes: 1 << 20, repeats: 2 };
        let setting = Setting::for_tests(&device);
        let mut show = |_: trijet_tools::progress::Step<'_>| ();
        let printed =
            measure(&setting, &devices, &definition, size, &mut Steps::new(&mut show))?.to_string();
        for name in ["pipeline, 1 devices", "pipeline, 2 devices"] {
            let row = printed.lines().find(|row| row.contains(name)).expect("a row");
            assert!(row.contains("ms"), "{row}");
        }
        Ok(())
    }

    #[test]
    fn a_word_that_did_not_come_back_is_an_error() -> Result<()> {
        let devices = [Device::open(Select::Host(0))?];
        let shares = shared(&devices, 1 << 16)?;
        let spoil = |share: &mut Share| {
            let time = share.pipeline()?;
            share.y.write()?[77] ^= 1;
            Ok(time)
        };
        assert_eq!(at_once(&shares, true, spoil).unwrap_err().kind(), ErrorKind::InvalidValue);
        Ok(())
    }
}
