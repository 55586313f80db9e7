//! Eight host threads that share one default stream, or that each have their own default stream.
#![forbid(unsafe_code)]

use crate::common::dealt::Dealt;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::testing::{Script, WORK, script};
use trijet::{Buffer, Result};

pub(crate) const LESSON: Lesson = Lesson {
    name: "eight-threads",
    topic: Topic::DefaultStreams,
    texts: &["guide:85", "examples:196"],
    claim: "Kernels of several host threads run at once if each thread has its own default stream.",
    forms: &["the legacy default stream", "a default stream for each thread"],
    expect: Expect::Faster,
    flag: Flag::None("one stream for all threads is allowed"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: Some("The model runs one kernel at a time"),
    make: |ground| Dealt::boxed(ground, THREADS * KERNELS, ground.small_rounds, threads),
};

const THREADS: usize = 8;
/// The number of kernels of each thread.
const KERNELS: usize = 4;

/// Bad: all threads launch on the legacy stream. Good: each thread launches on its per-thread
/// default stream.
fn threads(dealt: &mut Dealt, form: Form) -> Result<()> {
    let Dealt { device, pairs, rounds, .. } = dealt;
    let (device, rounds) = (&*device, *rounds);
    let launch = |own: &mut [(Buffer<u32>, Buffer<u32>)]| {
        let stream = match form {
            BAD => device.legacy_stream()?,
            _ => device.per_thread_stream()?,
        };
        own.iter_mut().try_for_each(|(x, y)| stream.launch(&WORK, (rounds, &*x, y)))?;
        stream.synchronize()
    };
    let mut outcomes: Vec<Result<()>> = (0..THREADS).map(|_| Ok(())).collect();
    let mut threads: Vec<Script<'_>> = Vec::new();
    for (own, outcome) in pairs.chunks_mut(KERNELS).zip(&mut outcomes) {
        threads.push(Box::new(move || *outcome = launch(own)));
    }
    script(device, threads);
    outcomes.into_iter().collect()
}
