//! A pool that gives free memory back at each wait, or keeps it.
#![forbid(unsafe_code)]

use crate::common::pooled::Pooled;
use crate::lesson::{Expect, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Bytes;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "pool-keeps-nothing",
    topic: Topic::Memory,
    texts: &["notes:86", "notes:92", "examples:209"],
    claim: "A pool with release threshold 0 asks the driver for memory after every wait.",
    forms: &["a pool that keeps nothing", "a pool that keeps its memory"],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::PoolThrash),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model maps memory in no time"),
    make: |ground| Pooled::boxed(ground, |_, _| vec![Bytes(0), Bytes(u64::MAX)]),
};
