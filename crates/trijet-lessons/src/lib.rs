//! Lessons about overlap on a GPU. A lesson is a claim of a teaching text, and a program with two
//! or more forms. The first form does what the claim warns against, and the last form does what the
//! claim recommends. The forms run on the device of this machine. Their results are compared with
//! the values that the host computes. The verdict on the claim follows from the measured times
//! alone.
//!
//! Each lesson is one file in the folder of its topic. The folder `common` has the parts that
//! several lessons share.

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

pub use common::ground::{Ground, Size, differs, part, source, spoil, work_ms, wrong};
pub use lesson::{BAD, Expect, Form, GOOD, Lesson, Program, Rows, Topic};
pub use list::{lessons, named};
pub use manual::unordered;
pub use outcome::{FormOutcome, Outcome};
pub use said::{Flag, Said};
pub use verdict::{Judgement, Verdict};
