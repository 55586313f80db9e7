//! PTX as text: what it needs from a device and from a launch, and mistakes that the driver reports
//! without a reason, or not at all.
//!
//! The text is scanned and not compiled. Every text can be scanned: a text that is no PTX has no
//! entries. Cubins and fatbins are not scanned.
#![forbid(unsafe_code)]

mod facts;
mod flow;
mod lint;
mod path;
mod scan;
mod shared;
mod tokens;

pub(crate) use facts::{Entry, Module, WaitProof};
pub(crate) use lint::refusal;
pub use lint::{PtxFinding, PtxRule, lint};
pub(crate) use scan::scan;
