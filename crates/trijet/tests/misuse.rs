//! What the compiler must refuse, each case beside the form that it takes.
//!
//! A folder of `misuse/` is a case: `bad.rs`, the compiler's answer in `bad.stderr`, and `fixed.rs`,
//! which compiles and runs. The two differ in a few lines, so that the case fails for its own
//! reason. `TRYBUILD=overwrite cargo test --test misuse` writes the answers of another compiler;
//! read the difference before you commit it: the error codes must stay.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines that a case may have of its own, counted in both directions.
const OWN_LINES_MAX: usize = 6;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse");
    let entries = fs::read_dir(folder).expect("the cases lie beside the tests");
    entries.map(|entry| entry.expect("a readable folder").path()).collect()
}

fn text(case: &Path, name: &str) -> String {
    let path = case.join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_compiler_refuses_each_misuse_and_takes_its_fixed_form() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/misuse/*/bad.rs");
    cases.pass("tests/misuse/*/fixed.rs");
}

#[test]
fn a_case_differs_from_its_fixed_form_in_a_few_lines() {
    for case in cases() {
        let (bad, fixed) = (text(&case, "bad.rs"), text(&case, "fixed.rs"));
        let missing = |from: &str, other: &str| {
            from.lines().filter(|line| !other.lines().any(|o| o.trim() == line.trim())).count()
        };
        assert_ne!(bad, fixed, "{}", case.display());
        let own = missing(&bad, &fixed) + missing(&fixed, &bad);
        assert!(own <= OWN_LINES_MAX, "{}: {own} lines of their own", case.display());
    }
}

/// Otherwise a case could fail for want of an import.
#[test]
fn each_misuse_is_one_error_of_the_checks_it_is_about() {
    for case in cases() {
        let answer = text(&case, "bad.stderr");
        let errors: Vec<&str> = answer.lines().filter(|line| line.starts_with("error")).collect();
        assert_eq!(errors.len(), 1, "{}: {errors:?}", case.display());
        for unresolved in ["E0425", "E0432", "E0433", "E0412"] {
            assert!(!errors[0].contains(unresolved), "{}: {errors:?}", case.display());
        }
    }
}
