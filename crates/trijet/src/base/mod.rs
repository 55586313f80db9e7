//! The lowest layer: identifiers, units, errors, the byte-range map, the vector clock and the
//! ledger. It has no I/O and no unsafe code, and imports no other layer.
#![forbid(unsafe_code)]

pub(crate) mod atomic;
pub mod clocks;
pub mod dag;
pub(crate) mod edges;
pub mod error;
pub(crate) mod hash;
pub mod id;
pub mod interval;
pub mod ledger;
pub mod lint;
mod op;
pub(crate) mod panic;
pub mod prng;
pub mod span;
pub(crate) mod table;
pub mod units;
pub mod vector_clock;
