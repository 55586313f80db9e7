//! Lessons about streams.
#![forbid(unsafe_code)]

pub(crate) mod basic_streams;
pub(crate) mod chunk_size;
pub(crate) mod few_streams;
pub(crate) mod host_work;
pub(crate) mod issue_order;
pub(crate) mod one_stream;
pub(crate) mod priority;
pub(crate) mod too_many;
