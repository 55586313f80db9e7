//! Batches through four stages in one stream, or in four streams with events between them.
#![forbid(unsafe_code)]

use crate::common::desk::{Arrays, Chunked, Desk, Slot};
use crate::common::ground::part;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::testing::WORK;
use trijet::{Event, Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "four-streams",
    topic: Topic::Events,
    texts: &["book:472"],
    claim: "Four streams chained by events keep the order of each batch and work on several batches at once.",
    forms: &["one stream", "four streams with events"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::NoOverlap),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: |ground| Chunked::boxed(ground, false, chain),
};

/// A batch is uploaded in stream A, computed by one kernel in stream B and by another kernel in
/// stream C, and downloaded in stream D. Bad: A, B, C and D are the same stream, which needs no
/// events.
fn chain(desk: &mut Desk, form: Form) -> Result<()> {
    let Desk { device, free, slots, arrays, words, chunks, rounds, .. } = desk;
    let Arrays { source, landed } = arrays;
    let [a, b, c, d] = match form {
        BAD => [&free.run; 4],
        _ => [&free.up, &free.run, &free.stray, &free.down],
    };
    let record = |event: &Event, stream| if form == BAD { Ok(()) } else { event.record(stream) };
    let wait = |stream: &Stream, event| if form == BAD { Ok(()) } else { stream.wait(event) };
    let event = || device.event();
    let events = |_| Ok([event()?, event()?, event()?, event()?]);
    let events: Vec<[Event; 4]> = (0..slots.len()).map(events).collect::<Result<_>>()?;
    // Together, the two kernels take as long as the kernel of a chunk in other lessons.
    let half = *rounds / 2;
    for chunk in 0..*chunks {
        let (number, part) = (chunk % slots.len(), part(chunk, *words));
        let [uploaded, first, second, done] = &events[number];
        // The slot is free after the download of its previous batch.
        if chunk >= slots.len() {
            wait(a, done)?;
        }
        let Slot { x, y } = &mut slots[number];
        a.copy(&source.slice(part.clone()), &mut *x)?;
        record(uploaded, a)?;
        wait(b, uploaded)?;
        b.launch(&WORK, (half, &*x, &mut *y))?;
        record(first, b)?;
        wait(c, first)?;
        c.launch(&WORK, (*rounds - half, &*y, &mut *x))?;
        record(second, c)?;
        wait(d, second)?;
        d.copy(&*x, &mut landed.slice_mut(part))?;
        record(done, d)?;
    }
    Ok(())
}
