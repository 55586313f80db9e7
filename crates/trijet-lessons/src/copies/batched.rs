//! Many small copies, or a few batches of copies.
#![forbid(unsafe_code)]

use crate::common::pieces::batched;
use crate::lesson::{Expect, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "batched-copies",
    topic: Topic::Copies,
    texts: &["notes:205"],
    claim: "Small copies to separate arrays are faster as a batch.",
    forms: &["small copies", "batches"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::SmallCopy),
    timed: None,
    rows: Rows::Engines,
    unmodelled: None,
    make: batched,
};
