//! Lessons about events and waits of the host.
#![forbid(unsafe_code)]

pub(crate) mod four_streams;
pub(crate) mod item;
pub(crate) mod wait_after_each;
pub(crate) mod waits_in_turn;
