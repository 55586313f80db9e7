//! A download into host memory that an upload may still read.
#![forbid(unsafe_code)]

use crate::common::race::{Race, in_y};
use crate::lesson::{Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Result;
use trijet::check::{Conflict, FindingClass};

pub(crate) const LESSON: Lesson = Lesson {
    name: "download-into-flight",
    topic: Topic::Races,
    texts: &["guide:361"],
    claim: "Host memory that an upload reads may be written only after the upload.",
    forms: &["a download into memory in flight", "the download waits for the upload"],
    expect: Expect::Race,
    flag: Flag::Finding(FindingClass::Race(Conflict::War)),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Race::boxed(ground, in_flight, |race| in_y(race, 0)),
};

/// Bad: a download writes host memory that an upload may still read.
fn in_flight(race: &mut Race, form: Form) -> Result<()> {
    let Race { a, b, .. } = race;
    for chunk in 0..race.chunks {
        let aside = &mut race.aside[chunk];
        a.copy(aside, &mut race.y[chunk])?;
        if form == GOOD {
            race.first[chunk].record(a)?;
            b.wait(&race.first[chunk])?;
        }
        b.copy(&race.z[chunk], aside)?;
    }
    Ok(())
}
