//! Lessons about order that a program must make itself.
#![forbid(unsafe_code)]

pub(crate) mod in_flight;
pub(crate) mod landing;
pub(crate) mod overtaken;
pub(crate) mod slot;
pub(crate) mod stages;
pub(crate) mod too_early;
pub(crate) mod two_readers;
