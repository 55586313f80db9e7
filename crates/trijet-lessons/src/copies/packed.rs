//! Many small copies, or one copy of packed memory.
#![forbid(unsafe_code)]

use crate::common::pieces::packed;
use crate::lesson::{Expect, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "small-copies",
    topic: Topic::Copies,
    texts: &["notes:205"],
    claim: "Many small copies take longer than one copy of the same bytes, packed by the host.",
    forms: &["small copies", "one copy of packed memory"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::SmallCopy),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: packed,
};
