//! The verdicts about kernels whose accesses were seen, from the calls and accesses that were
//! recorded on a GPU.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::path::Path;
use trijet_calls::{GrowingCalls, Judged, judge};
use trijet_ledger::base::prng::Prng;
use trijet_ledger::check::{Assume, Finding};

/// The programs of `kernel_races.cu`, each with what must be found: `1` an error, `p` an error or a
/// possible conflict, `0` nothing, `u` anything.
fn programs() -> Vec<(String, String)> {
    let source = std::fs::read_to_string(folder().join("kernel_races.cu")).unwrap();
    let of_line = |line: &str| {
        let mut parts = line.trim().strip_prefix("{\"")?.split('"');
        let (name, expected) = (parts.next()?, parts.nth(1)?);
        Some((name.to_owned(), expected.to_owned()))
    };
    source.lines().filter_map(of_line).collect()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels"))
}

fn judged(name: &str) -> Option<Judged> {
    let bytes = std::fs::read(folder().join(format!("{name}.calls"))).ok()?;
    let mut all = judge(&bytes, Assume::DriverObserved).unwrap();
    assert_eq!(all.len(), 1, "{name}");
    all.pop()
}

#[test]
fn races_of_kernels_are_errors_and_their_cures_have_none() {
    let mut count = 0;
    for (name, expected) in programs() {
        let Some(one) = judged(&name) else {
            assert_eq!(name, "one_of_many");
            continue;
        };
        count += 1;
        assert!(one.is_whole(), "{name}: {:?}", one.troubles);
        // A kernel of which nothing was seen counts as not seen, as if it had not been patched.
        let unseen = u64::from(name == "map_store_missing");
        assert_eq!(
            (one.seen_kernels + unseen, one.seen_graphs),
            (one.kernels, one.graphs),
            "{name}"
        );
        let found = (!one.errors.is_empty(), !one.possible.is_empty());
        let is_right = match expected.as_str() {
            "1" => found.0,
            "p" => found.0 || found.1,
            "0" => found == (false, false),
            _ => expected == "u",
        };
        assert!(is_right, "{name}: {expected}, but {:?} {:?}", one.errors, one.possible);
    }
    assert_eq!(count, 46);
}

/// Two pieces of the museum have a race that only kernels show.
#[test]
fn pieces_of_the_museum_whose_kernels_were_seen_are_errors() {
    for piece in ["callback_stream", "next_step"] {
        let race = judged(&format!("{piece}.race")).unwrap();
        assert_eq!(race.seen_kernels, 2, "{piece}");
        assert!(!race.errors.is_empty(), "{piece}");
        for error in &race.errors {
            let parties = [error.first.as_ref().unwrap(), &error.second];
            assert!(parties.iter().any(|party| race.is_seen(party)), "{piece}: {error:?}");
        }
        let cured = judged(&format!("{piece}.cured")).unwrap();
        assert_eq!(cured.seen_kernels, 2, "{piece}");
        assert!(cured.errors.is_empty() && cured.possible.is_empty(), "{piece}");
    }
}

/// The part of a graph that a kernel reads too early, after a launch of the graph that it follows.
#[test]
fn the_bytes_of_a_race_are_those_that_both_kernels_access() {
    let one = judged("graph_missing_again").unwrap();
    assert_eq!(one.errors.len(), 1);
    let error = &one.errors[0];
    assert!(one.is_seen(&error.second) && one.is_seen(error.first.as_ref().unwrap()));
    let range = &error.ranges[0];
    // 1024 floats from the middle of the allocation on, without the edges of the granules.
    let middle = 2 << 20;
    assert_eq!((range.start, range.end), (middle + 255, middle + 4096 - 255));
}

/// The accesses of a kernel are in the file after the call, so a launch at the end of a piece is not
/// judged before the next piece.
#[test]
fn calls_that_are_read_in_pieces_have_the_errors_of_the_whole() {
    let mut held_back = 0;
    for (name, _) in programs() {
        let Some(whole) = judged(&name) else { continue };
        let bytes = std::fs::read(folder().join(format!("{name}.calls"))).unwrap();
        for seed in 0..8 {
            let (mut draw, mut rest) = (Prng::new(seed), &bytes[..]);
            let mut growing = GrowingCalls::new(Assume::DriverObserved);
            let mut errors = Vec::new();
            while !rest.is_empty() {
                let length = 1 + draw.below(rest.len() as u64);
                let (piece, after) = rest.split_at(usize::try_from(length).unwrap());
                growing.push(piece).unwrap();
                rest = after;
                held_back += u32::from(growing.is_waiting());
                errors.extend(growing.look().into_iter().flat_map(|one| one.errors));
            }
            let told = |all: &[Finding]| all.iter().map(|one| one.class.code()).collect::<Vec<_>>();
            assert_eq!(told(&errors), told(&whole.errors), "{name}, seed {seed}");
            assert_eq!(growing.calls(), whole.calls, "{name}, seed {seed}");
            assert!(!growing.is_waiting(), "{name}, seed {seed}");
        }
    }
    assert!(held_back > 20, "{held_back}");
}
