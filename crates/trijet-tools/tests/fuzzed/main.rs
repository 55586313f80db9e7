//! The fuzz target of this crate over its seeds and mutations of them.

mod allocations;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn a_trace_of_allocations_of_any_bytes_is_read_or_refused() {
    replay("allocations", 4000, allocations::check);
}
