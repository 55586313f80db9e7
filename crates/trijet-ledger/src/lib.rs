//! The ledger of a run, and the modules that read it. Reading a ledger needs no device.
//!
//! A **ledger** has one entry for each call of a run that orders work or uses memory. The crate
//! `trijet` writes it. This crate defines it, and imports no driver, no stream and no memory, so a
//! reader judges a run by the entries alone:
//!
//! - [`check`] finds races, wrong lifetimes and deadlocks.
//! - [`trace`] has times, summaries, timelines and files.
//! - [`profile`] judges traces of programs that do not use Trijet, from their activities.
//!
//! Programs use [`check`] and [`trace`] through the crate `trijet`, which exports them under the
//! same names.
#![forbid(unsafe_code)]

/// The items that the readers and the library share. `trijet` exports the items that programs use.
#[doc(hidden)]
pub mod base;
pub mod check;
pub mod laws;
pub mod profile;
pub mod trace;
