//! Five kernels on one or two streams, with host work between the launches.
#![forbid(unsafe_code)]

use crate::common::dealt::Dealt;
use crate::common::ground::source;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use std::hint::black_box;
use trijet::Result;
use trijet::testing::WORK;
use trijet_tools::work::hash;

pub(crate) const LESSON: Lesson = Lesson {
    name: "basic-streams",
    topic: Topic::Streams,
    texts: &["book:21", "book:29"],
    claim: "Kernels of two streams overlap, and the code of the host runs meanwhile.",
    forms: &["five kernels on one stream", "five kernels on two streams"],
    expect: Expect::Faster,
    flag: Flag::None("the order of the kernels in one stream may be intended"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: Some("The model runs one kernel at a time"),
    make: |ground| Dealt::boxed(ground, LAUNCHES.len(), ground.small_rounds, five),
};

/// The launches in their order. For each launch: the stream in the form with two streams, and the
/// number of words that the host computes after the launch. The kernels are ker_1, ker_A, ker_B,
/// ker_2 and ker_3.
const LAUNCHES: [(usize, usize); 5] = [(0, 4), (1, 0), (0, 0), (1, 4), (0, 0)];

/// Bad: all kernels in one stream. Good: three kernels in one stream, two kernels in another
/// stream. A launch returns before its kernel has run. In both forms, the host therefore computes
/// while kernels run.
fn five(dealt: &mut Dealt, form: Form) -> Result<()> {
    let Dealt { streams, pairs, rounds, .. } = dealt;
    for ((x, y), (stream, words)) in pairs.iter_mut().zip(LAUNCHES) {
        let stream = if form == BAD { 0 } else { stream };
        streams[stream].launch(&WORK, (*rounds, &*x, y))?;
        for word in 0..words {
            black_box(hash(*rounds, source(word)));
        }
    }
    Ok(())
}
