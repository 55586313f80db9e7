//! Uploads, kernels, copies between GPUs and downloads at once: a model in two halves.
//!
//! GPU 0 computes a micro-batch, while the next one is uploaded and the previous one is copied to
//! GPU 1, which computes an earlier one. Memory between layers is freed, and no copy waits for it.
//! The trace shows exposed copies. `four_engines host plain FILE.html` writes a page.

mod common;

use common::{Outcome, run, sample, verify};
use std::process::ExitCode;
use trijet::kernels::AFFINE_F32;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::html::Page;
use trijet::trace::summary::{Settings, summarize};
use trijet::training::{LayerPipeline, MicroBatchOrder};
use trijet::{Device, Trace};

const COUNT: usize = 12;
const LEN: usize = 40_009;

fn example(devices: &[Device]) -> Outcome<String> {
    let halves = [devices[0].clone(), devices[devices.len() - 1].clone()];
    let (up, down) = (halves[0].stream()?, halves[1].stream()?);
    let (mut host, mut output) = (devices[0].pinned(COUNT * LEN)?, devices[0].pinned(COUNT * LEN)?);
    (0..).zip(host.write()?.iter_mut()).for_each(|(i, x)| *x = sample(i));
    let mut slots = [up.alloc::<f32>(LEN)?, up.alloc(LEN)?, down.alloc(LEN)?, down.alloc(LEN)?];
    let mut pipeline = LayerPipeline::new(&halves, &[LEN], MicroBatchOrder::Forward, COUNT)?;
    devices.iter().try_for_each(|device| device.load(&AFFINE_F32))?;
    devices[0].start_trace(&up)?;
    pipeline.run(|work| {
        let part = work.micro_batch * LEN..(work.micro_batch + 1) * LEN;
        let slot = &mut slots[2 * work.stage + work.micro_batch % 2];
        if work.stage == 0 {
            up.copy(&host.slice(part.clone()), &mut *slot)?;
        }
        let mut between = work.stream.alloc(LEN)?;
        let x = work.input.unwrap_or_else(|| slot.view());
        work.stream.launch(&AFFINE_F32, (2.0, 1.0, x, &mut between))?;
        let y = work.output.unwrap_or_else(|| slot.view_mut());
        work.stream.launch(&AFFINE_F32, (1.0, 2.0, &between, y))?;
        if work.stage == 0 { Ok(()) } else { down.copy(&*slot, &mut output.slice_mut(part)) }
    })?;
    devices.iter().try_for_each(Device::synchronize)?;
    let Trace { ops, times, clock_error, .. } = devices[0].take_trace()?;
    let dag = Dag::with_times(&ops, Kernels::Several, times);
    let settings = Settings { times, clock_error, ..Settings::default() };
    let summary = summarize(&ops, &dag, &settings, vec![]);
    verify("results", &output.read()?, |i| 4.0 * sample(i) + 9.0)?;
    let told: Vec<_> = summary.metrics.devices.iter().map(ToString::to_string).collect();
    if let Some(path) = std::env::args().nth(3) {
        let (title, summary, ops) = ("four engines".into(), Some(summary), dag.settle(&ops).into());
        std::fs::write(path, Page { title, summary, ops, ..Page::default() }.render())?;
    }
    Ok(format!("{COUNT} micro-batches; {}", told.join("; ")))
}

fn main() -> ExitCode {
    run(example)
}
