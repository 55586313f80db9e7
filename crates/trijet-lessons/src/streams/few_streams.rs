//! Chunks on a few or on many streams.
#![forbid(unsafe_code)]

use crate::common::job::Job;
use crate::lesson::{Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;

pub(crate) const LESSON: Lesson = Lesson {
    name: "few-streams",
    topic: Topic::Streams,
    texts: &["book:733"],
    claim: "Two or three streams suffice to overlap upload, kernel and download; more streams gain nothing.",
    forms: &["2 streams", "3 streams", "8 streams", "32 streams"],
    expect: Expect::Equal,
    flag: Flag::None("a few streams are right"),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Job::boxed(ground, CHUNKS, STREAMS[STREAMS.len() - 1], streaming),
};

/// The number of streams of each form.
const STREAMS: [usize; 4] = [2, 3, 8, 32];
/// The number of chunks: at least one for each stream.
const CHUNKS: usize = 36;

/// Each stream processes its chunks one after another, as if the stream had one slot.
fn streaming(job: &mut Job, form: Form) -> Result<()> {
    job.in_turn(STREAMS[form], job.words)
}
