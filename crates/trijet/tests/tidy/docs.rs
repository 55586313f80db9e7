//! Rules about the documents: the tests that they name exist.

use crate::{File, Finding, demand_none, files, lines};

/// The document of the laws, which names the tests of each.
const LAWS: &str = "docs/semantics.md";

/// The names in backticks of the table's last column without a test. The form of a name says its
/// kind: `a_test`, `a-litmus-program`, or `a sequence of calls`.
fn unknown_tests(laws: &File, all: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (n, line) in laws.text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
        let Some(last) = line.trim_end().trim_end_matches('|').rsplit('|').next() else { continue };
        for name in last.split('`').skip(1).step_by(2).filter(|name| !is_known(name, all)) {
            findings.push(laws.finding(n + 1, format!("no test is called `{name}`")));
        }
    }
    findings
}

fn is_known(name: &str, all: &[File]) -> bool {
    let ours = || all.iter().filter(|file| file.path.starts_with("crates/trijet/"));
    let said = |text: String| ours().filter(|f| f.is_rust()).any(|file| file.text.contains(&text));
    if name.contains('/') {
        ours().any(|file| file.path.ends_with(name))
    } else if name.ends_with(".txt") {
        ours().any(|file| file.path.rsplit('/').next() == Some(name))
    } else if name.contains(' ') {
        // A title may end with the laws in brackets.
        let title = |line: &str| line.strip_prefix("= ")?.split(" (").next().map(str::to_owned);
        let is_title = |line: &str| title(line).as_deref() == Some(name);
        ours().filter(|f| f.path.ends_with(".txt")).any(|file| file.text.lines().any(is_title))
    } else if name.contains('-') {
        said(format!("\"{name}\""))
    } else {
        said(format!("fn {name}("))
    }
}

#[test]
fn every_test_that_the_laws_name_exists() {
    let all = files();
    let laws = all.iter().find(|file| file.path == LAWS).expect("the document of the laws exists");
    assert!(laws.text.matches('`').count() > 100, "the laws name their tests");
    demand_none("tests named in the laws", &unknown_tests(laws, &all));
}

#[test]
fn a_test_that_was_renamed_is_found() {
    let laws = File::new(
        LAWS,
        "| law | tests |\n| A1 | `old_name` |\n| A2 | `new_name`, `a sequence` |\n\
         | A3 | `no-litmus`; `a-litmus` |\n`outside_of_the_table`\n",
    );
    let all = [
        File::new("crates/trijet/tests/cases/a.rs", "fn new_name() {}\nlet x = \"a-litmus\";"),
        File::new("crates/trijet/src/device/conform/a.txt", "= a sequence\n"),
    ];
    assert_eq!(lines(&unknown_tests(&laws, &all)), [2, 4]);
}
