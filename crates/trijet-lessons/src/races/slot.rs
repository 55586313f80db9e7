//! A slot that an upload fills again while a kernel may still read it.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::race::{Race, SLOTS, in_z};
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "slot-used-again",
    topic: Topic::Races,
    texts: &["guide:361"],
    claim: "A buffer that is used again needs an event back from its last reader.",
    forms: &["a slot used again without a way back", "the upload waits for the kernel of the slot"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::War)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, reused, in_z),
};

/// Bad: the upload of a chunk overwrites a slot that the kernel of an earlier chunk may still read.
fn reused(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let (slot, z) = (&mut race.y[chunk % SLOTS], &mut race.z[chunk]);
        if form == GOOD && chunk >= SLOTS {
            a.wait(&race.second[chunk - SLOTS])?;
        }
        a.copy(&race.source.slice(part(chunk, race.words)), slot)?;
        race.first[chunk].record(a)?;
        b.wait(&race.first[chunk])?;
        b.launch(&WORK, (*rounds, &*slot, z))?;
        race.second[chunk].record(b)?;
    }
    Ok(())
}
