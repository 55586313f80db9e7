//! A pipeline of many short kernels. Its runs are either ordinary runs or launches of a graph.
#![forbid(unsafe_code)]

use crate::results::Results;
use crate::rounds::{Side, Value, round, warm_up};
use crate::setting::Setting;
use std::time::Instant;
use trijet::pipeline::{Prepared, Replay, Replayed, Schedule};
use trijet::testing::WORK;
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Pipeline, Result};
use trijet_tools::work::hash;

const ROW: usize = 256;
/// The number of elements of a chunk, and the number of chunks of a run.
const CHUNK: usize = 4 << 10;
const CHUNKS: usize = 8;
/// The number of kernels of a chunk.
const KERNELS: u32 = 30;

/// The number of rounds of the kernel with this number. Two consecutive kernels have different
/// numbers of rounds, so the result shows whether the last kernel ran last.
fn rounds(kernel: u32) -> u32 {
    1 + kernel % 2
}

/// A pipeline with its data.
struct Job {
    x: PinnedBuffer<u32>,
    y: PinnedBuffer<u32>,
    pipeline: Prepared<'static, u32, u32>,
}

fn wrong(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench chains", cause)
}

impl Job {
    fn new(device: &Device, replay: Replay) -> Result<Self> {
        let mut x = device.pinned::<u32>(CHUNKS * CHUNK)?;
        x.write()?.iter_mut().zip(0..).for_each(|(word, n)| *word = n);
        let mut y = device.pinned::<u32>(CHUNKS * CHUNK)?;
        let pipeline = Pipeline::on(device)
            .stage::<u32, u32>(|s, x, mut y| {
                // Each kernel writes all results, so each kernel runs after the previous kernel.
                (1..=KERNELS).try_for_each(|n| s.launch(&WORK, (rounds(n), x, y.reborrow())))
            })
            .schedule(Schedule::RoleStreams)
            .chunk(Bytes(CHUNK as u64 * 4))
            .replay(replay)
            .prepare(&x, &mut y, ROW)?;
        Ok(Self { x, y, pipeline })
    }

    /// The time of a run, after its results were compared.
    fn sample(&mut self) -> Result<Vec<Value>> {
        self.y.write()?.fill(0);
        let start = Instant::now();
        self.pipeline.run(&self.x, &mut self.y)?;
        let value = start.elapsed().as_secs_f64() * 1e6;
        let (x, y) = (self.x.read()?, self.y.read()?);
        if x.iter().zip(y.iter()).step_by(97).any(|(x, y)| hash(rounds(KERNELS), *x) != *y) {
            return Err(wrong("a result of a pipeline is wrong".to_owned()));
        }
        Ok(vec![Value { what: "a run".to_owned(), unit: "us".to_owned(), value }])
    }
}

/// Measures all ways to run the pipeline. The ways take turns.
pub(super) fn pipelines(
    setting: &Setting<'_>,
    samples: usize,
    results: &mut Results,
) -> Result<()> {
    let job = |replay| Job::new(setting.device, replay);
    let (mut never, mut automatic, mut fixed) =
        (job(Replay::Never)?, job(Replay::Automatic)?, job(Replay::Fixed)?);
    let mut sides = [
        Side::new("ordinary runs", || never.sample()),
        Side::new("automatic replay", || automatic.sample()),
        Side::new("fixed replay", || fixed.sample()),
    ];
    warm_up(&mut sides, &setting.cancel)?;
    for number in 0..samples {
        round(&mut sides, number, &setting.cancel)?;
    }
    for side in &sides {
        for figure in &side.figures {
            let launches = KERNELS as usize * CHUNKS;
            let what =
                format!("pipeline of {launches} short kernels, {}: {}", side.name, figure.what);
            results.push(what, &figure.unit, figure.samples.clone(), None);
        }
    }
    drop(sides);
    match automatic.pipeline.replayed() {
        Replayed::Yes { .. } => Ok(()),
        other => Err(wrong(format!("the automatic replay used no graph: {other}"))),
    }
}
