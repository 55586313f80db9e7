//! What is said of events: threads that share one without an order, and waits for nothing.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::explain::find;
use super::order::Doubt;
use super::{Checker, Class, about};

impl Checker {
    /// Law A45.
    pub(super) fn doubt(&mut self, doubt: Doubt) {
        let Some(first) = find(&self.parties, doubt.first).cloned() else { return };
        let mut finding = about(Class::EventUnordered, self.this(), vec!["A45"]);
        let (one, other) = (first.thread, finding.second.thread);
        let event = self.options.names.event(doubt.event);
        finding.known = format!(
            "nothing orders thread {other} after #{} of thread {one}: what {event} stands for is up \
             to the timing of the host",
            first.op
        );
        finding.fix = format!(
            "hand over from thread {one} to thread {other} between the two calls, for example by a \
             signal, or use one event for each hand-over"
        );
        finding.first = Some(first);
        self.add(finding);
    }

    /// Law A5.
    pub(super) fn wait_for_nothing(&mut self, index: u64, event: u64) {
        let mut finding = about(Class::WaitUnrecorded, self.this(), vec!["A5"]);
        let event = self.options.names.event(event);
        finding.known = format!("{event} stood for nothing at #{index}, so this is no wait");
        finding.fix = format!("move the record of {event} before the wait");
        self.add(finding);
    }
}
