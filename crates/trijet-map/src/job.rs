//! A job: a pipeline on each of its devices, into one output.
#![forbid(unsafe_code)]

use crate::chain::Chain;
use crate::memory;
use crate::settings::Settings;
use crate::shares::shares;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Builder, ScopedJoinHandle};
use trijet::pipeline::{Calibration, Layout, ParallelSink, Progress};
use trijet::trace::summary::Audience;
use trijet::{Bytes, Cancel, Device, Error, ErrorKind, Pipeline, Report, Result, Sink, Source};
use trijet_io::{ClaimedOutput, Output};

/// A function that gets the number of rows of the result that are newly done. Several threads call
/// it.
type OnRows<'a> = &'a (dyn Fn(u64) + Sync);

/// The rows that a job has to compute: the missing rows of its output, and rows beside them that
/// complete granules, because a job computes whole granules only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// In ascending order, with the numbers of [`Output::missing`].
    pub rows: Vec<Range<u64>>,
    /// Number of rows that an earlier run has written and that stay as they are.
    pub kept: u64,
}

impl Todo {
    /// Number of rows that the job has to compute.
    #[must_use]
    pub fn count(&self) -> u64 {
        count(&self.rows)
    }
}

fn count(rows: &[Range<u64>]) -> u64 {
    rows.iter().map(|rows| rows.end - rows.start).sum()
}

/// The whole granules that contain `rows`, which are in ascending order and in `own`. No granule
/// reaches beyond `own`.
fn whole(rows: &[Range<u64>], granule: u64, own: &Range<u64>) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for one in rows {
        let start = (one.start / granule * granule).max(own.start);
        let end = one.end.next_multiple_of(granule).min(own.end);
        match found.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(end),
            _ => found.push(start..end),
        }
    }
    found
}

/// A chain of operations on one device or several. Each of several devices computes a share of the
/// rows.
#[derive(Debug)]
pub struct Job<'a> {
    chain: &'a Chain,
    devices: &'a [Device],
    /// The number of rows of a granule of the results.
    granule: u64,
    settings: Settings,
    calibrations: Vec<Option<Calibration>>,
    /// Maximum host memory for the chunks of one device. `None` if no limit is known.
    memory: Option<Bytes>,
}

impl<'a> Job<'a> {
    /// A job over data of the layout `input`, whose results are written in whole granules of
    /// `granule` rows (see [`Chain::granule`]). Reads the memory limit, and measures the link of
    /// each device. Both may fail, so a program calls this before it creates the output.
    ///
    /// # Errors
    /// `InvalidValue` for a limit that leaves no memory for chunks. Errors of the devices.
    pub fn new(
        chain: &'a Chain,
        devices: &'a [Device],
        input: Layout,
        granule: u64,
        settings: Settings,
    ) -> Result<Self> {
        let memory = memory::for_chunks(settings.memory)?;
        let memory = memory.map(|bytes| Bytes(bytes.0 / devices.len().max(1) as u64));
        // There are at least three more chunks in host memory.
        let kept = |bytes: u64| if settings.keeps_rows { bytes / 4 } else { 0 };
        let memory = memory.map(|bytes| Bytes(bytes.0 - kept(bytes.0)));
        let calibrations = devices.iter().map(|device| calibrate(device, input));
        let calibrations = calibrations.collect::<Result<_>>()?;
        Ok(Self { chain, devices, granule, settings, calibrations, memory })
    }

    /// Computes the rows `todo` of the output and finishes it. Returns a report of each device.
    ///
    /// # Errors
    /// Errors of the source, of the output, of the operations and of the devices; with several
    /// devices, the error of the device that failed first. `Cancelled`.
    pub fn run(
        &self,
        source: &dyn Source,
        output: &mut Output,
        todo: &[Range<u64>],
        cancel: &Cancel,
        on_rows: OnRows<'_>,
    ) -> Result<Vec<Report>> {
        match self.devices {
            [_] => self.run_on_one(source, output, todo, cancel, on_rows).map(|one| vec![one]),
            _ => self.run_on_all(source, output, todo, cancel, on_rows),
        }
    }

    /// Computes the rows `todo` on the first device, and writes them to `sink`, in order unless the
    /// sink is parallel.
    ///
    /// # Errors
    /// Errors of the source, of the sink, of the operations and of the device. `Cancelled`.
    pub fn run_on_one(
        &self,
        source: &dyn Source,
        sink: impl Sink,
        todo: &[Range<u64>],
        cancel: &Cancel,
        on_rows: OnRows<'_>,
    ) -> Result<Report> {
        self.pipeline(0, source, todo, cancel, on_rows).sink(sink).run()
    }

