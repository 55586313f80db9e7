//! The handles of a program: devices, streams, events, tickets, signals and futures.
#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod builder;
mod completion;
mod decay;
pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod foreign;
pub(crate) mod memory;
mod options;
mod pool_choice;
pub(crate) mod ready;
mod record;
pub(crate) mod shared;
pub(crate) mod signal;
#[expect(clippy::module_inception, reason = "a file is named after the one type that it holds")]
pub(crate) mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod ticket;
pub(crate) mod watched;

pub use crate::order::domain::{DroppedWait, OrderingCounts};
pub use builder::DeviceBuilder;
pub use device::{Device, Select};
pub use event::{Event, TimedEvent};
pub use memory::{HeapStats, MemoryStats};
pub use options::StreamOptions;
pub use pool_choice::PoolChoice;
pub use ready::Ready;
pub use signal::Signal;
pub use stream::Stream;
pub use ticket::Ticket;
