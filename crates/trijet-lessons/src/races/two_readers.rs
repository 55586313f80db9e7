//! Two readers of one array that record the same event.
#![forbid(unsafe_code)]

use crate::common::ground::part;
use crate::common::race::{Race, in_z};
use crate::lesson::{BAD, Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "one-event-for-two",
    topic: Topic::Races,
    texts: &["book:444"],
    claim: "A second record of an event replaces the first, so each reader needs an event of its own.",
    forms: &["one event for two readers", "an event for each reader"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::War)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, lost_reader, in_z),
};

/// Two readers of one array, and a writer. Bad: both readers record the same event, so the second
/// record replaces the first, and the writer waits for one reader only.
fn lost_reader(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, c, rounds, .. } = race;
    let [array, scratch, ..] = &mut race.y[..] else { return Ok(()) };
    for chunk in 0..race.chunks {
        if chunk > 0 {
            c.wait(&race.second[chunk - 1])?;
            if form == GOOD {
                c.wait(&race.third[chunk - 1])?;
            }
        }
        c.copy(&race.source.slice(part(chunk, race.words)), &mut *array)?;
        race.first[chunk].record(c)?;
        a.wait(&race.first[chunk])?;
        b.wait(&race.first[chunk])?;
        a.launch(&WORK, (*rounds, &*array, &mut race.z[chunk]))?;
        race.second[chunk].record(a)?;
        b.launch(&WORK, (1, &*array, &mut *scratch))?;
        match form {
            BAD => race.second[chunk].record(b)?,
            _ => race.third[chunk].record(b)?,
        }
    }
    Ok(())
}
