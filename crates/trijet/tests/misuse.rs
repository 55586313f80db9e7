//! Programs that the compiler must refuse, each with its accepted form.
//!
//! Each folder of `misuse/` is a case: `bad.rs`, the compiler's errors in `bad.stderr`, and
//! `fixed.rs`, which this test program compiles and runs as well, because one program builds faster
//! than one for each case. The two files differ in a few lines, so that the case fails for its own
//! reason. `TRYBUILD=overwrite cargo test --test misuse` writes the errors of another compiler.
//! Read the difference before you commit it: the error codes must stay.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The most lines by which the two forms may differ, counted in both directions.
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

macro_rules! fixed {
    ($($case:ident)*) => {
        /// The fixed forms that are compiled here.
        const FIXED: &[&str] = &[$(stringify!($case)),*];

        $(mod $case {
            include!(concat!("misuse/", stringify!($case), "/fixed.rs"));

            #[test]
            fn in_its_fixed_form_is_accepted_and_runs() {
                main().expect("it does nothing that may fail");
            }
        })*
    };
}

fixed! {
    a_graph_gets_one_buffer_to_read_and_to_write
    weights_of_a_replay_are_dropped
    a_dynamic_launch_reads_and_writes_one_buffer
    a_host_function_borrows_a_local
    a_host_function_keeps_what_one_thread_owns
    a_kernel_declared_without_a_promise
    a_download_target_read_before_the_scope_ends
    a_pipeline_writes_what_is_read
    a_read_argument_where_the_kernel_writes
    a_reduction_names_nccl_larger_elements
    a_scope_escapes_its_closure
    a_scope_downloads_into_memory_that_is_gone
    a_split_buffer_is_used
    a_view_leaves_the_block_of_its_buffer
    a_vector_is_given_as_a_source
    a_view_outlives_its_buffer
    an_integer_where_the_kernel_takes_a_float
    arguments_of_a_user_defined_type
    elements_of_another_type
    elements_that_are_bool
    elements_that_are_not_declared_plain
    elements_that_are_references
    elements_with_padding
    guard_outlives_a_moved_buffer
    one_buffer_read_and_written_by_a_launch
    overlapping_parts_in_one_launch
    read_guard_alive_while_written
    two_mutable_views
    two_write_guards
    write_guard_alive_while_read
}

#[test]
fn the_fixed_form_of_every_case_is_compiled() {
    let folders = cases();
    let name = |case: &PathBuf| case.file_name().map(|name| name.to_string_lossy().into_owned());
    let folders: BTreeSet<String> = folders.iter().filter_map(name).collect();
    assert_eq!(folders, FIXED.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_compiler_refuses_each_misuse() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*/bad.rs");
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

/// A case must not fail because of a missing import.
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
