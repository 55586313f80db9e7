//! An event of a trace of PyTorch's profiler, as far as it is read.

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
    /// The name of a thread.
    pub(super) name: Option<Value>,
    /// The arguments, if a tool that converted the file has put them one level down.
    args: Option<Box<EventArguments>>,
}

impl TraceEvent {
    /// The arguments, wherever they are.
    pub(super) fn arguments(&self) -> Option<&EventArguments> {
        let outer = self.args.as_ref()?;
        Some(outer.args.as_deref().unwrap_or(outer))
    }
}
