//! The description of a pipeline: its source, its stages, its sink and its options.
#![forbid(unsafe_code)]

pub(crate) mod builder;
pub(crate) mod cancel;
pub(super) mod host_work;
pub(super) mod progress;
pub(super) mod replay;
pub(super) mod rows;
pub(super) mod sharing;
pub(crate) mod sink;
pub(crate) mod source;
pub(super) mod stage;
pub(super) mod validate;