    /// Computes rows that no other process has taken, on the first device, until the output is
    /// complete. `on_rows` also gets rows that other processes have done.
    ///
    /// # Errors
    /// Errors of the source, of the files of the job, of the operations and of the device.
    /// `Cancelled`.
    pub fn run_claimed(
        &self,
        source: &dyn Source,
        output: &mut ClaimedOutput,
        cancel: &Cancel,
        on_rows: OnRows<'_>,
    ) -> Result<()> {
        let mut told = output.rows_known();
        while let Some(rows) = output.next(cancel)? {
            let known = output.rows_known();
            on_rows(known.saturating_sub(told));
            told = told.max(known);
            match self.run_on_one(source, output.sink(), &rows, cancel, &|_| ()) {
                Ok(_) => {}
                // Another process has published the output, and the rows are in it.
                Err(_) if output.is_over() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The rows of `output` that this job has to compute.
    #[must_use]
    pub fn todo(&self, output: &Output) -> Todo {
        let own = output.rows();
        let rows = whole(&output.missing(), self.granule, &own);
        let kept = own.end - own.start - count(&rows);
        Todo { rows, kept }
    }

    /// Runs a pipeline on every device, each with its share of the rows.
    fn run_on_all(
        &self,
        source: &dyn Source,
        output: &mut Output,
        todo: &[Range<u64>],
        cancel: &Cancel,
        on_rows: OnRows<'_>,
    ) -> Result<Vec<Report>> {
        let shares = shares(todo, self.devices.len(), self.granule);
        let shared = &*output;
        let reports = thread::scope(|scope| {
            let start = |(number, share): (usize, &'_ Vec<Range<u64>>)| {
                let share = share.clone();
                let ran = Builder::new().spawn_scoped(scope, move || {
                    let run = self.pipeline(number, source, &share, cancel, on_rows);
                    let ran = run.sink(Part(shared)).run();
                    if ran.is_err() {
                        // The pipelines of the other devices complete the chunks in flight, and
                        // then end.
                        cancel.cancel();
                    }
                    ran.map_err(|error| error.context(format!("device {number}")))
                });
                ran.map_err(|error| {
                    cancel.cancel();
                    let cause = format!("the thread of device {number} could not be started");
                    Error::new(ErrorKind::Io, "map", cause).caused_by(error)
                })
            };
            let threads: Vec<_> = shares.iter().enumerate().map(start).collect();
            let panicked = |_| Err(Error::new(ErrorKind::Panicked, "map", "a thread panicked"));
            let ended = |thread: Result<ScopedJoinHandle<'_, _>>| {
                thread.and_then(|thread| thread.join().unwrap_or_else(panicked))
            };
            threads.into_iter().map(ended).collect::<Vec<_>>()
        });
        let reports = first_cause(reports)?;
        output.finish()?;
        Ok(reports)
    }

    /// The pipeline of the device with the index `number`, without a sink.
    fn pipeline<'p>(
        &'p self,
        number: usize,
        source: &'p dyn Source,
        todo: &[Range<u64>],
        cancel: &Cancel,
        on_rows: OnRows<'p>,
    ) -> Pipeline<'p> {
        let counted = AtomicU64::new(0);
        let own = count(todo);
        let advance = move |progress: Progress| {
            let done = progress.rows_done + own - progress.rows;
            on_rows(done.saturating_sub(counted.swap(done, Ordering::Relaxed)));
        };
        let pipeline = self
            .chain
            .stages(Pipeline::on(&self.devices[number]).source(source), self.granule)
            .rows(todo.to_vec())
            .audience(Audience::User)
            .cancel_with(cancel)
            .on_progress(advance);
        let pipeline = self.settings.apply(pipeline, self.memory);
        match &self.calibrations[number] {
            Some(calibration) => pipeline.calibrated(calibration),
            None => pipeline,
        }
    }
}

/// The reports of all devices, or the error of the device that failed first. After that error, the
/// other devices were cancelled.
fn first_cause(ran: Vec<Result<Report>>) -> Result<Vec<Report>> {
    let mut cancelled = None;
    let mut reports = Vec::new();
    for one in ran {
        match one {
            Ok(report) => reports.push(report),
            Err(error) if error.kind() == ErrorKind::Cancelled => cancelled = Some(error),
            Err(error) => return Err(error),
        }
    }
    cancelled.map_or(Ok(reports), Err)
}

/// The sink of one of several pipelines that write the same output. Its `finish` does nothing,
/// because the output is finished after all pipelines have ended.
struct Part<'a>(&'a Output);

