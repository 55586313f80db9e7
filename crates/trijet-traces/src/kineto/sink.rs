//! The receiver of the events and fields of a file.

use super::event::TraceEvent;
use crate::chrome::PROCESSES;
use serde_json::Value;

/// The fields of a file that are read, apart from its events.
pub(super) const FIELDS: [&str; 3] = ["distributedInfo", "baseTimeNanoseconds", PROCESSES];

/// A receiver of the events of a file, in their order.
pub(super) trait EventSink {
    fn event(&mut self, event: &TraceEvent);
    /// Takes one of [`FIELDS`].
    fn field(&mut self, name: &str, value: Value);
}
