//! Uploads from ordinary memory: a pipeline reads a vector or a mapped file. The upload is compared
//! with the link, with copies within the host, and with the driver's own copy of pageable memory.
//! The host measures all times, from the call until it returns.
#![forbid(unsafe_code)]

use crate::mapping;
use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use memmap2::Mmap;
use serde::Deserialize;
use std::io::Write;
use std::thread;
use std::time::Instant;
use trijet::pipeline::{Calibration, rows_of, rows_to_fn};
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Pipeline, Result};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

/// The number of words in a row.
const ROW: usize = 512;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    marker: u8,
    threads: Vec<usize>,
    gpu: Size,
    host: Size,
}

#[derive(Debug, Deserialize)]
struct Size {
    bytes: u64,
    repeats: usize,
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let cause = format!("{what}: {error}");
        Error::new(ErrorKind::Io, "bench staging", cause).caused_by(error)
    }
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench staging", what)
}

/// A mapped file as words.
struct Words(Mmap);

impl AsRef<[u64]> for Words {
    fn as_ref(&self) -> &[u64] {
        bytemuck::cast_slice(&self.0)
    }
}

/// The device, and the data that the programs upload. The data is in a vector and in a mapped file.
struct Bench<'a> {
    device: &'a Device,
    calibration: Calibration,
    marker: u8,
    /// One byte with the value `marker` for each word of the data. The sink of an upload must
    /// receive these bytes.
    markers: Vec<u8>,
    data: Vec<u64>,
    file: Words,
}

impl<'a> Bench<'a> {
    fn new(device: &'a Device, definition: &Definition, bytes: u64) -> Result<Self> {
        let calibration = Calibration::measure(device, Bytes(bytes))?;
        let words = bytes / size_of::<u64>() as u64;
        let data: Vec<u64> = (0..words).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let file = mapped(&data).map_err(failed("cannot map a temporary file"))?;
        let marker = definition.marker;
        let markers = vec![marker; data.len()];
        Ok(Self { device, calibration, marker, markers, data, file: Words(file) })
    }

    /// Copies every byte of a source to the device and back, through a pipeline without a stage,
    /// and compares.
    fn verify(&self, name: &str, source: &(impl AsRef<[u64]> + Send + Sync)) -> Result<()> {
        let mut back: Vec<u64> = Vec::with_capacity(self.data.len());
        let pipeline = Pipeline::on(self.device).calibrated(&self.calibration).untraced();
        pipeline.source(rows_of(source, ROW)).sink(&mut back).run()?;
        if back != self.data {
            return Err(wrong(format!("{name}: the device has other bytes than the source")));
        }
        Ok(())
    }

    /// Uploads a source. Returns the time in milliseconds.
    fn upload(&self, source: &(impl AsRef<[u64]> + Send + Sync)) -> Result<f64> {
        let marker = self.marker;
        let mut received = 0;
        // Each chunk is compared as a whole. To count markers would take longer than the copy over
        // the link.
        let compare = |_, bytes: &[u8]| {
            received += if *bytes == self.markers[..bytes.len()] { bytes.len() } else { 0 };
            Ok(())
        };
        let start = Instant::now();
        Pipeline::on(self.device)
            .calibrated(&self.calibration)
            .untraced()
            .source(rows_of(source, ROW))
            .stage::<u64, u8>(|s, _, mut y| s.fill_bytes(&mut y, marker))
            .sink(rows_to_fn(compare))
            .run()?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        if received != self.data.len() {
            let words = self.data.len();
            return Err(wrong(format!("the sink received {received} markers for {words} words")));
        }
        Ok(time)
    }

    /// Copies the data within the host. Returns the time in milliseconds.
    fn copy(&self, target: &mut [u64], threads: usize) -> Result<f64> {
        target.fill(0);
        let part = self.data.len().div_ceil(threads);
        let start = Instant::now();
        thread::scope(|scope| {
            for (target, source) in target.chunks_mut(part).zip(self.data.chunks(part)) {
                scope.spawn(|| target.copy_from_slice(source));
            }
        });
        let time = start.elapsed().as_secs_f64() * 1e3;
        if *target != *self.data {
            return Err(wrong(format!("{threads} threads copied other bytes")));
        }
        Ok(time)
    }
}

/// The data in a mapped file without a name.
fn mapped(data: &[u64]) -> std::io::Result<Mmap> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytemuck::cast_slice(data))?;
    mapping::readable(&file)
}

