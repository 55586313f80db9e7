//! A value fetched on the default stream while a non-blocking stream computes it.
#![forbid(unsafe_code)]

use crate::common::ground::differs;
use crate::common::race::Race;
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};
use trijet::testing::WORK;

pub(crate) const LESSON: Lesson = Lesson {
    name: "fetched-too-early",
    topic: Topic::Races,
    texts: &["guide:138", "guide:805"],
    claim: "A copy on the default stream does not wait for a non-blocking stream.",
    forms: &[
        "a value fetched too early on the default stream",
        "the default stream waits for an event",
    ],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::Raw)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, too_early, items),
};

/// Bad: a value is fetched on the legacy stream while another stream computes it.
fn too_early(race: &mut Race, form: Form) -> Result<()> {
    for chunk in 0..race.chunks {
        let y = &mut race.y[chunk];
        race.a.launch(&WORK, (race.rounds, &race.x[chunk], &mut *y))?;
        if form == GOOD {
            race.first[chunk].record(&race.a)?;
            race.legacy.wait(&race.first[chunk])?;
        }
        let last = race.words - 1;
        race.device.copy_now(&y.slice(last..), &mut race.items.slice_mut(chunk..chunk + 1))?;
    }
    Ok(())
}

fn items(race: &mut Race) -> Result<Option<String>> {
    let words = race.words;
    Ok(differs(&race.items.read()?, race.rounds, |index| index * words + words - 1))
}
