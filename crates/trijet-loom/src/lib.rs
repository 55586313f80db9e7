//! The parts of trijet that threads share without a lock, in every order of their steps that the
//! memory model allows.
//!
//! The code is the library's own file, with loom's atomics. It is a separate package, because under
//! the flag `loom` the library and all dependencies of its tests would be compiled a second time.
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
