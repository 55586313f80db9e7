//! A batch that overwrites memory that a copy of the previous batch still reads.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::race::{Race, SLOTS, landed};
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "overtaken-copy",
    topic: Topic::Races,
    texts: &["book:1030"],
    claim: "A batch may overwrite its output only after the copy of the batch before has read it.",
    forms: &["one output for all batches", "two outputs, each use waits for the previous"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::War)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, overtaken, |race| landed(race, race.rounds)),
};

/// Each step computes a result, copies the result on the device, and downloads the copy. Bad: all
/// steps use the same arrays, and do not wait for the previous step. Good: the steps use two pairs
/// of arrays alternately, and each use of an array waits for the previous use of the array.
fn overtaken(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    let slots = if form == GOOD { SLOTS } else { 1 };
    for chunk in 0..race.chunks {
        let (y, z) = (&mut race.y[chunk % slots], &mut race.z[chunk % slots]);
        let back = chunk.checked_sub(slots).filter(|_| form == GOOD);
        if let Some(back) = back {
            a.wait(&race.second[back])?;
        }
        a.launch(&WORK, (*rounds, &race.x[chunk], &mut *y))?;
        race.first[chunk].record(a)?;
        b.wait(&race.first[chunk])?;
        if let Some(back) = back {
            b.wait(&race.third[back])?;
        }
        b.copy(y, z)?;
        race.second[chunk].record(b)?;
        c.wait(&race.second[chunk])?;
        c.copy(z, &mut race.landed.slice_mut(part(chunk, race.words)))?;
        race.third[chunk].record(c)?;
    }
    Ok(())
}
