//! The seeds that a test runs.

use std::ops::Range;

/// The seeds of a test and the number of threads that share them. If the caller asks for seeds, one
/// thread runs them, because the caller decides how many processes run.
pub(crate) fn asked_or(all: Range<u64>) -> (Range<u64>, usize) {
    let Ok(asked) = std::env::var("TRIJET_SEEDS") else {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        return (all, cores);
    };
    let number = |text: &str| text.parse::<u64>().expect("TRIJET_SEEDS is 7 or 0..100");
    let seeds = match asked.split_once("..") {
        Some((start, end)) => number(start)..number(end),
        None => number(&asked)..number(&asked) + 1,
    };
    (seeds, 1)
}
