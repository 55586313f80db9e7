//! Scratch memory of the largest size for all batches, or of each batch's own size.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk};
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "scratch",
    topic: Topic::Memory,
    texts: &["examples:85", "notes:215"],
    claim: "Scratch memory of each batch's own size, allocated in stream order, takes no more time \
            than memory of the largest size.",
    forms: &["scratch memory of the largest size", "scratch memory of each batch's size"],
    expect: Expect::Equal,
    flag: Flag::None("both forms are right, and only their memory differs"),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, false, batches),
};

/// The sizes of four consecutive batches, as divisors of the largest size. Together, the four
/// batches have the data of two chunks.
const DIVISORS: [usize; 4] = [4, 1, 2, 4];

/// Two lanes take the batches in turn. Bad: each lane has scratch memory of the largest size. Good:
/// each batch allocates and frees scratch memory of its own size.
fn batches(desk: &mut Desk, form: Form) -> Result<()> {
    let lanes = [&desk.free.up, &desk.free.run];
    let Arrays { source, landed } = &mut desk.arrays;
    let mut largest = match form {
        BAD => vec![lanes[0].alloc::<u32>(desk.words)?, lanes[1].alloc(desk.words)?],
        _ => Vec::new(),
    };
    let (mut at, all) = (0, landed.len());
    for (batch, divisor) in DIVISORS.iter().cycle().enumerate() {
        let len = desk.words / divisor;
        if at + len > all {
            break;
        }
        let (s, slot) = (lanes[batch % 2], &mut desk.slots[batch % 2]);
        let mut own = None;
        let scratch = match largest.get_mut(batch % 2) {
            Some(scratch) => scratch,
            None => own.insert(s.alloc(len)?),
        };
        s.copy(&source.slice(at..at + len), &mut slot.x.slice_mut(..len))?;
        let rounds = desk.rounds - 1;
        s.launch(&WORK, (rounds, slot.x.slice(..len), scratch.slice_mut(..len)))?;
        s.launch(&WORK, (1, scratch.slice(..len), slot.y.slice_mut(..len)))?;
        s.copy(&slot.y.slice(..len), &mut landed.slice_mut(at..at + len))?;
        at += len;
    }
    Ok(())
}
