//! Lessons about pipelines: stages that hand items to other stages.
#![forbid(unsafe_code)]

pub(crate) mod loader;
pub(crate) mod modes;
pub(crate) mod three_scores;
pub(crate) mod vision_language;
