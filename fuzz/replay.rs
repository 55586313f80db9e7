//! Runs of the fuzz targets in `cargo test`, without a fuzzer: all seeds of a target, then
//! mutations of the seeds, which are the same in every run. `cargo xtask damage` runs many more
//! mutations.

use std::fs;
use std::path::Path;
use trijet::testing::Prng;

/// Bytes that parsers often handle wrongly.
const NOTABLE: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'9', b'{'];

/// Prints the input if the test panics.
struct PrintOnPanic<'a>(&'a str, String, &'a [u8]);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("`{}` fails with {}: b\"{}\"", self.0, self.1, self.2.escape_ascii());
        }
    }
}

/// Runs `check` with the seeds of `target`, and with `mutations` inputs that are mutated seeds.
///
/// # Panics
/// When the target has no seeds, and when `check` does.
pub(crate) fn replay(target: &str, mutations: u64, check: fn(&[u8])) {
    let seeds = seeds(target);
    for (name, bytes) in &seeds {
        let _print = PrintOnPanic(target, format!("the seed {name}"), bytes);
        check(bytes);
    }
    let many = std::env::var("TRIJET_MUTATIONS").ok();
    let mutations = many.map_or(mutations, |text| text.parse().expect("a number of mutations"));
    for number in 0..mutations {
        let bytes = mutated(&mut Prng::new(number), &seeds);
        let _print = PrintOnPanic(target, format!("mutation {number}"), &bytes);
        check(&bytes);
    }
}

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    // Both crates with this module are two folders below the root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(&root).expect("a target has a folder of seeds");
    let mut seeds: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let entry = entry.expect("a readable folder");
            let bytes = fs::read(entry.path()).expect("a readable seed");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    assert!(!seeds.is_empty(), "{} is empty", root.display());
    seeds.sort();
    seeds
}

/// A seed with one to four edits.
fn mutated(prng: &mut Prng, seeds: &[(String, Vec<u8>)]) -> Vec<u8> {
    let below = |prng: &mut Prng, bound: usize| {
        usize::try_from(prng.below(bound as u64)).expect("below a usize")
    };
    let mut bytes = seeds[below(prng, seeds.len())].1.clone();
    for _ in 0..=prng.below(4) {
        let at = below(prng, bytes.len() + 1);
        let end = at + below(prng, bytes.len() - at + 1).min(16);
        match prng.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => bytes.insert(at, NOTABLE[below(prng, NOTABLE.len())]),
            4 if at < bytes.len() => bytes[at] ^= 1 << prng.below(8),
            4 => {}
            _ => {
                let other = &seeds[below(prng, seeds.len())].1;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at.min(other.len())..]);
            }
        }
    }
    bytes
}
