//! The description of a pipeline: its source, its stages, its sink and its options.
#![forbid(unsafe_code)]

pub(in crate::pipeline) mod builder;
pub(in crate::pipeline) mod cancel;
pub(in crate::pipeline) mod host_work;
pub(in crate::pipeline) mod progress;
pub(in crate::pipeline) mod replay;
pub(in crate::pipeline) mod rows;
pub(in crate::pipeline) mod sharing;
pub(in crate::pipeline) mod sink;
pub(in crate::pipeline) mod source;
pub(in crate::pipeline) mod stage;
pub(in crate::pipeline) mod validate;
