//! The fuzz target of this crate, over its seeds and mutations of them. The module `codecs` is the
//! body of the target in `fuzz/`, which `cargo xtask fuzz` runs under libFuzzer.

mod codecs;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn any_bytes_are_a_block_or_refused() {
    replay::replay("codecs", 40_000, codecs::check);
}
