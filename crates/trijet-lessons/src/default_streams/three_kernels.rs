//! Three kernels, the second kernel in the default stream.
#![forbid(unsafe_code)]

use crate::common::ground::{Ground, part};
use crate::common::job::{Job, Step};
use crate::lesson::{Expect, Form, Lesson, Program, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::{Result, StreamOptions};

pub(crate) const LESSON: Lesson = Lesson {
    name: "three-kernels",
    topic: Topic::DefaultStreams,
    texts: &["research:213", "guide:47"],
    claim: "A kernel in the legacy default stream keeps kernels of blocking streams before and after it apart.",
    forms: &["the legacy default stream", "the per-thread default stream", "non-blocking streams"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::LegacyBarrier),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: three,
};

const KERNELS: usize = 3;

fn three(ground: &Ground) -> Result<Box<dyn Program>> {
    let device = &ground.device;
    let blocking = || device.stream_with(StreamOptions::new().blocking());
    // For each form, the streams of the three kernels.
    let streams = [
        [blocking()?, device.legacy_stream()?, blocking()?],
        [blocking()?, device.per_thread_stream()?, blocking()?],
        [device.stream()?, device.stream()?, device.stream()?],
    ];
    let streams = streams.into_iter().flatten().collect();
    Ok(Box::new(Job::new(ground, KERNELS, streams, launches)?))
}

/// Enqueues an upload, a kernel and a download three times. Each of the three groups has its own
/// stream.
fn launches(job: &mut Job, form: Form) -> Result<()> {
    for kernel in 0..KERNELS {
        for step in Step::ALL {
            job.enqueue(form * KERNELS + kernel, step, part(kernel, job.words))?;
        }
    }
    Ok(())
}
