//! The lowest floor: identifiers, units, errors, the byte-range map, the vector clock and the
//! ledger. It has no I/O and no unsafe code, and imports no other floor. `edges` is private to this
//! crate: the library derives the order of a run by itself.
#![forbid(unsafe_code)]

pub mod atomic;
pub mod audience;
pub(crate) mod crowd;
pub mod dag;
pub mod dtype;
pub(crate) mod edges;
pub mod error;
pub(crate) mod hash;
pub mod id;
pub mod interval;
pub mod ledger;
pub mod lint;
pub mod numbering;
mod op;
mod op_kind;
pub mod panic;
pub mod prng;
pub mod ring;
pub mod span;
pub mod table;
pub mod times;
pub mod units;
pub mod vector_clock;
