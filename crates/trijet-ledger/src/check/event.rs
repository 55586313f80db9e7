//! Findings about events: unordered calls of two threads about one event, and waits for an event
//! that was never recorded.
#![forbid(unsafe_code)]

use super::explain::{Context, find};
use super::hazard::{Finding, FindingClass, Party};
use super::order::Doubt;

impl Context<'_> {
    /// The finding for two unordered calls about one event (law A45). `second` is the current
    /// entry.
    pub(super) fn doubt(&self, second: Party, doubt: Doubt) -> Option<Finding> {
        let first = find(self.parties, doubt.first)?.clone();
        let mut finding = Finding::new(FindingClass::EventUnordered, second, vec!["A45"]);
        let (one, other) = (first.thread, finding.second.thread);
        let event = self.names.event(doubt.event);
        finding.known = format!(
            "nothing orders thread {other} after #{} of thread {one}: the timing of the host \
             decides which record of {event} counts",
            first.op
        );
        finding.fix = format!(
            "order the two calls, for example with a signal from thread {one} to thread {other}, \
             or use one event for each hand-over"
        );
        finding.first = Some(first);
        Some(finding)
    }

    /// The finding for a wait that has no effect, because its event was never recorded (law A5).
    /// `wait` is the current entry.
    pub(super) fn wait_for_nothing(&self, wait: Party, event: u64) -> Finding {
        let index = wait.op;
        let mut finding = Finding::new(FindingClass::WaitUnrecorded, wait, vec!["A5"]);
        let event = self.names.event(event);
        finding.known =
            format!("{event} had not been recorded at #{index}, so the wait has no effect");
        finding.fix = format!("move the record of {event} before the wait");
        finding
    }
}
