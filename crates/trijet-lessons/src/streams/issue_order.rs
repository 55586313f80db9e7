//! Chunks on several streams, issued step by step or chunk by chunk.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::job::{Job, Step};
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;

pub(crate) const LESSON: Lesson = Lesson {
    name: "issue-order",
    topic: Topic::Streams,
    texts: &["guide:496", "guide:520", "guide:541"],
    claim: "The order of issue decides whether chunks overlap, except on GPUs with several hardware queues.",
    forms: &["step by step", "chunk by chunk"],
    expect: Expect::Equal,
    flag: Flag::None("no order is slower"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Job::boxed(ground, ground.size.chunks, ground.size.streams, issue),
};

/// The chunks are issued in groups, with one chunk of each group for each stream. Each stream
/// therefore has the same operations in both forms. First form: the uploads of a group, then the
/// kernels of the group, then its downloads. Last form: all steps of a chunk, then the next chunk.
fn issue(job: &mut Job, form: Form) -> Result<()> {
    let (streams, words) = (job.streams.len(), job.words);
    if form != BAD {
        return job.in_turn(streams, words);
    }
    let chunks: Vec<usize> = (0..job.source.len() / words).collect();
    for group in chunks.chunks(streams) {
        for step in Step::ALL {
            for chunk in group {
                job.enqueue(chunk % streams, step, part(*chunk, words))?;
            }
        }
    }
    Ok(())
}
