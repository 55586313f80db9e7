//! Upload, kernel and download of all chunks in one stream, or in a stream for each engine.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk, step};
use crate::common::ground::part;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "one-stream",
    topic: Topic::Streams,
    texts: &["examples:8", "examples:76", "book:181"],
    claim: "Copies and kernels overlap only if they are in different streams.",
    forms: &["one stream", "a stream for each engine"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::NoOverlap),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, false, one_stream),
};

/// Bad: all chunks in one stream. Good: one stream for each engine.
fn one_stream(desk: &mut Desk, form: Form) -> Result<()> {
    let lanes = match form {
        BAD => [&desk.free.run; 3],
        _ => desk.free.roles(),
    };
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let to = landed.slice_mut(part.clone());
        step(lanes, desk.rounds, source.slice(part), &mut desk.slots[slot], to)?;
    }
    Ok(())
}
