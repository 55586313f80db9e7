//! The entries of a ledger as numbers, so that a script judges the run again after a change of its
//! reader.
//!
//! The script, `profile/what_if/order.js`, has the rules of the checker for the entries that this
//! module codes. A ledger with other entries is *not judged*, so the script never has a wrong
//! verdict. The tests compare the same rules in Rust (`judge`) with the checker.
//!
//! The bytes of each block are cut at the ends of all accesses into *cells*, so that an access uses
//! whole cells. Blocks of one heap share their cells.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod cells;
#[cfg(test)]
mod change;
mod entries;
#[cfg(test)]
pub(crate) mod judge;
mod refusal;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use entries::{CodedEntry, CodedLedger, CodedUse};
pub(crate) use refusal::NotJudged;
