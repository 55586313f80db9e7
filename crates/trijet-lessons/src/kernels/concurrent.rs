//! Many kernels of a few blocks, in 1, 8 and 32 streams.
#![forbid(unsafe_code)]

use crate::common::dealt::{Dealt, DealtKernels};
use crate::lesson::{Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;

pub(crate) const LESSON: Lesson = Lesson {
    name: "concurrent",
    topic: Topic::Kernels,
    texts: &["examples:28", "examples:131"],
    claim: "Kernels in different streams run at the same time, so more streams need less time.",
    forms: &["1 stream", "8 streams", "32 streams"],
    expect: Expect::Faster,
    flag: Flag::None("kernels in one stream may depend on each other"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: Some("The model runs one kernel at a time"),
    make: |ground| {
        let (words, rounds) = (ground.size.small_words, ground.small_rounds);
        let kernels = DealtKernels { count: KERNELS, words, rounds };
        Dealt::of_size(ground, kernels, STREAMS[2], concurrent)
    },
};

const KERNELS: usize = 64;
const STREAMS: [usize; 3] = [1, 8, 32];

fn concurrent(dealt: &mut Dealt, form: Form) -> Result<()> {
    dealt.launch_on(STREAMS[form])
}
