//! Lessons about pipelines: stages that hand items on.
#![forbid(unsafe_code)]

pub(crate) mod loader;
pub(crate) mod modes;
pub(crate) mod three_scores;
pub(crate) mod vision_language;
