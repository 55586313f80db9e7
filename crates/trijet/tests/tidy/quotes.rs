//! Documents quote the files that they cite word for word.
//!
//! A paragraph that starts with `Recorded in` has links to files of the tree and, after each link,
//! quotations of that file in backticks. If a row of a new run replaces an old one, the check finds
//! the text that still quotes the old one.

use crate::docs::{describes_the_tree, followed};
use crate::{File, Finding, demand_none, files, lines};

/// The words at the start of such a paragraph.
const OPENING: &str = "Recorded in ";

/// The text with single spaces, because the columns of a table are padded.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the text has these words, and no longer word or number at their end: `8` is not in `80`.
fn has(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let mut rest = text[at + words.len()..].chars();
        let next = rest.next();
        let goes_on = next == Some('.') && rest.next().is_some_and(|c| c.is_ascii_digit());
        !goes_on && !next.is_some_and(char::is_alphanumeric)
    })
}

/// One quotation: its line, its file, and its words.
struct Quotation<'a> {
    line: usize,
    path: Option<String>,
    words: &'a str,
}

fn quotations(document: &File) -> Vec<Quotation<'_>> {
    let (mut found, mut path, mut inside) = (Vec::new(), None, false);
    for (line, text) in (1..).zip(document.text.lines()) {
        if text.starts_with(OPENING) {
            (inside, path) = (true, None);
        }
        inside &= !text.is_empty();
        if !inside {
            continue;
        }
        for (n, part) in text.split('`').enumerate() {
            if n % 2 == 1 {
                found.push(Quotation { line, path: path.clone(), words: part });
            } else if let Some((_, target)) = part.rsplit_once("](") {
                path = target.split(')').next().map(|link| followed(&document.path, link));
            }
        }
    }
    found
}

/// Quotations that no line of the cited file has.
fn not_there(document: &File, all: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Quotation { line, path, words } in quotations(document) {
        let cited = path.and_then(|path| all.iter().find(|file| file.path == path));
        let words = squeezed(words);
        let stands = |file: &File| file.text.lines().any(|text| has(&squeezed(text), &words));
        match cited {
            None => findings.push(document.finding(line, format!("`{words}` is of no file"))),
            Some(file) if !stands(file) => {
                findings.push(document.finding(line, format!("{} has no `{words}`", file.path)));
            }
            Some(_) => {}
        }
    }
    findings
}

#[test]
fn what_a_document_quotes_stands_in_the_file_that_it_cites() {
    let all = files();
    let documents: Vec<&File> = all.iter().filter(|file| describes_the_tree(file)).collect();
    let count: usize = documents.iter().map(|file| quotations(file).len()).sum();
    assert!(count > 50, "the errata quote their evidence");
    let found: Vec<_> = documents.iter().flat_map(|file| not_there(file, &all)).collect();
    demand_none("quotations of results", &found);
}

#[test]
fn a_part_of_a_number_is_no_quotation() {
    assert!(has("at once: 8", "at once: 8") && has("ms,2.5,1", "ms,2.5") && has("8, 80", "8"));
    assert!(!has("at once: 80", "at once: 8") && !has("ms,2.55", "ms,2.5") && !has("2.5", "2"));
}

#[test]
fn a_quotation_that_is_not_there_is_found() {
    let document = File::new(
        "docs/a.md",
        "`outside`\n\nRecorded in [a](../r/a.csv): `one,1`, `one,2`,\n`two 2`; in [b](../r/b.txt):\n\
         `two 2`, `one 1`.\n\nRecorded in words: `one,1`, or in [c](../r/c.txt): `one,1`.\n\n`outside`\n",
    );
    let all = [File::new("r/a.csv", "x,one,1\n"), File::new("r/b.txt", "one\n1\n  two    2\n")];
    assert_eq!(lines(&not_there(&document, &all)), [3, 4, 5, 7, 7]);
}
