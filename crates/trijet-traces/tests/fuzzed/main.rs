//! The readers of traces of other tools, over seeds and mutations of them. The modules are also the
//! bodies of the targets in `fuzz/`, which `cargo xtask fuzz` runs under libFuzzer.

mod kineto;
mod nsys;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn any_bytes_are_a_trace_of_pytorchs_profiler_or_refused() {
    replay("kineto", 2000, kineto::check);
}

#[test]
fn any_bytes_are_an_export_of_nsight_systems_or_refused() {
    replay("nsys", 1000, nsys::check);
}
