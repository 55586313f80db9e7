//! The verdicts about programs that ran on a GPU, from the calls that were recorded there; and files
//! that are damaged.

#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

use std::path::Path;
use trijet_calls::{GrowingCalls, Judged, judge};
use trijet_ledger::base::prng::Prng;
use trijet_ledger::check::Assume;

fn bytes(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(format!("{name}.calls"))).unwrap()
}

fn judged(name: &str) -> Judged {
    let mut all = judge(&bytes(name), Assume::DriverObserved).unwrap();
    assert_eq!(all.len(), 1, "{name}");
    all.remove(0)
}

/// For each file: the classes of the errors, those of the possible conflicts, and the launches of
/// kernels.
const VERDICTS: [(&str, &[&str], &[&str], u64); 10] = [
    ("race", &["RACE/RAW"], &[], 0),
    ("ordered", &[], &[], 0),
    ("kernel", &[], &["RACE/RAW"], 1),
    ("pool", &["LIFETIME/FREE-RACES-USE"], &[], 0),
    ("legacy", &[], &[], 0),
    ("graph", &["RACE/RAW"], &["RACE/RAW"], 0),
    ("2d", &["RACE/WAW"], &[], 0),
    ("torch-race", &["RACE/RAW"], &[], 0),
    ("torch-ordered", &[], &[], 0),
    ("torch-kernel", &[], &["RACE/RAW"], 1),
];

#[test]
fn programs_on_a_gpu_have_the_verdicts_of_their_mistakes() {
    for (name, errors, possible, kernels) in VERDICTS {
        let found = judged(name);
        let classes: Vec<_> = found.errors.iter().map(|one| one.class.code()).collect();
        assert_eq!(classes, errors, "{name}");
        let classes: Vec<_> = found.possible.iter().map(|one| one.finding.class.code()).collect();
        assert_eq!(classes, possible, "{name}");
        assert_eq!((found.kernels, found.is_whole()), (kernels, true), "{name}");
    }
}

/// The rows of a copy of a rectangle are what it writes, and not the bytes between them.
#[test]
fn the_bytes_of_a_finding_are_those_that_both_calls_access() {
    let found = judged("2d");
    let ranges = &found.errors[0].ranges;
    assert_eq!((ranges.len(), ranges[0].start, ranges[0].end), (1, 2048, 2560));
    let origin = found.origin(&found.errors[0]).unwrap();
    assert!(origin.starts_with("4194304 bytes by cuMemAlloc"), "{origin}");
}

#[test]
fn calls_are_named_by_the_symbols_of_the_program() {
    let found = judged("race");
    let finding = &found.errors[0];
    let frames = |party| &found.stack(party).unwrap().frames;
    let has = |frames: &[String], name| frames.iter().any(|frame| frame.starts_with(name));
    assert!(has(frames(finding.first.as_ref().unwrap()), "upload in race+0x"));
    assert!(has(frames(&finding.second), "download in race+0x"));
    let found = judged("torch-kernel");
    let kernel = &found.possible[0].finding.second;
    assert!(kernel.label.starts_with("at::native::vectorized_elementwise_kernel"), "{kernel:?}");
    assert!(found.stack(kernel).unwrap().frames[0].contains("at::native::gpu_kernel_impl_nocast"));
}

#[test]
fn files_of_processes_may_be_joined_and_cut() {
    let (one, other) = (bytes("race"), bytes("ordered"));
    let joined = judge(&[one.clone(), other].concat(), Assume::DriverObserved).unwrap();
    assert_eq!(joined.iter().map(|one| one.errors.len()).collect::<Vec<_>>(), [1, 0]);
    for cut in 0..one.len() {
        match judge(&one[..cut], Assume::DriverObserved) {
            Ok(all) => assert!(!all[0].is_whole(), "cut at {cut}"),
            Err(error) => assert!(cut < 24, "cut at {cut}: {error}"),
        }
    }
}

/// Each finding is in the look after its second call, and in no other one.
#[test]
fn calls_that_come_in_pieces_have_the_verdict_of_the_whole() {
    for (name, errors, possible, _) in VERDICTS {
        let whole = bytes(name);
        let count = judged(name).calls;
        for seed in 0..20 {
            let (mut draw, mut rest) = (Prng::new(seed), &whole[..]);
            let mut growing = GrowingCalls::new(Assume::DriverObserved);
            let (mut found, mut looks) = ([Vec::new(), Vec::new()], 0);
            while !rest.is_empty() {
                let bytes = 1 + draw.below(rest.len() as u64);
                let (piece, after) = rest.split_at(usize::try_from(bytes).unwrap());
                growing.push(piece).unwrap();
                rest = after;
                let Some(look) = growing.look() else { continue };
                found[0].extend(look.errors.iter().map(|one| one.class.code()));
                found[1].extend(look.possible.iter().map(|one| one.finding.class.code()));
                looks += 1;
            }
            assert_eq!(found, [errors.to_vec(), possible.to_vec()], "{name}, seed {seed}");
            assert_eq!(growing.calls(), count, "{name}, seed {seed}");
            assert!(growing.look().is_none() && looks <= 2, "{name}, seed {seed}");
        }
    }
}

/// Each damaged file is an error or a verdict.
#[test]
fn damaged_files_are_errors_or_verdicts() {
    for (name, ..) in VERDICTS {
        let whole = bytes(name);
        for seed in 0..300 {
            let (mut damaged, mut draw) = (whole.clone(), Prng::new(seed));
            for _ in 0..=draw.below(8) {
                let at = usize::try_from(draw.below(damaged.len() as u64)).unwrap();
                damaged[at] = u8::try_from(draw.below(256)).unwrap();
            }
            // The seed of a panic is the number of times that this line ran before it.
            let verdict = judge(&damaged, Assume::DriverObserved);
            println!("{name}, seed {seed}: {}", verdict.is_ok());
        }
    }
}
