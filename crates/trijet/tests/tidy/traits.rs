//! Each public trait stands in the table of docs/soundness.md, with the reason why a wrong
//! implementation in safe code reaches no memory. A trait is sealed if and only if its reason
//! states that.

use std::collections::BTreeMap;

use crate::source::{blank_tests, ident_at, line_of, mask, modules, occurrences, skip_space};
use crate::{File, Finding, demand_none, files};

/// The document with the table, and the heading above it.
const DOCUMENT: &str = "docs/soundness.md";
const HEADING: &str = "## Traits that safe code can implement";

/// The first word of the reason for a sealed trait.
const SEALED: &str = "Sealed";

/// A public trait: its line, and whether other crates cannot implement it.
struct Trait {
    line: usize,
    is_sealed: bool,
}

/// The file of a trait as the table names it.
fn place(file: &File) -> &str {
    file.in_library().unwrap_or(&file.path)
}

/// The public traits of a file, without the ones that seal others.
fn traits(file: &File) -> Vec<(&str, Trait)> {
    if !(file.is_rust() && file.path.starts_with("crates/") && file.path.contains("/src/")) {
        return Vec::new();
    }
    let code = blank_tests(&mask(&file.text));
    let seals: Vec<_> = modules(&code).into_iter().filter(|one| one.name == "sealed").collect();
    let is_seal =
        |at| seals.iter().filter_map(|one| one.body).any(|(open, end)| open < at && at < end);
    let declared = ["pub trait", "pub unsafe trait"].into_iter().flat_map(|words| {
        occurrences(&code, words).into_iter().map(move |at| (at, at + words.len()))
    });
    let mut found = Vec::new();
    for (at, end) in declared.filter(|(at, _)| !is_seal(*at)) {
        let begin = skip_space(&code, end);
        let name = &file.text[begin..begin + ident_at(&code, begin).len()];
        let header = &code[begin..begin + code[begin..].find('{').unwrap_or(0)];
        let is_sealed = !occurrences(header, "sealed").is_empty();
        found.push((name, Trait { line: line_of(&code, at), is_sealed }));
    }
    found
}

/// The rows of the table: trait and file, with the line and whether the reason is that the trait is
/// sealed.
fn rows(document: &File) -> BTreeMap<(&str, &str), Trait> {
    let lines = document.text.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
    let section = lines.skip(1).take_while(|(_, line)| !line.starts_with("## "));
    let rows = section.filter(|(_, line)| line.starts_with("| `")).map(|(n, line)| {
        let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim());
        let mut next = || cells.next().unwrap_or_default();
        let key = (next().trim_matches('`'), next().trim_matches('`'));
        (key, Trait { line: n + 1, is_sealed: next().starts_with(SEALED) })
    });
    rows.collect()
}

/// Traits without a row, rows without a trait, and rows that are wrong about the seal.
fn findings(document: &File, all: &[File]) -> Vec<Finding> {
    let (mut rows, mut findings) = (rows(document), Vec::new());
    for file in all {
        for (name, one) in traits(file) {
            match rows.remove(&(name, place(file))) {
                None => {
                    let message = format!("`{name}` is not in the table of {DOCUMENT}");
                    findings.push(file.finding(one.line, message));
                }
                Some(row) if row.is_sealed != one.is_sealed => {
                    let words = if one.is_sealed { "is sealed" } else { "is not sealed" };
                    findings.push(document.finding(row.line, format!("`{name}` {words}")));
                }
                Some(_) => {}
            }
        }
    }
    let gone = rows.iter().map(|((name, file), row)| {
        document.finding(row.line, format!("`{file}` has no public trait `{name}`"))
    });
    findings.extend(gone);
    findings
}

#[test]
fn every_public_trait_stands_in_the_table_of_traits() {
    let all = files();
    let document = all.iter().find(|file| file.path == DOCUMENT).expect("the document exists");
    assert!(rows(document).len() > 10, "the table has rows");
    demand_none("public traits", &findings(document, &all));
}

#[test]
fn a_trait_that_is_missing_gone_or_not_sealed_is_found() {
    let text = "mod sealed {\n    pub trait Seal {}\n}\npub trait A: sealed::Seal {}\npub trait B {}\n\
                pub(crate) trait C {}\npub unsafe trait D {}\npub trait E: sealed::Seal {}\n";
    let source = File::new("crates/trijet/src/x/y.rs", text);
    let other = File::new("crates/trijet-io/src/z.rs", "pub trait F {}\n");
    let table = format!(
        "| `B` | `x/y.rs` | |\n{HEADING}\n\n| trait | file | why |\n|---|---|---|\n\
         | `A` | `x/y.rs` | Sealed. |\n| `B` | `x/y.rs` | Sealed. |\n| `D` | `x/y.rs` | Unsafe. |\n\
         | `E` | `x/y.rs` | A reason. |\n| `F` | `crates/trijet-io/src/z.rs` | A reason. |\n\
         | `G` | `x/y.rs` | A reason. |\n\n## Another\n| `H` | `x/y.rs` | |\n"
    );
    let document = File::new(DOCUMENT, &table);
    let found = findings(&document, &[source, other]);
    let mut words: Vec<_> = found.iter().map(|one| (one.line, one.message.as_str())).collect();
    words.sort_unstable();
    let expected =
        [(7, "`B` is not sealed"), (9, "`E` is sealed"), (11, "`x/y.rs` has no public trait `G`")];
    assert_eq!(words, expected);
    let without = File::new(DOCUMENT, HEADING);
    let source = File::new("crates/trijet/src/x/y.rs", "\npub trait A {}\n");
    let found = findings(&without, &[source]);
    assert_eq!((found.len(), found[0].line), (1, 2));
}
