//! The parts of trijet that threads share without a lock, in every order of their steps that the
//! memory model allows.
//!
//! The modules are files of the library and of `trijet-ledger`, compiled with loom's atomics. They
//! are compiled in a separate package, because the flag `loom` would otherwise compile the library
//! and all dependencies of its tests a second time.
#![forbid(unsafe_code)]

#[cfg(test)]
#[path = "../../trijet-ledger/src/base/atomic.rs"]
pub mod atomic;

#[cfg(test)]
#[path = "../../trijet/src/workers/twin/credits.rs"]
mod credits;
#[cfg(test)]
#[expect(dead_code, reason = "the library asks whether there are tasks")]
#[path = "../../trijet/src/workers/twin/deque.rs"]
mod deque;
#[cfg(test)]
#[expect(dead_code, reason = "the library asks how many are left")]
#[path = "../../trijet/src/workers/twin/range.rs"]
mod range;
#[cfg(test)]
#[path = "../../trijet/src/workers/twin/ring.rs"]
mod ring;
