//! Pools with release thresholds from 0 to no limit, for steps with a known amount of memory. Each
//! form states the memory that the pool keeps after the last wait, and the memory that other
//! processes can then allocate. The driver counts free memory for the whole GPU, so another process
//! sees the same number.
#![forbid(unsafe_code)]

use crate::common::pooled::Pooled;
use crate::lesson::{Expect, Lesson, Rows, Topic};
use crate::said::Flag;
use trijet::Bytes;
use trijet::check::lint::Rule;

pub(crate) const LESSON: Lesson = Lesson {
    name: "threshold",
    topic: Topic::Memory,
    texts: &["examples:209", "notes:98"],
    claim: "The higher the release threshold, the less memory each step must get from the driver; \
            with no limit, it gets none.",
    forms: &[
        "threshold 0",
        "a quarter of the memory of a step",
        "half the memory of a step",
        "the memory of a step",
        "no limit",
    ],
    expect: Expect::Faster,
    flag: Flag::Remark(Rule::PoolThrash),
    timed: None,
    rows: Rows::Engines,
    unmodelled: Some("The model maps memory in no time"),
    make: |ground| Pooled::boxed(ground, thresholds),
};

/// The release threshold of each form. The driver compares the threshold with all memory of the
/// pool, `held`: the scratch memory of a step, `scratch`, and a little memory that stays in use.
fn thresholds(held: Bytes, scratch: Bytes) -> Vec<Bytes> {
    let without = |parts: u64| Bytes(held.0 - parts * scratch.0 / 4);
    vec![Bytes(0), without(3), without(2), held, Bytes(u64::MAX)]
}
