//! A copy that reads the result of a download before the download is complete.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::race::{Race, landed};
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "landing-read-early",
    topic: Topic::Races,
    texts: &["examples:66"],
    claim: "The destination of an asynchronous copy may be read only after the copy.",
    forms: &["a landing read before it has landed", "the reader waits for the download"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::Raw)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, landing, |race| landed(race, race.rounds)),
};

/// Bad: a second copy reads the result of a download in page-locked memory before the download is
/// complete.
fn landing(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let y = &mut race.y[chunk];
        a.launch(&WORK, (*rounds, &race.x[chunk], &mut *y))?;
        a.copy(y, &mut race.aside[chunk])?;
        race.first[chunk].record(a)?;
    }
    for chunk in 0..race.chunks {
        if form == GOOD {
            b.wait(&race.first[chunk])?;
        }
        let mut place = race.landed.slice_mut(part(chunk, race.words));
        b.copy(&race.aside[chunk], &mut place)?;
    }
    Ok(())
}
