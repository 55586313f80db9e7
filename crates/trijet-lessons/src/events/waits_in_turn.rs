//! A wait for each stream before the next launch, or launches first and waits last.
#![forbid(unsafe_code)]

use crate::common::dealt::Dealt;
use crate::lesson::{BAD, Expect, Form, GOOD, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::testing::WORK;
use trijet::{Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "waits-in-turn",
    topic: Topic::Events,
    texts: &["research:207", "examples:165"],
    claim: "A host that waits for a stream before it launches on the next one runs the streams in turn.",
    forms: &["a wait for each stream in turn", "launches first, waits last"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::OverSync),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Dealt::boxed(ground, 4 * ground.size.streams, ground.small_rounds, waiting),
};

/// Bad: the host waits for each stream before it launches on the next stream. Good: the host
/// launches on all streams, and then waits for each stream.
fn waiting(dealt: &mut Dealt, form: Form) -> Result<()> {
    let Dealt { streams, pairs, rounds, .. } = dealt;
    for (number, (x, y)) in pairs.iter_mut().enumerate() {
        let stream = &streams[number % streams.len()];
        stream.launch(&WORK, (*rounds, &*x, y))?;
        if form == BAD {
            stream.synchronize()?;
        }
    }
    if form == GOOD {
        streams.iter().try_for_each(Stream::synchronize)?;
    }
    Ok(())
}
