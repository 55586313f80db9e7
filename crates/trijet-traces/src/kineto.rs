//! Traces of PyTorch's profiler (Kineto): a JSON object in the form of Chrome's traces, also
//! compressed by gzip.
//!
//! An event with a duration is an operation of the GPU, a call of the CUDA runtime or driver, a
//! wait, an overhead, or a range that the program named. Times are microseconds. The events of
//! operators, of Python functions and of other devices are passed over, and events are read one
//! after another, so the memory grows with the activities alone. [`stacks`] reads the file again
//! for the functions around a few moments.

mod event;
mod parts;
mod sink;
mod stacks;

pub use stacks::StackMoment;

use self::event::TraceEvent;
use self::parts::TraceParts;
use self::sink::EventSink;
use self::stacks::Stacks;
use crate::{TraceError, plain};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;
use std::io::Read;
use trijet_ledger::trace::activity::ProcessTrace;

/// Reads the trace of a process, or the traces that [`crate::chrome`] wrote.
///
/// ```
/// let json = r#"{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "scale", "ts": 10.5,
///     "dur": 2, "args": {"device": 0, "context": 1, "stream": 7, "correlation": 3}}]}"#;
/// let traces = trijet_traces::kineto::read(json.as_bytes())?;
/// assert_eq!(traces[0].activities.len(), 1);
/// assert_eq!(traces[0].name(&traces[0].activities[0]), "scale");
/// # Ok::<(), trijet_traces::TraceError>(())
/// ```
///
/// # Errors
/// The file cannot be read, is no JSON, or has no events of a GPU and no calls of CUDA.
pub fn read(file: impl Read) -> Result<Vec<ProcessTrace>, TraceError> {
    let mut found = TraceParts::default();
    read_into(file, &mut found)?;
    found.traces()
}

/// The names of the functions of Python around each of these moments, the innermost first. Empty
/// for a moment without a stack, and for all if the profiler did not record stacks.
///
/// ```
/// use trijet_traces::kineto::{StackMoment, stacks};
/// let json = r#"[{"ph": "X", "cat": "python_function", "name": "train.py(3): step", "ts": 10,
///     "dur": 5, "tid": 7}]"#;
/// let moments = [12_000, 20_000].map(|at| StackMoment { thread: 7, at });
/// let found = stacks(json.as_bytes(), &moments)?;
/// assert_eq!(found, [vec!["train.py(3): step"], vec![]]);
/// # Ok::<(), trijet_traces::TraceError>(())
/// ```
///
/// # Errors
/// The file cannot be read, or is no JSON.
pub fn stacks(file: impl Read, moments: &[StackMoment]) -> Result<Vec<Vec<String>>, TraceError> {
    let mut found = Stacks::of(moments);
    read_into(file, &mut found)?;
    Ok(found.names())
}

/// Reads the events and fields of a file.
fn read_into(file: impl Read, sink: &mut dyn EventSink) -> Result<(), TraceError> {
    let mut json = serde_json::Deserializer::from_reader(plain(file)?);
    let read = TraceObject(sink).deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Io => TraceError::Io(error.into()),
        _ => TraceError::Format(format!("the file is no trace of PyTorch's profiler: {error}")),
    })
}

/// The object of the file.
struct TraceObject<'a>(&'a mut dyn EventSink);

impl<'de> DeserializeSeed<'de> for TraceObject<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TraceObject<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents, or an array of events")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(EventArray(self.0))?,
                name if sink::FIELDS.contains(&name) => {
                    let value: Value = map.next_value()?;
                    self.0.field(name, value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, seq: S) -> Result<(), S::Error> {
        EventArray(self.0).visit_seq(seq)
    }
}

/// The array of events.
struct EventArray<'a>(&'a mut dyn EventSink);

impl<'de> DeserializeSeed<'de> for EventArray<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventArray<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<(), S::Error> {
        while let Some(event) = seq.next_element::<TraceEvent>()? {
            self.0.event(&event);
        }
        Ok(())
    }
}
