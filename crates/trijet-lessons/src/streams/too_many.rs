//! A stream for each kernel, or a few streams in turn.
#![forbid(unsafe_code)]

use crate::common::dealt::Dealt;
use crate::lesson::{BAD, Expect, Form, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;
use trijet::{Result, Stream};

pub(crate) const LESSON: Lesson = Lesson {
    name: "too-many-streams",
    topic: Topic::Streams,
    texts: &["examples:198", "guide:866"],
    claim: "A stream for each kernel costs more than it gains; a few streams suffice.",
    forms: &["a stream for each kernel", "a few streams in turn"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::TooManyStreams),
    timed: None,
    rows: Rows::Streams,
    unmodelled: None,
    make: |ground| Dealt::boxed(ground, ground.size.many_streams, 1, streaming),
};

/// Bad: a new stream for each kernel. Good: the kernels use a few streams alternately. The time of
/// each program includes the creation of its streams.
fn streaming(dealt: &mut Dealt, form: Form) -> Result<()> {
    let count = if form == BAD { dealt.many } else { dealt.streams.len() };
    let streams: Vec<Stream> = (0..count).map(|_| dealt.device.stream()).collect::<Result<_>>()?;
    dealt.launch(&streams)
}
