//! A wait of the host after each chunk, or events between the uses of a slot.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk, step};
use crate::common::ground::part;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "wait-after-each",
    topic: Topic::Events,
    texts: &["examples:9", "guide:842"],
    claim: "A host that waits after each step keeps the engines idle; events keep the order without the host.",
    forms: &["a wait for the device after each chunk", "events"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::OverSync),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, false, over_sync),
};

/// Bad: the host waits for the device after each chunk. Good: the library inserts events, so that
/// each use of a slot waits for the previous use of the slot.
fn over_sync(desk: &mut Desk, form: Form) -> Result<()> {
    let lanes = desk.free.roles();
    let Arrays { source, landed } = &mut desk.arrays;
    for chunk in 0..desk.chunks {
        let (slot, part) = (chunk % desk.slots.len(), part(chunk, desk.words));
        let to = landed.slice_mut(part.clone());
        step(lanes, desk.rounds, source.slice(part), &mut desk.slots[slot], to)?;
        if form == BAD {
            desk.device.synchronize()?;
        }
    }
    Ok(())
}
