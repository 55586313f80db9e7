//! Streams, events and host functions, and the one door of operations to the driver:
//! `LaneRef::enqueue`.
//!
//! Every operation gets a position on its lane. From the positions alone follows which waits an
//! operation needs, so that using a buffer on another stream is always in order, and a wait that
//! is already implied is never issued.

mod activity;
mod around;
pub mod builder;
pub(crate) mod callback;
pub(crate) mod default;
pub mod device;
pub(crate) mod enqueue;
pub mod event;
pub(crate) mod lane;
mod names;
pub(crate) mod noted;
pub mod queue;
pub mod ready;
pub(crate) mod recorders;
pub mod recording;
pub mod signal;
pub(crate) mod thread;
pub(crate) mod timing;
pub(crate) mod track;
pub(crate) mod universe;
mod wait;
mod waiting;

pub use builder::Builder;
pub use device::{Device, Select};
pub use event::{Event, Ticket, TimedEvent};
pub use queue::Stream;
pub use ready::Ready;
pub use recording::{Recording, TimesFrom};
pub use signal::Signal;
pub use universe::{DroppedWait, OrderingCounts};
