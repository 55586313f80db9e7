//! The order inside of graphs, from the calls that capture them or add their nodes.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod calls;
mod captured;
mod explicit;
mod random;
mod recorded;
