//! The stacks of Python functions at moments of a trace, from a second reading of its file.
//!
//! The profiler writes a function of Python as an event of its thread, from its call to its end.
//! The stack of a moment is every such event around it. Only these are kept.

use super::event::{TraceEvent, small};
use super::sink::EventSink;
use crate::cut;
use serde_json::Value;

/// Maximum number of functions of a stack. The outermost functions of a deeper stack are left out.
const FRAMES_MAX: usize = 32;

/// A moment of a host thread, on the clock of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackMoment {
    /// The number of the thread.
    pub thread: u32,
    /// The nanoseconds from the start of the clock.
    pub at: i64,
}

/// A function around a moment: its length, and its name.
type Frame = (i64, String);

/// The stacks of some moments so far.
#[derive(Debug)]
pub(super) struct Stacks<'a> {
    moments: &'a [StackMoment],
    frames: Vec<Vec<Frame>>,
}

impl<'a> Stacks<'a> {
    pub(super) fn of(moments: &'a [StackMoment]) -> Self {
        Self { moments, frames: vec![Vec::new(); moments.len()] }
    }

    /// The names of the functions of each moment, the innermost first.
    pub(super) fn names(self) -> Vec<Vec<String>> {
        let names = |frames: Vec<Frame>| frames.into_iter().map(|(_, name)| name).collect();
        self.frames.into_iter().map(names).collect()
    }
}

impl EventSink for Stacks<'_> {
    fn event(&mut self, event: &TraceEvent) {
        if event.ph != "X" || event.cat != "python_function" {
            return;
        }
        let Some((begin, Some(end))) = event.times() else { return };
        let thread = small(event.tid.as_ref());
        for (moment, frames) in self.moments.iter().zip(&mut self.frames) {
            if moment.thread != thread || !(begin..=end).contains(&moment.at) {
                continue;
            }
            // A function that lasts longer is further outside.
            let place = frames.partition_point(|(length, _)| *length <= end - begin);
            frames.insert(place, (end - begin, cut(&event.name)));
            frames.truncate(FRAMES_MAX);
        }
    }

    fn field(&mut self, _: &str, _: Value) {}
}
