//! Three stages in three streams, without and with events between them.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::race::{Race, landed};
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "stages-without-events",
    topic: Topic::Races,
    texts: &["guide:752", "guide:780"],
    claim: "Stages in streams of their own need an event between them, or a stage reads what is not there yet.",
    forms: &["stages without events", "an event after each stage"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::Raw)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, stages, |race| landed(race, 2 * race.rounds)),
};

/// Three stages, each in its own stream. Bad: no event orders the stages.
fn stages(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    for chunk in 0..race.chunks {
        let (x, y, z) = (&race.x[chunk], &mut race.y[chunk], &mut race.z[chunk]);
        a.launch(&WORK, (*rounds, x, &mut *y))?;
        if form == GOOD {
            race.first[chunk].record(a)?;
            b.wait(&race.first[chunk])?;
        }
        b.launch(&WORK, (*rounds, &*y, &mut *z))?;
        if form == GOOD {
            race.second[chunk].record(b)?;
            c.wait(&race.second[chunk])?;
        }
        c.copy(z, &mut race.landed.slice_mut(part(chunk, race.words)))?;
    }
    Ok(())
}
