//! Deliberate faults, for measuring the tests: `cargo xtask mutants` builds the tests once with
//! `--cfg mutants`, switches one fault on per run, and says which test fails. In every other build
//! the switch is the constant `false`.
#![forbid(unsafe_code)]

/// Whether this is the run of mutant `id`, which does `what`.
#[cfg(not(mutants))]
#[inline(always)]
pub(crate) const fn on(id: u32, what: &'static str) -> bool {
    let (_, _) = (id, what);
    false
}

/// Whether this is the run of mutant `id`, which does `what`.
#[cfg(mutants)]
pub(crate) fn on(id: u32, _what: &'static str) -> bool {
    use std::sync::LazyLock;
    static CHOSEN: LazyLock<Option<u32>> = LazyLock::new(|| {
        let chosen = std::env::var("TRIJET_MUTANT").ok()?;
        Some(chosen.parse().expect("TRIJET_MUTANT is the number of a mutant"))
    });
    *CHOSEN == Some(id)
}
