//! An event of a trace of PyTorch's profiler, as far as it is read.

use crate::microseconds::nanoseconds;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An event. A process or a thread may be a number or a text, and a time any number.
#[derive(Debug, Deserialize)]
pub(super) struct TraceEvent {
    #[serde(default)]
    pub(super) ph: String,
    #[serde(default)]
    pub(super) cat: String,
    #[serde(default)]
    pub(super) name: String,
    pub(super) pid: Option<Value>,
    pub(super) tid: Option<Value>,
    pub(super) ts: Option<Box<RawValue>>,
    pub(super) dur: Option<Box<RawValue>>,
    pub(super) args: Option<EventArguments>,
}

/// The arguments that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventArguments {
    pub(super) device: Option<Value>,
    pub(super) context: Option<Value>,
    pub(super) stream: Option<Value>,
    pub(super) correlation: Option<Value>,
    pub(super) bytes: Option<Value>,
    pub(super) cuda_sync_kind: Option<Value>,
    /// The stream that recorded the event for which a stream waits.
    pub(super) wait_on_stream: Option<Value>,
    /// The correlation number of the call that recorded the event.
    pub(super) wait_on_cuda_event_record_corr_id: Option<Value>,
    /// The number of the event.
    pub(super) wait_on_cuda_event_id: Option<Value>,
    /// The name of a thread.
    pub(super) name: Option<Value>,
    /// The arguments, if a tool that converted the file has put them one level down.
    args: Option<Box<EventArguments>>,
}

/// The start of an event and its end, on the clock of the file. An event without a length has no
/// end.
pub(super) type EventTimes = (i64, Option<i64>);

impl TraceEvent {
    /// The times. `None` if one of them is missing or wrong.
    pub(super) fn times(&self) -> Option<EventTimes> {
        let begin = self.ts.as_deref().and_then(|time| nanoseconds(time.get()))?;
        let end = match self.dur.as_deref() {
            Some(length) => Some(begin.checked_add(nanoseconds(length.get())?)?),
            None => None,
        };
        Some((begin, end))
    }

    /// The arguments, wherever they are.
    pub(super) fn arguments(&self) -> Option<&EventArguments> {
        let outer = self.args.as_ref()?;
        Some(outer.args.as_deref().unwrap_or(outer))
    }
}

/// A number of a field that may have another value. -1 stands for none in Kineto.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

pub(super) fn small(value: Option<&Value>) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
