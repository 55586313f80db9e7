//! A small kernel in the legacy default stream between steps in blocking streams.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk, first_half};
use crate::common::ground::part;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "stray-kernel",
    topic: Topic::DefaultStreams,
    texts: &["examples:53", "research:213"],
    claim: "A kernel in the legacy default stream waits for all blocking streams and holds them back.",
    forms: &["a stray kernel in the legacy stream", "non-blocking streams"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::LegacyBarrier),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, false, legacy),
};

/// Bad: each step launches a small kernel in the legacy stream, and the other streams are blocking.
/// Good: the small kernel has its own stream, and all streams are non-blocking.
fn legacy(desk: &mut Desk, form: Form) -> Result<()> {
    let lanes = match form {
        BAD => &desk.fenced,
        _ => &desk.free,
    };
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let slot = &mut desk.slots[slot];
        first_half(lanes, desk.rounds, source.slice(part.clone()), slot)?;
        lanes.stray.launch(&WORK, (1, &desk.stray.x, &mut desk.stray.y))?;
        lanes.down.copy(&slot.y, &mut landed.slice_mut(part))?;
    }
    Ok(())
}
