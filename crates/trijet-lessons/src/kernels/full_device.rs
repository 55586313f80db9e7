//! Kernels that each fill the device, in one stream or in two.
#![forbid(unsafe_code)]

use crate::common::dealt::{Dealt, DealtKernels};
use crate::lesson::{Expect, Lesson, Rows, Topic};
use crate::said::Flag;

pub(crate) const LESSON: Lesson = Lesson {
    name: "full-device",
    topic: Topic::Kernels,
    texts: &["examples:134", "book:177"],
    claim: "Kernels that each fill the device gain nothing from several streams.",
    forms: &["1 stream", "2 streams"],
    expect: Expect::Equal,
    flag: Flag::None("both forms keep the device equally busy"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: Some("The model runs one kernel at a time"),
    make: |ground| {
        let (words, rounds) = (ground.size.words, ground.rounds);
        let kernels = DealtKernels { count: KERNELS, words, rounds };
        Dealt::of_size(ground, kernels, 2, |dealt, form| dealt.launch_on(form + 1))
    },
};

const KERNELS: usize = 8;