/// The driver's own copy of pageable memory. Returns the time in milliseconds.
fn driver_copies(bench: &Bench<'_>) -> Result<impl FnMut() -> Result<f64>> {
    let stream = bench.device.stream()?;
    let mut source = bench.device.pageable::<u64>(bench.data.len())?;
    source.write()?.copy_from_slice(&bench.data);
    let mut target = stream.alloc::<u64>(bench.data.len())?;
    let mut back: PinnedBuffer<u64> = bench.device.pinned(bench.data.len())?;
    Ok(move || {
        stream.fill_bytes(&mut target, 0)?;
        stream.synchronize()?;
        let start = Instant::now();
        stream.copy(&source, &mut target)?;
        stream.synchronize()?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        stream.copy(&target, &mut back)?;
        if *back.read()? != *source.read()? {
            return Err(wrong("the driver copied other bytes".to_owned()));
        }
        Ok(time)
    })
}

fn side<'a>(name: String, mut run: impl FnMut() -> Result<f64> + 'a) -> Side<'a> {
    Side::new(name, move || {
        Ok(vec![Value { what: String::new(), unit: "ms".to_owned(), value: run()? }])
    })
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` for a wrong result; `Io` without room for a temporary file; `Cancelled`; every
/// error of the device.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let size = if setting.is_gpu() { &definition.gpu } else { &definition.host };
    measure(setting, definition, size, steps)
}

fn measure(
    setting: &Setting<'_>,
    definition: &Definition,
    size: &Size,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(2 + size.repeats as u64);
    steps.begin("measuring the link");
    let bench = Bench::new(setting.device, definition, size.bytes)?;
    steps.begin("verifying both sources, and a run of each program");
    bench.verify("a vector", &bench.data)?;
    bench.verify("a mapped file", &bench.file)?;
    let mut sides = vec![
        side("pipeline from a vector".to_owned(), || bench.upload(&bench.data)),
        side("pipeline from a mapped file".to_owned(), || bench.upload(&bench.file)),
    ];
    let bench = &bench;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for threads in definition.threads.iter().copied().filter(|threads| *threads <= cores) {
        let mut target = vec![0; bench.data.len()];
        let run = move || bench.copy(&mut target, threads);
        sides.push(side(format!("{COPY}, threads={threads}"), run));
    }
    if setting.device.info().compute.0 > 0 {
        sides.push(side("driver's copy of pageable memory".to_owned(), driver_copies(bench)?));
    }
    warm_up(&mut sides, &setting.cancel)?;
    for number in 0..size.repeats {
        steps.begin(&format!("round {} of {}", number + 1, size.repeats));
        round(&mut sides, number, &setting.cancel)?;
    }
    let mut results = Results::of_device(setting.device);
    results.note("verified", VERIFIED);
    let link_ms = bench.calibration.upload.seconds() * 1e3;
    results.push("link: upload alone (best)", "ms", Samples::one(link_ms), None);
    let copies = sides.iter().filter(|side| side.name.starts_with(COPY));
    let bound = copies.map(|side| side.median("")).reduce(f64::min).map(|copy| copy.max(link_ms));
    for side in &sides {
        for figure in &side.figures {
            let bound = bound.filter(|_| side.name.starts_with("pipeline"));
            results.push(side.name.clone(), &figure.unit, figure.samples.clone(), bound);
        }
    }
    Ok(results)
}

/// The names of the copies start with this text.
const COPY: &str = "copy within the host";

const VERIFIED: &str = "every byte of both sources came back once; the sink received a marker for \
                        each word in every run; the copies were compared in every run";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::parse;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    fn definition() -> Result<Definition> {
        parse(include_str!("../definitions/staging.toml"))
    }

    #[test]
    fn uploads_have_a_bound_and_no_finding() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let size = Size { bytes: 1 << 20, repeats: 2 };
        let mut begun = Vec::new();
        let mut show = |step: Step<'_>| begun.push((step.number, step.of));
        let setting = Setting::for_tests(&device);
        let printed = measure(&setting, &definition()?, &size, &mut Steps::new(&mut show))?;
        let printed = printed.to_string();
        assert_eq!(begun, [(1, 4), (2, 4), (3, 4), (4, 4)], "every step is announced");
        for name in ["pipeline from a vector", "pipeline from a mapped file"] {
            let row = printed.lines().find(|row| row.contains(name)).expect("a row");
            let cells: Vec<&str> = row.split(',').collect();
            assert!(cells[11].parse::<f64>().is_ok_and(|bound| bound > 0.0), "{row}");
        }
        assert!(printed.contains("copy within the host, threads=1"), "{printed}");
        assert_no_finding(&device, 10);
        Ok(())
    }

    #[test]
    fn the_definition_has_whole_rows() {
        let definition = definition().expect("the definition parses");
        assert!(definition.gpu.bytes.is_multiple_of((ROW * 8) as u64));
    }
}