impl Sink for Part<'_> {
    fn write(&mut self, rows: Range<u64>, bytes: &[u8]) -> Result<()> {
        self.0.write_part(rows, bytes)
    }

    fn parallel(&self) -> Option<&dyn ParallelSink> {
        Some(self.0)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Maximum number of bytes of the measurement of a link. Of measurements of 16 MiB, the rates
/// differed by 1 %. Measurements of 64 MiB differed by more, and the process took 0.1 s longer
/// (`files-start.txt`).
const CALIBRATION_MAX: u64 = 16 << 20;

/// Measures the link between the host and a device. `None` for an integrated device, which makes no
/// copies. The number of copied bytes is large enough for a stable rate, and small compared to the
/// run.
fn calibrate(device: &Device, layout: Layout) -> Result<Option<Calibration>> {
    if device.info().integrated {
        return Ok(None);
    }
    let bytes = Bytes((layout.bytes()? / 8).clamp(1 << 20, CALIBRATION_MAX));
    Calibration::measure(device, bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Origin, Step};
    use std::fs;
    use trijet::Select;
    use trijet_io::{Array, Dtype, Fingerprint, Input, Start, Target};
    use trijet_ops::OperationText;

    /// A job in a folder: `in.raw` with `rows` rows of `data`, times 2 plus 1 to `out.raw`.
    struct Files {
        folder: tempfile::TempDir,
        input: Input,
        chain: Chain,
        output: Output,
    }

    impl Files {
        fn new(rows: u64, data: &[u8]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            fs::write(path("in.raw"), data).unwrap();
            let array = Array::new(Dtype::U8, vec![rows, data.len() as u64 / rows]).unwrap();
            let input = Input::open(&path("in.raw"), Some(array.clone())).unwrap();
            let step = Step::Named(OperationText::parse("affine:2,1").unwrap());
            let chain = Chain::new(&[step], &Origin::of(&input)).unwrap();
            let target = Target::new(&path("out.raw"), array, &input).unwrap();
            let run = Fingerprint::new(&input, "affine", &target);
            let output = Output::open(&target, &run, Start::New).unwrap();
            Self { folder, input, chain, output }
        }

        fn written(&self) -> Vec<u8> {
            fs::read(self.folder.path().join("out.raw")).unwrap()
        }
    }

    /// Runs a job over 1000 rows of 64 bytes on several host devices. Returns the output or the
    /// error.
    fn run_on(count: usize, rows_of_input: u64) -> Result<Vec<u8>> {
        let data: Vec<u8> = (0..64_000_u32).map(|n| n.to_le_bytes()[0] % 100).collect();
        let mut files = Files::new(1000, &data);
        let devices: Vec<_> =
            (0..count).map(|_| Device::open(Select::Host(0))).collect::<Result<_>>().unwrap();
        let settings = Settings { chunk: Some(Bytes(640)), ..Settings::default() };
        let Files { folder, input, chain, output } = &mut files;
        let job = Job::new(chain, &devices, input.layout(), 1, settings).unwrap();
        if rows_of_input < 1000 {
            let file = fs::File::options().write(true).open(folder.path().join("in.raw")).unwrap();
            file.set_len(rows_of_input * 64).unwrap();
        }
        let todo = job.todo(output).rows;
        let reports = job.run(input, output, &todo, &Cancel::new(), &|_| ())?;
        assert_eq!(reports.len(), count);
        assert_eq!(reports.iter().map(|report| report.rows).sum::<u64>(), 1000);
        Ok(files.written())
    }

    #[test]
    fn granules_of_which_a_part_is_missing_are_computed_whole() {
        let all = [0..1, 3..5, 8..9, 30..31, 33..35];
        assert_eq!(whole(&all, 1, &(0..35)), all);
        assert_eq!(whole(&all, 4, &(0..35)), [0..12, 28..35]);
        assert_eq!(whole(&[5..6, 13..14], 4, &(4..14)), [4..8, 12..14]);
        assert_eq!(whole(&[6..7, 13..14], 4, &(6..20)), [6..8, 12..16]);
        assert!(whole(&[], 4, &(0..35)).is_empty());
    }

    #[test]
    fn several_devices_give_the_bytes_of_one() {
        let one = run_on(1, 1000).unwrap();
        assert_eq!((one[0], one[99], one.len()), (1, 199, 64_000));
        for count in [2, 3] {
            assert!(run_on(count, 1000).unwrap() == one, "{count} devices");
        }
    }

    /// An earlier run has written parts of granules. A job of larger granules computes the whole
    /// granules again.
    #[test]
    fn an_output_with_parts_of_granules_is_completed() {
        let mut files = Files::new(35, &[1; 70]);
        let Files { input, chain, output, .. } = &mut files;
        output.write(1..3, &[3; 4]).unwrap();
        output.write(8..34, &[3; 52]).unwrap();
        let devices = [Device::open(Select::Host(0)).unwrap()];
        let job = Job::new(chain, &devices, input.layout(), 4, Settings::default()).unwrap();
        let todo = job.todo(output);
        assert_eq!(todo, Todo { rows: vec![0..8, 32..35], kept: 24 });
        job.run(input, output, &todo.rows, &Cancel::new(), &|_| ()).unwrap();
        assert_eq!(files.written(), [3; 70]);
    }

    /// The second device cannot read its rows. The first device is stopped, and the error names the
    /// cause.
    #[test]
    fn a_device_that_fails_ends_the_others() {
        let error = run_on(2, 600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("device 1"), "{error}");
    }
}
