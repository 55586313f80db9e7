//! A value that the host fetches in each step, as `loss.item()` does.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk, first_half};
use crate::common::ground::part;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "item",
    topic: Topic::Events,
    texts: &["guide:795", "guide:805"],
    claim: "Fetching one value at once in each step makes the steps run one after the other.",
    forms: &[
        "a value fetched at once for each chunk",
        "values copied in the stream, read at the end",
    ],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::SyncCopy),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, true, item),
};

/// Bad: one value of each result is fetched synchronously, as by a program that prints the value.
/// Good: the value is copied in a stream, and read at the end.
fn item(desk: &mut Desk, form: Form) -> Result<()> {
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let slot = &mut desk.slots[slot];
        first_half(&desk.free, desk.rounds, source.slice(part.clone()), slot)?;
        let (value, mut item) = (slot.y.slice(..1), desk.items.slice_mut(chunk..chunk + 1));
        match form {
            BAD => desk.device.copy_now(&value, &mut item)?,
            _ => desk.free.down.copy(&value, &mut item)?,
        }
        desk.free.down.copy(&slot.y, &mut landed.slice_mut(part))?;
    }
    Ok(())
}
