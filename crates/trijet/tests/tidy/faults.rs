//! The faults of `cargo xtask mutants`: each rewrite matches its place in the sources once, and the
//! sources contain no switch of a fault.

#[path = "../../../../xtask/src/mutants/faults.rs"]
mod rewrites;

use crate::files::LIBRARY;
use crate::source::{line_of, mask, occurrences};
use crate::{File, Finding, demand_none, files, lines};

const TABLE: &str = "xtask/src/mutants/faults.txt";

/// The faults of a table that do not match the sources among `files`.
fn misplaced(table: &File, files: &[File]) -> Vec<Finding> {
    let read = |name: &str| {
        let mut found = files.iter().filter(|file| file.in_library() == Some(name));
        found.next().map(|file| file.text.clone())
    };
    let objections = match rewrites::parse(&table.text) {
        Ok(faults) => rewrites::apply(&faults, read).1,
        Err(objection) => vec![objection],
    };
    objections.into_iter().map(|(line, what)| table.finding(line, what)).collect()
}

/// Switches of faults in the sources.
fn switches(file: &File) -> Vec<Finding> {
    if file.in_library().is_none() {
        return Vec::new();
    }
    let code = mask(&file.text);
    let found = occurrences(&code, "mutant").into_iter();
    let message = "a fault is a rewrite in the table of xtask, not a switch in the sources";
    found.map(|at| file.finding(line_of(&code, at), message)).collect()
}

#[test]
fn every_fault_has_its_place_in_the_sources() {
    let table = File::new(TABLE, rewrites::TABLE);
    let faults = rewrites::parse(&table.text)
        .unwrap_or_else(|(line, what)| panic!("{TABLE}:{line}: {what}"));
    let unsaid = faults.iter().filter(|fault| fault.what.is_empty());
    let mut findings: Vec<Finding> =
        unsaid.map(|fault| table.finding(fault.line, "a fault without a description")).collect();
    findings.extend(misplaced(&table, &files()));
    demand_none("every fault has its place", &findings);
    assert!(faults.len() > 40, "the table has more than 40 faults");
}

#[test]
fn no_switch_of_a_fault_stands_in_the_sources() {
    let findings: Vec<Finding> = files().iter().flat_map(switches).collect();
    demand_none("no switch of a fault in the sources", &findings);
}

/// A table of `faults`, and a source of four lines for it.
fn judged(faults: &str) -> Vec<usize> {
    let source = File::new(&format!("{LIBRARY}stream/lane.rs"), "a();\nb();\n\nb();\nc();\n");
    lines(&misplaced(&File::new(TABLE, faults), &[source]))
}

const GOOD: &str = "# A table.\n\n1 stream/lane.rs: forgets a\n-a();\n+crate::mutant::on(1);\n\n\
                    2 stream/lane.rs: does more\n b();\n\n b();\n+crate::mutant::on(2);\n";

#[test]
fn faults_that_have_their_places_pass() {
    assert_eq!(judged(GOOD), [0; 0]);
}

#[test]
fn a_fault_whose_lines_are_gone_or_stand_twice_is_found() {
    assert_eq!(judged(&GOOD.replace("-a();", "-a(x);")), [3]);
    assert_eq!(judged(&GOOD.replace("-a();", "-  a();")), [3]);
    assert_eq!(judged(&GOOD.replace("-a();", "-b();")), [3]);
    assert_eq!(judged(&GOOD.replace("-a();\n", "")), [3]);
}

#[test]
fn a_fault_of_a_missing_file_is_found() {
    assert_eq!(judged(&GOOD.replace("2 stream/lane.rs", "2 order/lane.rs")), [7]);
}

#[test]
fn numbers_that_are_not_dense_or_not_unique_are_found() {
    let with = |number: &str| {
        let other = GOOD.replace("\n2 ", &format!("\n{number} "));
        judged(&other.replace("on(2)", &format!("on({number})")))
    };
    assert_eq!(with("2"), [0; 0]);
    assert_eq!(with("1"), [7]);
    assert_eq!(with("3"), [7]);
}

#[test]
fn faults_that_overlap_are_found() {
    assert_eq!(judged(&GOOD.replace("-a();", "-a();\n b();")), [8]);
}

#[test]
fn a_fault_that_does_not_ask_its_own_switch_once_is_found() {
    assert_eq!(judged(&GOOD.replace("on(2)", "on(1)")), [7]);
    assert_eq!(judged(&GOOD.replace("+crate::mutant::on(2)", "+on(2)")), [7]);
}

#[test]
fn a_line_that_is_no_part_of_a_fault_is_found() {
    assert_eq!(judged("-a();\n"), [1]);
    assert_eq!(judged("x stream/lane.rs: forgets a\n"), [1]);
    assert_eq!(judged("1 stream/lane.rs\n"), [1]);
    assert_eq!(judged(&GOOD.replace("-a();", "~a();")), [4]);
}

#[test]
fn a_switch_in_the_sources_is_found() {
    let text = "use crate::base::mutant;\n// mutant\nfn f() { crate::mutant::on(7) }\n";
    assert_eq!(lines(&switches(&File::new("crates/trijet/src/stream/lane.rs", text))), [1, 3]);
    assert_eq!(lines(&switches(&File::new("xtask/src/mutants.rs", text))), [0; 0]);
}
