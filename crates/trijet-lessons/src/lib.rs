//! Lessons about overlap on a GPU. A lesson is a claim of a teaching text and two or more forms of
//! one program: the first form does what the claim warns against, the last form does what it
//! recommends. The forms run on the device at hand, their results are compared with the values that
//! the host computes, and the verdict on the claim follows from the measured times alone.
//!
//! Each lesson is one file in a folder of its topic. `common` has what they share.

mod common;
mod copies;
mod default_streams;
mod devices;
mod events;
mod kernels;
mod lesson;
mod list;
mod manual;
mod memory;
mod outcome;
mod pipelines;
mod races;
mod said;
mod scheduling;
mod show;
mod streams;
mod verdict;

pub use common::ground::{Ground, Size, differs, hash, part, source, spoil, work_ms, wrong};
pub use lesson::{BAD, Expect, Form, GOOD, Lesson, Program, Rows, Topic};
pub use list::{lessons, named};
pub use manual::unordered;
pub use outcome::{FormOutcome, Outcome};
pub use said::{Flag, Said};
pub use verdict::{Judgement, Verdict};
