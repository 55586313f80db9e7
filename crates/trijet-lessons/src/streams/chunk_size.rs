//! One job, cut into few large or many small chunks.
#![forbid(unsafe_code)]

use crate::common::job::Job;
use crate::lesson::{Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;

pub(crate) const LESSON: Lesson = Lesson {
    name: "chunk-size",
    topic: Topic::Streams,
    texts: &["notes:205", "book:299"],
    claim: "Chunks that are too large do not overlap, and chunks that are too small keep the engines idle.",
    forms: &["1 chunk", "3 chunks", "12 chunks", "96 chunks", "768 chunks"],
    expect: Expect::Between,
    flag: Flag::None("one chunk has nothing to overlap with"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Job::boxed(ground, ground.size.chunks, ground.size.streams, cut),
};

/// The number of chunks of each form. Each number divides the size of the job without a remainder.
const CHUNKS: [usize; 5] = [1, 3, 12, 96, 768];

/// The streams process the chunks in turn.
fn cut(job: &mut Job, form: Form) -> Result<()> {
    job.in_turn(job.streams.len(), job.source.len() / CHUNKS[form])
}
