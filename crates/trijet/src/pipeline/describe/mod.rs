//! The description of a pipeline: its source, its stages, its sink and its options.
#![forbid(unsafe_code)]

pub(super) mod builder;
pub(super) mod cancel;
pub(super) mod host_work;
pub(super) mod progress;
pub(super) mod replay;
pub(super) mod rows;
pub(super) mod sharing;
pub(super) mod sink;
pub(super) mod source;
pub(super) mod stage;
pub(super) mod validate;
