//! The lowest layer: identifiers, units, errors, the byte-range map, the vector clock and the
//! ledger. It has no I/O and no unsafe code, and imports no other layer.
#![forbid(unsafe_code)]

pub(crate) mod atomic;
pub(crate) mod audience;
pub(crate) mod crowd;
pub mod dag;
pub(crate) mod edges;
pub(crate) mod error;
pub(crate) mod hash;
pub(crate) mod id;
pub(crate) mod interval;
pub(crate) mod ledger;
pub(crate) mod lint;
mod op;
pub(crate) mod panic;
pub(crate) mod prng;
pub(crate) mod span;
pub(crate) mod table;
pub(crate) mod times;
pub(crate) mod units;
pub(crate) mod vector_clock;
